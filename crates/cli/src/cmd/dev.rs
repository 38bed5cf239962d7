//! `samekey dev`: what the demonstration shows, left running.

use crate::cmd::demo::{Pace, paragraph, seconds};
use crate::database::block_on_all;
use crate::exit::Stopped;
use crate::output::{called, say};
use crate::stand::{Listen, Stand, address};
use crate::stop::Stop;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Play with a gateway before an API that loses answers
///
/// Starts the payments API and the gateway of `samekey demo`, prints their addresses and lines to type in
/// another terminal, and runs until Ctrl-C. Then everything that was recorded is gone.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Exit codes: 0 stopped, 2 words that cannot be understood, 3 an address or the temporary folder cannot be used."
)]
pub struct Arguments {
    /// Where the gateway listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = address)]
    listen: SocketAddr,
    /// Where the API listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS", value_parser = address)]
    api: SocketAddr,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Stopped> {
    block_on_all(async {
        let stop = Stop::listen()?;
        let listen = Listen { api: arguments.api, gateway: arguments.listen };
        let stand = Stand::start(listen, Pace::USUAL.late).await?;
        say(&greeting(&stand))?;
        stop.asked().await;
        stand.end().await?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Addresses first, for programs; then what to type.
fn greeting(stand: &Stand) -> String {
    let (api, gateway, database) = (stand.lab().url(""), stand.gateway_url(""), stand.database());
    let (late, patience) = (seconds(Pace::USUAL.late), Pace::USUAL.patience.as_secs());
    let name = called();
    let about_api = paragraph(&format!(
        "The API records every payment at once, knows nothing of keys, and answers every second request {late} late."
    ));
    let straight = paragraph(
        "Straight to it, without a key. Type it until one is lost (curl: timed out), then again, as one does:",
    );
    let through = paragraph(
        "Through the gateway, under one key. Type it as often as you like: it is sent on once, and then you get its answer:",
    );
    let counted = paragraph("What was really recorded, and what the gateway keeps of a key:");
    format!(
        "api     {api}\ngateway {gateway}\n\n{about_api}\n\
         {straight}  curl -m {patience} {api}/payments -d order_id=ORD-1\n\n\
         {through}  curl -im {patience} {gateway}/payments -d order_id=ORD-2 -H 'Idempotency-Key: pay-ORD-2'\n\n\
         {counted}  curl {api}/payments.csv\n  \
         {name} keys show default pay-ORD-2 --database {database}\n\n\
         Ctrl-C ends both and removes everything.\n"
    )
}
