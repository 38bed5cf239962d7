//! What a call keeps to, whoever sends its requests: one key, its limits, and what each attempt proves.

use super::{AttemptSeen, Called, RetryingOptions};
use crate::chance::chance;
use crate::error::Error;
use crate::http_counterparty::{KeyForm, Reading, key_value, proof_of};
use crate::transport::Exchange;
use http::{HeaderMap, HeaderName};
use samekey_core::key::Key;
use samekey_core::lease::Owner;
use samekey_core::outcome::Outcome;
use samekey_core::plan::{Input, Verdict, enqueued, plan};
use samekey_core::profile::{Declared, Limits, Profile};
use samekey_core::time::Time;
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// There is one owner of a row in memory.
const OWNER: Owner = Owner::from_bytes([1; 16]);

/// The checked options of a client or a layer, but for those about connections.
pub(super) struct Rules {
    limits: Limits,
    declared: Declared,
    key_header: (HeaderName, KeyForm),
    reading: Reading,
}

impl Rules {
    pub(super) fn of(options: &RetryingOptions) -> Result<Rules, Error> {
        let RetryingOptions { limits, key_life, key_header, answer, .. } = options;
        let declared = Declared { dedups: *key_life, answers: None };
        profile(*limits, declared)?;
        let compared = [&answer.amount, &answer.currency, &answer.reference];
        if compared.iter().any(|pair| pair.is_some()) {
            return Err(Error::config(
                "answer.amount, answer.currency and answer.reference are compared by HttpCounterparty only; leave them out",
            ));
        }
        Ok(Rules {
            limits: *limits,
            declared,
            key_header: key_header.clone().check()?,
            reading: answer.clone().check()?,
        })
    }

    /// How long a call is tried.
    pub(super) fn time_max(&self) -> Duration {
        self.limits.time_max
    }

    /// The profile of a call that may take so long at the most.
    pub(super) fn profile_within(&self, time_max: Duration) -> Result<Profile, Error> {
        let limits = self.limits;
        let limits = Limits {
            time_max: limits.time_max.min(time_max),
            attempt_time_max: limits.attempt_time_max.min(time_max),
            ..limits
        };
        profile(limits, self.declared)
    }

    /// The key of a call: that in its headers, or a new one, which is put there.
    pub(super) fn put_key(&self, headers: &mut HeaderMap) -> Result<Key, Error> {
        let (name, form) = &self.key_header;
        let lines = headers.get_all(name).iter().map(|value| value.as_bytes());
        let given = Key::from_header_lines(lines)
            .map_err(|fault| Error::request(format!("the request's {name}: {fault}")))?;
        let key = match given {
            Some(key) => key,
            None => new_key()?,
        };
        let value = key_value(key.as_str(), *form)
            .ok_or_else(|| Error::request(format!("the request's {name} cannot be sent")))?;
        headers.insert(name.clone(), value);
        Ok(key)
    }

    /// The same loop as the courier's, with one command and its row in memory. `send` makes one attempt of so
    /// long at the most.
    pub(super) async fn drive<F, Sending>(
        &self,
        key: &Key,
        profile: &Profile,
        mut send: F,
    ) -> Called
    where
        F: FnMut(Duration) -> Sending,
        Sending: Future<Output = Exchange>,
    {
        let began = Instant::now();
        let now = || Time::EPOCH.plus(began.elapsed());
        let mut attempts = Vec::new();
        let mut delivery = enqueued(now(), Duration::ZERO, profile);
        while delivery.is_open() {
            if let Some(due) = delivery.due() {
                sleep_until(began + due.since(Time::EPOCH)).await;
            }
            let (taken, verdict) = plan(delivery, Input::Take(OWNER), now(), profile);
            delivery = taken;
            // A question is never due: nobody is declared to answer any.
            let Verdict::Send(attempt) = verdict else { continue };
            let sent_at = Instant::now();
            let exchange = send(attempt.time_max).await;
            let phase = exchange.failed_in();
            let reply = proof_of(exchange, &self.reading, key.as_str());
            let seen = AttemptSeen {
                number: attempt.number,
                began: sent_at - began,
                took: sent_at.elapsed(),
                time_max: attempt.time_max,
                phase,
                status: reply.status,
                told: reply.told,
            };
            let input = Input::Report(attempt.hold, seen.told.clone(), chance());
            let accepts_nothing = matches!(seen.told.what, Outcome::NotAccepted(_));
            attempts.push(seen);
            (delivery, _) = plan(delivery, input, now(), profile);
            // A durable command waits here until a person has seen to the credential. Nobody does that while
            // somebody waits for an answer.
            if accepts_nothing {
                break;
            }
        }
        Called::of(key.clone(), delivery, attempts)
    }
}

fn profile(limits: Limits, declared: Declared) -> Result<Profile, Error> {
    limits.check(declared).map_err(|fault| Error::config(fault.to_string()))
}

/// A UUID of version 4. All its bits come from the operating system each time: nothing is kept that a fork or
/// a restored snapshot could repeat.
fn new_key() -> Result<Key, Error> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits)
        .map_err(|_| Error::request("the operating system gave no random bits for a key"))?;
    bits[6] = (bits[6] & 0x0f) | 0x40;
    bits[8] = (bits[8] & 0x3f) | 0x80;
    let text = samekey_store::OutboundKey::from_bytes(bits).to_string();
    Key::new(&text).map_err(|fault| Error::request(fault.to_string()))
}

#[cfg(test)]
mod tests {
    use super::new_key;
    use std::collections::HashSet;

    #[test]
    fn b97_keys_do_not_repeat_and_are_uuids_of_version_4() {
        let threads: Vec<_> = (0..10)
            .map(|_| std::thread::spawn(|| (0..10_000).map(|_| new_key().unwrap()).collect()))
            .collect();
        let keys: Vec<Vec<_>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let all: HashSet<&str> = keys.iter().flatten().map(|key| key.as_str()).collect();
        assert_eq!(all.len(), 100_000);
        for key in all {
            let bytes = key.as_bytes();
            assert_eq!((bytes.len(), bytes[14]), (36, b'4'), "{key}");
            assert!(b"89ab".contains(&bytes[19]), "{key}");
        }
    }
}
