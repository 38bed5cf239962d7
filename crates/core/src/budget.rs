//! How much a destination is bothered: a budget for retries, and a gate that shuts when it is ill.
//!
//! Both are values that a worker keeps in memory, one of each per destination; time is given to them as
//! the span since some start. The budget is a token bucket as in Google's SRE book, "Addressing
//! Cascading Failures", and tower's `retry::budget`; the gate is a circuit breaker that begins again slowly.

use crate::backoff::{Backoff, Chance, spread_of};
use std::time::Duration;

/// A thousandth of a token: what the bucket counts in, so that 0.2 is exact.
const TOKEN: u32 = 1_000;
/// The most that a quiet time saves up.
const CAP: u32 = 50 * TOKEN;
/// What a destination begins with.
const START: u32 = 10 * TOKEN;
/// What a retry costs.
const RETRY_COSTS: u32 = TOKEN;
/// What a success pays back, and what a second does.
const PAYS: u32 = TOKEN / 5;

/// The tokens from which retries to one destination are paid. First attempts and probes cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    tokens: u32,
    /// Up to when time was paid for.
    paid_until: Duration,
}

impl Budget {
    /// A budget that begins now.
    pub const fn new(now: Duration) -> Budget {
        Budget { tokens: START, paid_until: now }
    }

    /// Pays for as many of `wanted` retries as there are tokens, and says for how many.
    #[must_use]
    pub fn draw(&mut self, wanted: u32, now: Duration) -> u32 {
        self.pass(now);
        let granted = wanted.min(self.tokens / RETRY_COSTS);
        self.tokens -= granted * RETRY_COSTS;
        granted
    }

    /// Gives back what was drawn for a retry that was not sent.
    pub fn give_back(&mut self, retries: u32) {
        self.add(retries.saturating_mul(RETRY_COSTS));
    }

    /// A command succeeded.
    pub fn succeeded(&mut self, now: Duration) {
        self.pass(now);
        self.add(PAYS);
    }

    /// How long until one retry can be paid; zero if one can now.
    pub fn wait(&mut self, now: Duration) -> Duration {
        self.pass(now);
        let missing = RETRY_COSTS.saturating_sub(self.tokens);
        let micros = u64::from(missing) * 1_000_000 / u64::from(PAYS);
        Duration::from_micros(micros)
    }

    fn pass(&mut self, now: Duration) {
        let Some(span) = now.checked_sub(self.paid_until) else { return };
        let earned = span.as_millis().saturating_mul(u128::from(PAYS)) / 1_000;
        let Ok(earned) = u32::try_from(earned) else {
            self.tokens = CAP;
            self.paid_until = now;
            return;
        };
        if earned > 0 {
            self.add(earned);
            // What is left of the span for less than a token's thousandth stays to be paid.
            let paid = u64::from(earned) * 1_000_000 / u64::from(PAYS);
            self.paid_until += Duration::from_micros(paid);
        }
    }

    fn add(&mut self, tokens: u32) {
        self.tokens = self.tokens.saturating_add(tokens).min(CAP);
    }
}

/// How many of the last outcomes the gate looks at.
const WINDOW: u32 = 20;
/// With fewer it does not judge.
const JUDGES_FROM: u32 = 5;
/// The pauses between two probes. Half of each is by chance: the processes that are told by one destination at
/// one moment that it fails do not all come back at one moment.
const PROBES: Backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(30) };
/// When to look again while a probe is on its way.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Whether anything is sent to a destination, and how much at a time.
///
/// It shuts when most of the last outcomes were failures of the destination. Then nothing passes but one
/// probe at a time; after one that succeeds, as many pass at a time as succeeded in a row, doubling up to
/// the destination's own limit. What was on its way when it shut says nothing about how the destination is
/// now: those outcomes neither open it nor make its pauses longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The last outcomes, the newest in the lowest bit; 1 is a failure.
    history: u32,
    seen: u32,
    state: GateState,
    concurrency_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateState {
    /// As many pass as the destination takes.
    Open,
    /// After it was shut: so many pass at a time, and so many more successes are wanted for the next step.
    Opening { limit: u32, wanted: u32 },
    /// One probe from `probe_at` on, the how-manieth since it shut.
    Shut { probe_at: Duration, number: u32, probing: bool },
}

/// What a gate lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// As many as this at a time.
    UpTo(u32),
    /// One, as a probe. Whoever takes it says so with [`Gate::probe`].
    Probe,
    /// Nothing before this moment; while a probe is on its way, look again then.
    Nothing(Duration),
}

impl Gate {
    /// An open gate of a destination that takes so many requests at a time.
    pub const fn new(concurrency_max: u32) -> Gate {
        Gate { history: 0, seen: 0, state: GateState::Open, concurrency_max }
    }

    /// What passes now.
    pub fn passing(&self, now: Duration) -> Passing {
        match self.state {
            GateState::Open => Passing::UpTo(self.concurrency_max),
            GateState::Opening { limit, .. } => Passing::UpTo(limit),
            GateState::Shut { probing: true, .. } => {
                Passing::Nothing(now.saturating_add(LOOK_AGAIN))
            }
            GateState::Shut { probe_at, probing: false, .. } if now >= probe_at => Passing::Probe,
            GateState::Shut { probe_at, probing: false, .. } => Passing::Nothing(probe_at),
        }
    }

    /// Whether it is shut.
    pub fn is_shut(&self) -> bool {
        matches!(self.state, GateState::Shut { .. })
    }

    /// The probe was taken.
    pub fn probe(&mut self) {
        if let GateState::Shut { probing, .. } = &mut self.state {
            *probing = true;
        }
    }

    /// The probe that was taken was not sent.
    pub fn probe_given_back(&mut self) {
        if let GateState::Shut { probing, .. } = &mut self.state {
            *probing = false;
        }
    }

    /// The destination did its work: it executed, refused, or answered a question.
    pub fn succeeded(&mut self) {
        self.remember(0);
        match self.state {
            GateState::Open | GateState::Shut { probing: false, .. } => {}
            GateState::Shut { probing: true, .. } => {
                self.history = 0;
                self.seen = 0;
                self.state = GateState::Opening { limit: 1, wanted: 1 };
                self.widen();
            }
            GateState::Opening { .. } => self.widen(),
        }
    }

    /// The destination failed: it could not be reached, did not answer, or answered with an error. It is
    /// left alone for `retry_after` at the least.
    pub fn failed(&mut self, now: Duration, retry_after: Option<Duration>, chance: Chance) {
        self.remember(1);
        let failures = self.history.count_ones();
        match self.state {
            GateState::Shut { .. } => self.stays_shut(now, retry_after, chance),
            // While it recovers, one failure is enough: what came before it is no longer counted.
            GateState::Opening { .. } => self.shut(now, 1, retry_after, chance),
            GateState::Open => {
                if self.seen >= JUDGES_FROM && failures.saturating_mul(2) > self.seen {
                    self.shut(now, 1, retry_after, chance);
                }
            }
        }
    }

    /// The destination said that it takes nothing for now: it shuts at once.
    pub fn refused_for_now(
        &mut self,
        now: Duration,
        retry_after: Option<Duration>,
        chance: Chance,
    ) {
        match self.state {
            GateState::Shut { .. } => self.stays_shut(now, retry_after, chance),
            GateState::Open | GateState::Opening { .. } => self.shut(now, 1, retry_after, chance),
        }
    }

    /// A probe failed, or something that was on its way before.
    fn stays_shut(&mut self, now: Duration, retry_after: Option<Duration>, chance: Chance) {
        let GateState::Shut { probe_at, number, probing } = self.state else { return };
        if probing {
            self.shut(now, number.saturating_add(1), retry_after, chance);
        } else if let Some(asked) = retry_after {
            let left_alone = now.saturating_add(asked.saturating_add(spread_of(asked, chance)));
            let probe_at = probe_at.max(left_alone);
            self.state = GateState::Shut { probe_at, number, probing };
        }
    }

    fn shut(&mut self, now: Duration, number: u32, retry_after: Option<Duration>, chance: Chance) {
        let probe_at = now.saturating_add(PROBES.wait(number, retry_after, chance));
        self.state = GateState::Shut { probe_at, number, probing: false };
    }

    fn widen(&mut self) {
        let GateState::Opening { limit, wanted } = self.state else { return };
        self.state = match wanted.saturating_sub(1) {
            0 if limit.saturating_mul(2) >= self.concurrency_max => GateState::Open,
            0 => {
                let limit = limit.saturating_mul(2);
                GateState::Opening { limit, wanted: limit }
            }
            wanted => GateState::Opening { limit, wanted },
        };
    }

    fn remember(&mut self, failure: u32) {
        self.history = ((self.history << 1) | failure) & ((1 << WINDOW) - 1);
        self.seen = self.seen.saturating_add(1).min(WINDOW);
    }
}
