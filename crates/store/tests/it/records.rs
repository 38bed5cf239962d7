//! Records to work with, one of every kind.

use bytes::Bytes;
use samekey_core::fingerprint::{Digest, Version};
use samekey_core::key::{Key, Org, Scope};
use samekey_core::lease::{Fence, Owner};
use samekey_core::receipt::{Answer, Receipt};
use samekey_core::record::{
    Closed, Done, Identity, Reason, Record, Review, Running, State, Unknown,
};
use samekey_core::time::Time;
use samekey_store::{Decided, Intent, OutboundKey};
use std::time::Duration;

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);

pub fn scope(org: &str, key: &str) -> Scope {
    Scope { org: Org::stored(org).expect("an org"), key: Key::new(key).expect("a key") }
}

pub fn owner(number: u8) -> Owner {
    Owner::from_bytes([number; 16])
}

pub fn identity(number: u8) -> Identity {
    Identity {
        version: Version(1),
        digest: Digest { request_sha: [number; 32], frame_sha: [number.wrapping_add(1); 32] },
        principal_sha: number.is_multiple_of(2).then_some([number; 32]),
    }
}

/// A running record whose times are counted from `start`.
pub fn running(start: Time, number: u8) -> Record {
    Record {
        fence: Fence::new(1),
        holder: owner(number),
        revision: 1,
        keep_until: start.plus(HOUR),
        state: State::Running(Running {
            request: identity(number),
            since: start,
            lease_ends: start.plus(MINUTE),
            run_ends: start.plus(5 * MINUTE),
        }),
    }
}

/// What a new claim offers: the same, counted from the epoch.
pub fn offer(number: u8) -> Record {
    running(Time::EPOCH, number)
}

/// The intent of a claim that says nothing in particular.
pub fn intent() -> Intent {
    intent_of("route", 1)
}

/// The intent of a claim of this route.
pub fn intent_of(route: &str, number: u8) -> Intent {
    Intent {
        route: route.to_owned(),
        outbound_key: OutboundKey::from_bytes([number; 16]),
        request: number.is_multiple_of(2).then(|| Bytes::from(vec![number, 0, 255])),
    }
}

/// What a person decided, having seen this fence.
pub fn decided(person: &str, seen: Fence) -> Decided {
    Decided {
        decision: "close".to_owned(),
        person: person.to_owned(),
        note: "the bank says: \"nothing\"; don't wait".to_owned(),
        evidence: "https://bank.example/statements/7\nline 2".to_owned(),
        seen,
        at: Time::from_micros(7),
    }
}

/// The successor of a record, in another state.
pub fn after(record: &Record, state: State) -> Record {
    Record { revision: record.revision + 1, state, ..record.clone() }
}

pub fn done(now: Time, number: u8) -> State {
    State::Done(Done { request: identity(number), since: now, receipt: kept(201, b"paid") })
}

pub fn kept(status: u16, body: &'static [u8]) -> Receipt {
    Receipt::Kept(Answer {
        status,
        headers: vec![
            (Box::from("content-type"), Bytes::from_static(b"application/json")),
            (Box::from("link"), Bytes::from_static(b"</a>; rel=\"next\"")),
            (Box::from("link"), Bytes::from_static(b"\xFF\x01 not text")),
        ],
        body: Bytes::from_static(body),
    })
}

fn bare(status: u16, body: &'static [u8]) -> Receipt {
    Receipt::Kept(Answer { status, headers: Vec::new(), body: Bytes::from_static(body) })
}

/// Every receipt that lies differently in the columns.
pub fn receipts() -> Vec<Receipt> {
    vec![
        kept(201, b"{\"id\":1}"),
        kept(200, b""),
        bare(204, b""),
        bare(200, b"\0\xFF\xFE\0"),
        Receipt::Fact { status: 202, location: None },
        Receipt::Fact { status: 201, location: Some(Bytes::from_static(b"/orders/1")) },
        Receipt::Fact { status: 201, location: Some(Bytes::new()) },
    ]
}

/// Every state that lies differently in the columns, at a moment.
pub fn states(now: Time) -> Vec<State> {
    let unknown = |reason, evidence| {
        State::Unknown(Unknown {
            request: identity(3),
            life: Fence::new(1),
            since: now,
            reason,
            last_send: now.plus(MINUTE),
            asked: 7,
            not_found: 1,
            ask_after: now.plus(2 * MINUTE),
            evidence,
        })
    };
    let mut all = vec![
        State::Free,
        State::Running(Running {
            request: identity(4),
            since: now,
            lease_ends: now.plus(MINUTE),
            run_ends: now.plus(MINUTE),
        }),
        State::Closed(Closed { request: identity(5), since: now }),
        unknown(Reason::TimedOut, None),
    ];
    for (reason, _) in Reason::ALL {
        all.push(State::Review(Review {
            request: identity(6),
            life: Fence::new(1),
            since: now,
            reason,
        }));
    }
    for receipt in receipts() {
        all.push(unknown(Reason::LeaseLapsed, Some(receipt.clone())));
        all.push(State::Done(Done { request: identity(7), since: now, receipt }));
    }
    all
}
