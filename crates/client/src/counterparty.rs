//! Who executes commands, and what can be asked of it.

use samekey_core::delivery::AskedBy;
use samekey_core::outcome::{Heard, Outcome, Told};
use samekey_core::profile::Declared;
use samekey_store::outbox::Command;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// One attempt to have a command executed.
#[derive(Clone, Debug)]
pub struct Order {
    /// The command. Its bytes are sent as they are, under its key.
    pub command: Command,
    /// The number of the attempt, from 1.
    pub number: u32,
    /// How long it may take, the connection included.
    pub time_max: Duration,
}

/// A question what became of a command.
#[derive(Clone, Debug)]
pub struct Question {
    /// The command.
    pub command: Command,
    /// By what it is asked about.
    pub by: AskedBy,
    /// How long it may take, the connection included.
    pub time_max: Duration,
}

/// What an attempt or a question came to, and what people want to read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<T> {
    /// What it proves.
    pub told: Told<T>,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
}

/// A counterparty: it sends one attempt, and asks one question.
///
/// Neither may try again by itself, follow a redirect, or go on when its time is over: every attempt is on
/// record before its first byte leaves, and there is one record for one attempt. Both futures may be dropped
/// at any moment; then nothing more may be sent.
pub trait Counterparty: Send + Sync + 'static {
    /// What it can be relied on for. It must not change while the program runs.
    fn declared(&self) -> Declared;

    /// Sends the command once, and says what that proves. Credentials are looked up now, and are in nothing
    /// that is returned or logged.
    fn send(&self, order: Order) -> impl Future<Output = Reply<Outcome>> + Send;

    /// Asks what became of the command. It is only called where [`Counterparty::declared`] says that there
    /// are answers.
    fn ask(&self, question: Question) -> impl Future<Output = Reply<Heard>> + Send;
}

type Replying<'a, T> = Pin<Box<dyn Future<Output = Reply<T>> + Send + 'a>>;

/// A counterparty whose type is forgotten, so that one courier serves different ones.
pub(crate) trait Boxed: Send + Sync {
    fn send_boxed(&self, order: Order) -> Replying<'_, Outcome>;
    fn ask_boxed(&self, question: Question) -> Replying<'_, Heard>;
}

impl<C: Counterparty> Boxed for C {
    fn send_boxed(&self, order: Order) -> Replying<'_, Outcome> {
        Box::pin(self.send(order))
    }

    fn ask_boxed(&self, question: Question) -> Replying<'_, Heard> {
        Box::pin(self.ask(question))
    }
}
