//! A service whose orders and payments a retry never makes twice.
//!
//! `POST /orders` is an atomic command: the order and its key are committed together. The first write
//! wins, so a retry gets the first order back, with status 200, whatever amount it carries. This
//! program is meant to be copied: [`service`] is the part that a service of your own has, [`shop`] its
//! tables, [`delivery`] the payment of an order, which a courier has executed once, [`payments`] a command
//! whose caller waits for an effect elsewhere, [`serve`] an accept loop with the time limits that
//! `axum::serve` lacks.

mod delivery;
mod payments;
mod provider;
mod serve;
mod service;
mod shop;
mod tokens;

use clap::Parser;
use samekey::store::address::redacted;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Exit code for words that cannot be understood.
const USAGE: u8 = 2;
/// Exit code for a database or an address that cannot be reached.
const UNREACHABLE: u8 = 3;

/// How long orders and payments may take to end after the signal to stop. Who is killed before loses
/// nothing: what was on its way is asked about.
const GRACE: Duration = Duration::from_secs(10);

/// Orders that a retry never makes twice.
#[derive(Parser, Debug)]
#[command(version, about)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080", env = "ORDERS_LISTEN", value_parser = listen)]
    listen: SocketAddr,
    /// Database: sqlite:FILE or postgres://USER:PASSWORD@HOST:PORT/DATABASE
    #[arg(
        long,
        default_value = "sqlite:orders.db",
        env = "ORDERS_DATABASE",
        hide_env_values = true
    )]
    database: String,
    /// Bearer token and the organisation it speaks for, as TOKEN=ORG; may be given several times
    /// [default: alpha-token=alpha, beta-token=beta]
    #[arg(
        long = "token",
        value_name = "TOKEN=ORG",
        env = "ORDERS_TOKENS",
        hide_env_values = true,
        value_delimiter = ','
    )]
    tokens: Vec<String>,
    /// How long a client may take for its headers, in milliseconds
    #[arg(long, default_value_t = millis(serve::HEADERS_TIME_MAX), env = "ORDERS_HEADERS_TIME_MAX_MS", value_parser = time())]
    headers_time_max_ms: u64,
    /// How long a client may take for its body, in milliseconds
    #[arg(long, default_value_t = millis(serve::BODY_TIME_MAX), env = "ORDERS_BODY_TIME_MAX_MS", value_parser = time())]
    body_time_max_ms: u64,
    /// How long orders and payments on their way may take to end after the signal to stop, in milliseconds
    #[arg(long, default_value_t = millis(GRACE), env = "ORDERS_GRACE_MS", value_parser = time())]
    grace_ms: u64,
    #[command(flatten)]
    payments: payments::Flags,
}

/// A client's time has an end: an hour at the most, in milliseconds.
fn time() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=3_600_000)
}

fn listen(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an IP address and a port, such as 127.0.0.1:8080")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return not_understood(&error),
    };
    tracing_subscriber::fmt()
        .with_env_filter(log_filter())
        .with_writer(std::io::stderr)
        // Colours are for people; a file would be full of escapes.
        .with_ansi(std::io::stderr().is_terminal())
        // A log that cannot be written must not end what it tells of.
        .log_internal_errors(false)
        .init();
    let tokens = match tokens::Tokens::parse(&arguments.tokens) {
        Ok(tokens) => tokens,
        Err(sentence) => return stop(USAGE, &sentence),
    };
    let terms = match arguments.payments.check() {
        Ok(terms) => terms,
        Err(sentence) => return stop(USAGE, &sentence),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return stop(UNREACHABLE, &format!("no runtime could be started: {error}")),
    };
    match runtime.block_on(run(&arguments, tokens, &terms)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stopped) => stop(stopped.code, &stopped.sentence),
    }
}

/// What RUST_LOG says, and warnings without it. The driver of PostgreSQL writes the values of statements
/// at DEBUG, so it is kept at INFO unless RUST_LOG names it.
fn log_filter() -> tracing_subscriber::EnvFilter {
    use tracing_subscriber::EnvFilter;
    let wanted = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    if wanted.is_empty() {
        return EnvFilter::new("warn");
    }
    let driver = if wanted.contains("tokio_postgres") { "" } else { ",tokio_postgres=info" };
    EnvFilter::builder().parse_lossy(format!("{wanted}{driver}"))
}

/// Why the program ends: the exit code and one sentence.
struct Stopped {
    code: u8,
    sentence: String,
}

async fn run(
    arguments: &Arguments,
    tokens: tokens::Tokens,
    terms: &payments::Terms,
) -> Result<(), Stopped> {
    let unusable = |error: samekey::store::StoreError| Stopped {
        code: if error.kind() == samekey::store::Kind::Address { USAGE } else { UNREACHABLE },
        sentence: format!("the database cannot be used: {error}"),
    };
    let shop = shop::Shop::open(&arguments.database, terms).await.map_err(unusable)?;
    let payments = shop.payments(terms).await.map_err(unusable)?;
    let listener = serve::listen(arguments.listen).map_err(|error| Stopped {
        code: UNREACHABLE,
        sentence: format!(
            "{} cannot be listened on: {error}; choose another address with --listen",
            arguments.listen
        ),
    })?;
    let address = listener.local_addr().unwrap_or(arguments.listen);
    let demo = arguments.tokens.is_empty();
    tell(&format!("listening on http://{address}\n{}\n", lesson(address, demo, terms.kind)));
    let (sweeper, recovery) = (shop.spawn_sweeper(), payments.spawn_recovery());
    let (courier, books) = (shop.spawn_courier(), shop.spawn_books());
    let body_time_max = Duration::from_millis(arguments.body_time_max_ms);
    let headers_time_max = Duration::from_millis(arguments.headers_time_max_ms);
    let router = service::router(shop.clone(), payments, tokens, body_time_max);
    serve::serve(listener, router, headers_time_max).await;
    drop((sweeper, recovery));
    books.abort();
    let grace = Duration::from_millis(arguments.grace_ms);
    // What a courier has sent is written down before the program ends, if it is answered in time.
    let (orders, payments) = tokio::join!(shop.drain(grace), courier.drain(grace));
    if !(orders && payments) {
        tracing::warn!(
            "some commands had not ended; their transactions are rolled back, their payments are asked about"
        );
    }
    Ok(())
}

/// The lines that show what a retry gets. The key is another one at every start, so that the first
/// time is the first time; tokens that somebody chose are not shown.
fn lesson(address: SocketAddr, demo: bool, provider: payments::Kind) -> String {
    let token = if demo { "alpha-token" } else { "YOUR-TOKEN" };
    let key = uuid::Uuid::new_v4();
    let (paid_key, payment_key) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let other = if demo {
        "With beta-token the same key is\nanother organisation's own order."
    } else {
        "With another organisation's token\nthe same key is that organisation's own order."
    };
    let late = match provider {
        payments::Kind::Answers => {
            "Where the answer is late it says 409 and asks what became of it: send the same\nagain."
        }
        payments::Kind::Dedups => {
            "Where the answer is late it says 409 and asks by sending the provider the same\nkey: send the same again."
        }
        payments::Kind::Opaque => {
            "Where the answer is late it says 409 and a person decides:\nsamekey keys list --review --help"
        }
    };
    format!(
        r#"
Send an order, and send it again as if the answer had been lost:

  curl -i http://{address}/orders \
    -H 'Authorization: Bearer {token}' \
    -H 'Idempotency-Key: {key}' \
    -H 'Content-Type: application/json' -d '{{"amount": 1200}}'

The first time it answers 201, every further time 200 with the same id. Change
the amount, and the first order still stands. {other}

Pay for it, at the provider ("samekey lab api" plays one, and answers every
second payment late):

  curl -i http://{address}/payments \
    -H 'Authorization: Bearer {token}' \
    -H 'Idempotency-Key: {payment_key}' \
    -H 'Content-Type: application/json' \
    -d '{{"order_id": "ORD-1", "amount": 1200}}'

The first time it answers 201, and so does every further time, without a second
payment. Another amount is refused with 422.
{late}

Order and have it paid by a courier, which finishes what a crash leaves open:

  curl -i http://{address}/orders \
    -H 'Authorization: Bearer {token}' \
    -H 'Idempotency-Key: {paid_key}' \
    -H 'Content-Type: application/json' \
    -d '{{"amount": 1200, "pay": true}}'

It answers at once. Get what its Location names, and "payment" tells
how it stands."#
    )
}

/// Says this on standard output. Nobody has to read it; the service serves all the same.
fn tell(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush())
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        tracing::warn!(%error, "standard output cannot be written");
    }
}

/// What the command line's parser has to say. It repeats what was typed, and an address in the wrong place
/// would show its password.
fn not_understood(error: &clap::Error) -> ExitCode {
    let text = redacted(&error.render().to_string());
    // Nobody can be told that this cannot be written.
    let _ = if error.use_stderr() {
        write!(std::io::stderr(), "{text}")
    } else {
        write!(std::io::stdout(), "{text}")
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE))
}

fn stop(code: u8, sentence: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "orders: {}", redacted(sentence));
    ExitCode::from(code)
}
