//! What people who run such systems have reported, as short histories. Each test bears the number of its
//! case; `docs/calling.md` tells the rule behind it.

mod doubts;
mod tries;

use samekey_core::backoff::Chance;
use samekey_core::delivery::{Delivery, Reason};
use samekey_core::lease::{Hold, Owner};
use samekey_core::outcome::{Heard, NotRun, Outcome, Speaks, Told};
use samekey_core::plan::{Attempt, Input, Verdict, enqueued, plan};
use samekey_core::profile::{Answers, Declared, Limits, Profile};
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::time::Time;
use std::time::Duration;

const DEDUPS: Declared = Declared { dedups: Some(seconds(24 * 3_600)), answers: None };
const OPAQUE: Declared = Declared::OPAQUE;
const ANSWERS: Declared = Declared {
    dedups: None,
    answers: Some(Answers { not_found_after: Some(seconds(600)), by_reference: true }),
};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn receipt(status: u16) -> Receipt {
    Receipt::Kept(Answer { status, headers: Vec::new(), body: "ok".into() })
}

/// One command with its clock, and who works on it.
struct Case {
    delivery: Delivery,
    now: Time,
    profile: Profile,
    workers: u8,
}

impl Case {
    fn new(limits: Limits, declared: Declared) -> Case {
        let now = Time::from_micros(1_000_000_000);
        let profile = limits.check(declared).unwrap();
        Case { delivery: enqueued(now, Duration::ZERO, &profile), now, profile, workers: 0 }
    }

    fn say(&mut self, input: Input) -> Verdict {
        let (next, verdict) = plan(self.delivery.clone(), input, self.now, &self.profile);
        self.delivery = next;
        verdict
    }

    fn passes(&mut self, span: Duration) {
        self.now = self.now.plus(span);
    }

    /// A new worker takes it when it is due.
    fn take(&mut self) -> Verdict {
        self.now = self.now.max(self.delivery.due().unwrap());
        self.workers += 1;
        self.say(Input::Take(Owner::from_bytes([self.workers; 16])))
    }

    fn send(&mut self) -> Attempt {
        let verdict = self.take();
        let Verdict::Send(attempt) = verdict else {
            panic!("{verdict:?} instead of an attempt: {:?}", self.delivery)
        };
        attempt
    }

    fn ask(&mut self) -> Hold {
        let verdict = self.take();
        let Verdict::Ask(hold, _) = verdict else {
            panic!("{verdict:?} instead of a question: {:?}", self.delivery)
        };
        hold
    }

    fn report(&mut self, hold: Hold, what: Outcome) -> Verdict {
        self.say(Input::Report(hold, Told::plain(what), Chance::LEAST))
    }

    fn report_wait(&mut self, hold: Hold, what: Outcome, wait: Duration) -> Verdict {
        let told = Told { what, retry_after: Some(wait) };
        self.say(Input::Report(hold, told, Chance::LEAST))
    }

    fn hear(&mut self, hold: Hold, what: Heard) -> Verdict {
        self.say(Input::Hear(hold, Told::plain(what), Chance::LEAST))
    }

    fn state(&self) -> &'static str {
        self.delivery.state_name()
    }
}

const TIMED_OUT: Outcome = Outcome::Unknown(Reason::TimedOut);
const NOT_SENT: Outcome = Outcome::NotRun(NotRun::NotSent);

fn done() -> Outcome {
    Outcome::Done(receipt(201))
}

fn refused() -> Outcome {
    Outcome::Refused(receipt(402), Speaks::ForItself)
}
