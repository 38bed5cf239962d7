//! The payments book: what is recorded, and what a key, an order or a payment stands for. It decides and keeps;
//! it knows no sockets, no clock and no faults.

use super::amount::Amount;
use super::command::Fields;
use super::digest::BodyHash;
use super::entry::{Answered, Arrived, Effect, EffectKind, Entry, Op};
use super::records::{Records, Tag, effect_of};
use super::standing::Standing;
use crate::faults::{Keys, OnMismatch};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

/// Effects of one order or payment that are looked at, newest first; a bound for a ledger with one huge order.
const CHAIN_MAX: usize = 1000;

/// How much there is, since the last reset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Requests that came in whole (management aside).
    pub arrived: u64,
    /// Requests whose answer was sent, lost, or no longer wanted.
    pub answered: u64,
    /// Payments and authorisations recorded.
    pub payments: u64,
    /// Effects of every kind recorded, refusals of the payer's side included.
    pub effects: u64,
}

/// A command, ready to be performed.
#[derive(Debug, Clone)]
pub struct Command {
    /// What is asked for.
    pub op: Op,
    /// The payment that is captured, refunded or voided.
    pub payment_id: Option<String>,
    /// What the body said.
    pub fields: Fields,
    /// The key.
    pub key: Option<String>,
    /// The request it came with.
    pub request: u64,
    /// That request's path and query.
    pub path: Cow<'static, str>,
    /// SHA-256 of that request's body.
    pub body_sha256: BodyHash,
    /// True where the payer's side refuses.
    pub is_declined: bool,
}

/// What performing a command led to.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Recorded now.
    Recorded(Effect),
    /// Recorded before, under the same key.
    Replayed(Effect),
    /// Nothing was recorded.
    Refused(Refusal),
}

/// Why nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: u16,
    /// A word for programs.
    pub error: &'static str,
    /// A sentence for people.
    pub detail: String,
    /// The payment that it is about, where there is one.
    pub payment_id: Option<String>,
}

impl Refusal {
    /// A refusal that is about no payment in particular.
    pub fn new(status: u16, error: &'static str, detail: impl Into<String>) -> Self {
        Self { status, error, detail: detail.into(), payment_id: None }
    }
}

/// The book.
pub struct Book {
    records: Box<dyn Records>,
    /// Position of the first entry that counts.
    since: u64,
    next_request: u64,
    numbers: HashMap<Op, u64>,
    counts: Counts,
}

impl Book {
    /// A book over an empty keeper. One with entries is told them by `replay`.
    pub fn new(records: Box<dyn Records>) -> Self {
        Self {
            records,
            since: 0,
            next_request: 1,
            numbers: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// A book over a keeper whose entries were counted by `tally`.
    pub fn resume(records: Box<dyn Records>, tally: Tally) -> Self {
        Self {
            records,
            since: tally.since,
            next_request: tally.last_request + 1,
            numbers: tally.numbers,
            counts: tally.counts,
        }
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Position after the last entry.
    pub fn end(&self) -> u64 {
        self.records.next_position()
    }

    /// Entries from a position on, and the position after them.
    pub fn batch(&self, from: u64, max: usize) -> io::Result<(Vec<Entry>, u64)> {
        self.records.batch(from.max(self.since), max)
    }

    /// The next request id, and the next number of its kind.
    pub fn number(&mut self, op: Op) -> (u64, u64) {
        let request = self.identify();
        let number = self.numbers.entry(op).or_insert(0);
        *number += 1;
        (request, *number)
    }

    /// The next request id, for a request that does not count.
    pub fn identify(&mut self) -> u64 {
        let request = self.next_request;
        self.next_request += 1;
        request
    }

    /// Logs a request. Kept for good with the next `flush`.
    pub fn log_arrived(&mut self, arrived: Box<Arrived>) -> io::Result<()> {
        self.counts.arrived += 1;
        self.records.append(Entry::Arrived(arrived))
    }

    /// Logs the end of a request. Kept for good with the next `flush`.
    pub fn log_answered(&mut self, answered: Answered) -> io::Result<()> {
        self.counts.answered += 1;
        self.records.append(Entry::Answered(answered))
    }

    /// Makes what was appended survive this process.
    pub fn flush(&mut self) -> io::Result<()> {
        self.records.flush()
    }

    /// Forgets everything. The file keeps its lines; they no longer count.
    pub fn reset(&mut self, at_ms: i64) -> io::Result<()> {
        self.records.forget()?;
        self.records.append(Entry::Reset { at_ms })?;
        self.records.flush()?;
        self.since = self.records.next_position();
        self.numbers.clear();
        self.counts = Counts::default();
        Ok(())
    }

    /// Performs a command: a known key records nothing, a new one records one effect.
    pub fn perform(
        &mut self,
        command: Command,
        keys: &Keys,
        duplicate_window_ms: Option<u64>,
        at_ms: i64,
    ) -> io::Result<Outcome> {
        if let Some(known) = self.known(&command, keys, at_ms)? {
            return Ok(known);
        }
        let planned = match command.op {
            Op::Pay => self.payment(&command, duplicate_window_ms, at_ms)?,
            Op::Capture | Op::Refund | Op::Void => self.movement(&command)?,
            Op::Query | Op::Other => {
                Err(Refusal::new(404, "not_found", "there is nothing to do at this address"))
            }
        };
        match planned {
            Ok(draft) => self.record(command, draft, at_ms).map(Outcome::Recorded),
            Err(refusal) => Ok(Outcome::Refused(refusal)),
        }
    }

    /// What was recorded under a key, if it still lives.
    pub fn by_key(&self, key: &str, keys: &Keys, at_ms: i64) -> io::Result<Option<Effect>> {
        let Some(position) = self.records.latest(Tag::key(key))? else { return Ok(None) };
        let found = self.records.effect_at(position)?;
        let lives = |effect: &Effect| {
            let age_ms = u64::try_from(at_ms - effect.at_ms).unwrap_or(0);
            keys.life_ms.is_none_or(|life_ms| age_ms < life_ms)
        };
        Ok(found.filter(|effect| effect.key.as_deref() == Some(key) && lives(effect)))
    }

    /// What was recorded for an order, newest first (the last 1000).
    pub fn by_order(&self, order_id: &str) -> io::Result<Vec<Effect>> {
        let latest = self.records.latest(Tag::order(order_id))?;
        self.chain(latest, |effect| effect.earlier_of_order, |effect| effect.order_id == order_id)
    }

    /// How a payment stands.
    pub fn by_payment(&self, id: &str) -> io::Result<Option<Standing>> {
        let Some(number) = number_of(id) else { return Ok(None) };
        let latest = self.records.latest_of_payment(number)?;
        let chain = self.chain(
            latest,
            |effect| effect.earlier_of_payment,
            |effect| effect.payment_id() == id,
        )?;
        Ok(Standing::of(chain.iter().rev()))
    }

    fn chain(
        &self,
        mut next: Option<u64>,
        earlier: impl Fn(&Effect) -> Option<u64>,
        belongs: impl Fn(&Effect) -> bool,
    ) -> io::Result<Vec<Effect>> {
        let mut effects = Vec::new();
        while let Some(position) = next.filter(|_| effects.len() < CHAIN_MAX) {
            let Some(effect) = self.records.effect_at(position)?.filter(&belongs) else { break };
            next = earlier(&effect);
            effects.push(effect);
        }
        Ok(effects)
    }

    fn known(&self, command: &Command, keys: &Keys, at_ms: i64) -> io::Result<Option<Outcome>> {
        let Some(key) = command.key.as_deref().filter(|_| keys.dedup) else { return Ok(None) };
        let Some(effect) = self.by_key(key, keys, at_ms)? else { return Ok(None) };
        let other_body =
            keys.on_mismatch == OnMismatch::Reject && effect.body_sha256 != command.body_sha256;
        if effect.path != command.path || other_body {
            let detail = "this key was used for another request; a new action needs a new key";
            return Ok(Some(Outcome::Refused(Refusal::new(422, "key_reused", detail))));
        }
        Ok(Some(Outcome::Replayed(effect)))
    }

    fn payment(
        &self,
        command: &Command,
        duplicate_window_ms: Option<u64>,
        at_ms: i64,
    ) -> io::Result<Result<Draft, Refusal>> {
        let Some(order_id) = command.fields.order_id.clone() else {
            let detail =
                "the body names no order_id, for example {\"order_id\":\"ORD-1\",\"amount\":1500}";
            return Ok(Err(Refusal::new(400, "order_missing", detail)));
        };
        if let Some(window_ms) = duplicate_window_ms {
            let twin = |earlier: &Effect| {
                let age_ms = u64::try_from(at_ms - earlier.at_ms).unwrap_or(0);
                let equal = earlier.amount.as_ref().map(Amount::ten_thousandths)
                    == command.fields.amount.as_ref().map(Amount::ten_thousandths);
                earlier.effect.is_payment() && equal && age_ms < window_ms
            };
            if let Some(earlier) = self.by_order(&order_id)?.into_iter().find(twin) {
                let detail = "a payment of this order and amount was made a moment ago";
                return Ok(Err(Refusal {
                    payment_id: Some(earlier.id),
                    ..Refusal::new(409, "duplicate", detail)
                }));
            }
        }
        let effect = match (command.is_declined, command.fields.capture) {
            (true, _) => EffectKind::Declined,
            (false, true) => EffectKind::Payment,
            (false, false) => EffectKind::Authorisation,
        };
        let amount = command.fields.amount.clone();
        Ok(Ok(Draft {
            effect,
            parent_id: None,
            order_id,
            amount,
            currency: command.fields.currency.clone(),
        }))
    }

    fn movement(&self, command: &Command) -> io::Result<Result<Draft, Refusal>> {
        let id = command.payment_id.as_deref().unwrap_or_default();
        let Some(standing) = self.by_payment(id)? else {
            return Ok(Err(Refusal::new(404, "not_found", "there is no payment with this id")));
        };
        Ok(standing.allow(command.op, command.fields.amount.as_ref()).map(|(effect, amount)| {
            Draft {
                effect: if command.is_declined { EffectKind::Declined } else { effect },
                parent_id: Some(id.to_owned()),
                order_id: standing.order_id,
                amount,
                currency: standing.currency,
            }
        }))
    }

    fn record(&mut self, command: Command, draft: Draft, at_ms: i64) -> io::Result<Effect> {
        self.counts.effects += 1;
        let prefix = match draft.effect {
            EffectKind::Payment | EffectKind::Authorisation => "PAY",
            EffectKind::Capture => "CAP",
            EffectKind::Refund => "REF",
            EffectKind::Void => "VOID",
            EffectKind::Declined => "DEC",
        };
        let position = self.records.next_position();
        let mut effect = Effect {
            effect: draft.effect,
            id: format!("{prefix}-{}", self.counts.effects),
            parent_id: draft.parent_id,
            order_id: draft.order_id,
            amount: draft.amount,
            currency: draft.currency,
            key: command.key,
            request: command.request,
            path: command.path,
            body_sha256: command.body_sha256,
            at_ms,
            earlier_of_order: None,
            earlier_of_payment: None,
        };
        if effect.effect.is_payment() {
            self.counts.payments += 1;
        }
        link(self.records.as_mut(), &mut effect, position)?;
        self.records.append(Entry::Effect(Box::new(effect.clone())))?;
        Ok(effect)
    }
}

/// Puts an effect under its tags and notes what was there before.
fn link(records: &mut dyn Records, effect: &mut Effect, position: u64) -> io::Result<()> {
    if let Some(key) = &effect.key {
        records.replace(Tag::key(key), position)?;
    }
    effect.earlier_of_order = records.replace(Tag::order(&effect.order_id), position)?;
    if let Some(number) = number_of(effect.payment_id()) {
        effect.earlier_of_payment = records.replace_of_payment(number, position)?;
    }
    Ok(())
}

/// The number in an id such as `PAY-17`.
fn number_of(id: &str) -> Option<u64> {
    id.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

struct Draft {
    effect: EffectKind,
    parent_id: Option<String>,
    order_id: String,
    amount: Option<Amount>,
    currency: Option<String>,
}

/// Counts the entries of a ledger that is opened again.
#[derive(Debug, Default)]
pub struct Tally {
    since: u64,
    last_request: u64,
    numbers: HashMap<Op, u64>,
    counts: Counts,
}

impl Tally {
    /// Takes one entry, in order, and puts it under its tags.
    pub fn take(
        &mut self,
        records: &mut dyn Records,
        position: u64,
        entry: Entry,
    ) -> io::Result<()> {
        if let Some(effect) = effect_of(&entry) {
            self.counts.effects += 1;
            self.counts.payments += u64::from(effect.effect.is_payment());
            link(records, &mut effect.clone(), position)?;
        }
        match entry {
            Entry::Effect(_) => {}
            Entry::Answered(_) => self.counts.answered += 1,
            Entry::Arrived(arrived) => {
                self.counts.arrived += 1;
                self.last_request = self.last_request.max(arrived.request);
                let number = self.numbers.entry(arrived.op).or_insert(0);
                *number = (*number).max(arrived.number);
            }
            Entry::Reset { .. } => {
                records.forget()?;
                self.numbers.clear();
                self.counts = Counts::default();
                self.since = records.next_position();
            }
        }
        Ok(())
    }
}
