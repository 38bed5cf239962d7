//! `samekey demo`: a lost answer, and what two clients make of it.

mod client;
mod result;
mod screen;

pub use client::Pace;
pub use screen::{seconds, width};

use crate::database::block_on_all;
use crate::exit::{Code, Stopped};
use crate::output::{called, say};
use crate::show::{Format, json};
use crate::stand::{self, Listen, Stand};
use crate::stop::Stop;
use client::Client;
use console::Term;
use result::{Result as Outcome, Tally};
use screen::Screen;
use std::process::ExitCode;

/// How many orders are paid, as in the lab's exercise: every second answer is lost, and three are.
const ORDERS: usize = 4;

/// See a lost answer become a double payment, and a key prevent it
///
/// Starts a payments API that records every payment at once and answers every second request late, and a
/// gateway before it, both in this process. Two clients that wait less long pay the same orders: a naive one
/// sends again what it got no answer to; a safe one does the same under one key an order, through the gateway.
/// Then it counts what the API has recorded. It takes about 25 s, and leaves nothing behind.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 shown, 1 it did not show what it should, or was stopped by Ctrl-C, 2 words that cannot be \
                  understood, 3 a port or the temporary folder cannot be used."
)]
pub struct Arguments {
    /// Four times as quick: under 10 s
    #[arg(long)]
    fast: bool,
    /// For whom the result is printed; progress goes to standard error either way
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    let pace = if arguments.fast { Pace::FAST } else { Pace::USUAL };
    let outcome = block_on_all(show(pace, arguments.format))?;
    match arguments.format {
        Format::Json => say(&format!("{}\n", json(&outcome)?))?,
        Format::Text => say(&ending(&outcome))?,
    }
    outcome.check()?;
    Ok(ExitCode::SUCCESS)
}

/// Lets both clients pay, one after the other, each with a fresh API.
async fn show(pace: Pace, format: Format) -> Result<Outcome, Stopped> {
    let stop = Stop::listen()?;
    let orders: Vec<String> = (1..=ORDERS).map(|number| format!("ORD-{number}")).collect();
    if format == Format::Text {
        say(&beginning(pace))?;
    }
    // What cannot be started is told before anybody has waited.
    let stand = Stand::start(Listen::default(), pace.late).await?;
    let paid = both(pace, &orders, &stand, &stop).await;
    stand.end().await?;
    paid
}

async fn both(
    pace: Pace,
    orders: &[String],
    stand: &Stand,
    stop: &Stop,
) -> Result<Outcome, Stopped> {
    let naive = naive(pace, orders, stop).await?;
    let safe = safe(pace, orders, stand, stop).await?;
    Ok(Outcome::of(orders.len(), naive, safe))
}

async fn naive(pace: Pace, orders: &[String], stop: &Stop) -> Result<Tally, Stopped> {
    let lab = stand::api(Listen::default().api, pace.late).await?;
    let mut client = Client::new(lab.url("/payments"), pace);
    let title = "sends again what it got no answer to, straight to the API";
    let screen = Screen::of("naive", title, orders);
    let all = async {
        for (at, order) in orders.iter().enumerate() {
            client.pay_naively(order, |seen| screen.tell(at, order, seen)).await;
        }
    };
    unless(stop, all).await?;
    let tally = Tally::of(&lab, orders, client.came())?;
    screen.end(tally.per_order());
    Ok(tally)
}

async fn safe(pace: Pace, orders: &[String], stand: &Stand, stop: &Stop) -> Result<Tally, Stopped> {
    let mut client = Client::new(stand.gateway_url("/payments"), pace);
    let title = "the same under one key an order, through the gateway";
    let screen = Screen::of("safe", title, orders);
    let all = async {
        for (at, order) in orders.iter().enumerate() {
            client.pay_safely(order, |seen| screen.tell(at, order, seen)).await;
        }
    };
    unless(stop, all).await?;
    let tally = Tally::of(stand.lab(), orders, client.came())?;
    screen.end(tally.per_order());
    Ok(tally)
}

/// Waits for the end of something, unless somebody wants to stop.
async fn unless(stop: &Stop, it: impl Future<Output = ()>) -> Result<(), Stopped> {
    tokio::select! {
        () = it => Ok(()),
        () = stop.asked() => Err(Stopped::new(
            Code::NothingDecided,
            "stopped before its end; nothing is left behind",
        )),
    }
}

fn beginning(pace: Pace) -> String {
    paragraph(&format!(
        "A payments API records every payment at once, knows nothing of keys, and answers every second request \
         {} late. Two clients wait {} for an answer. Both pay the same {ORDERS} orders.",
        seconds(pace.late),
        seconds(pace.patience),
    ))
}

fn ending(outcome: &Outcome) -> String {
    let name = called();
    // What it shows is said only where it was seen.
    let meaning = match outcome.check() {
        Err(_) => String::new(),
        Ok(()) => paragraph(
            "Counted in the API's ledger. To the naive client a lost answer looked like a payment that did not \
             happen. The safe one came back under its key: the gateway had sent the order on once, and kept the \
             answer.",
        ),
    };
    format!(
        "\n{}\n{meaning}\nNext:\n  \
         {name} dev\n      the same, left running\n  \
         {name} lab new practice\n      do it yourself\n  \
         {name} gateway --upstream http://127.0.0.1:9000\n      before a service of yours\n",
        outcome.table(),
    )
}

/// A paragraph as wide as the terminal.
pub fn paragraph(text: &str) -> String {
    let mut lines = textwrap::wrap(text, width(&Term::stdout())).join("\n");
    lines.push('\n');
    lines
}
