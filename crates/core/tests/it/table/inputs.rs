//! Every input, from everybody who might bring it.

use super::variants::{A, COMMAND, LIFE, Q, kept, owner};
use crate::grid::Bringer;
use samekey_core::fingerprint::Version;
use samekey_core::lease::{Fence, Hold, Owner};
use samekey_core::record::{Identity, Reason, Record};
use samekey_core::step::{Arrival, Claim, Decision, Finding, Input};

/// Who brings an input. Claims, questions and the sweep come from anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Anybody,
    /// Whose token and fence are the row's.
    Holder,
    /// The first owner of this life, where somebody has asked since.
    A,
    /// Who asked first, where somebody has asked since.
    Q,
    /// An owner of an earlier life.
    O,
    /// A hold that nobody was ever given: the right fence with a wrong token.
    WrongToken,
    /// The right token with a fence that was not reached yet.
    LaterFence,
    /// A person who looks at the row as it is.
    Person,
    /// A person who looks at the row as it once was.
    LatePerson,
}

impl Bringer for Who {
    fn name(self) -> &'static str {
        match self {
            Who::Anybody => "",
            Who::Holder => "holder",
            Who::A => "A",
            Who::Q => "Q",
            Who::O => "O",
            Who::WrongToken => "wrong token",
            Who::LaterFence => "later fence",
            Who::Person => "person",
            Who::LatePerson => "late person",
        }
    }

    fn whole(self) -> Option<usize> {
        match self {
            Who::Anybody | Who::Holder => None,
            Who::A | Who::Q | Who::O | Who::WrongToken | Who::LaterFence => Some(13),
            Who::Person | Who::LatePerson => Some(4),
        }
    }
}

pub(super) struct Named {
    pub(super) who: Who,
    pub(super) what: &'static str,
    pub(super) input: Input,
}

/// What a claim can ask for, seen from the command that the key belongs to.
fn commands() -> [(&'static str, Identity); 5] {
    let mut body = COMMAND;
    body.digest.request_sha = [8; 32];
    let mut frame = body;
    frame.digest.frame_sha = [8; 32];
    let mut principal = COMMAND;
    principal.principal_sha = Some([8; 32]);
    let mut version = COMMAND;
    version.version = Version(2);
    [
        ("claim", COMMAND),
        ("claim other body", body),
        ("claim other path", frame),
        ("claim other principal", principal),
        ("claim other algorithm", version),
    ]
}

/// What an owner or asker may report, final findings with the answer of the grid's `Done` and with
/// another one.
fn reports(hold: Hold) -> [(&'static str, Input); 13] {
    let hear = |finding| Input::Hear(hold, finding);
    [
        ("renew", Input::Renew(hold)),
        ("settle 201", Input::Settle(hold, kept(201))),
        ("settle 402", Input::Settle(hold, kept(402))),
        ("release", Input::Release(hold)),
        ("doubt", Input::Doubt(hold, Reason::ServerError)),
        ("hear executed 201", hear(Finding::Executed(kept(201)))),
        ("hear executed 402", hear(Finding::Executed(kept(402)))),
        ("hear refused 201", hear(Finding::Refused(kept(201)))),
        ("hear refused 402", hear(Finding::Refused(kept(402)))),
        ("hear not found", hear(Finding::NotFound)),
        ("hear pending", hear(Finding::Pending)),
        ("hear cannot tell", hear(Finding::CannotTell)),
        ("hear different", hear(Finding::Different)),
    ]
}

fn decisions(seen: Hold) -> [(&'static str, Input); 4] {
    [
        ("decide executed 201", Input::Decide(seen, Decision::Executed(kept(201)))),
        ("decide not executed", Input::Decide(seen, Decision::NotExecuted)),
        ("decide close", Input::Decide(seen, Decision::Close)),
        ("forget", Input::Forget(seen)),
    ]
}

pub(super) fn all(record: &Record) -> Vec<Named> {
    let new = owner(b'N');
    let mut all = Vec::new();
    let mut add = |who, what, input| all.push(Named { who, what, input });

    for (what, request) in commands() {
        let claim = Claim { request, owner: new, arrival: Arrival::Ordinary };
        add(Who::Anybody, what, Input::Claim(claim));
    }
    let early = Claim { request: COMMAND, owner: new, arrival: Arrival::Early };
    add(Who::Anybody, "claim in early data", Input::Claim(early));
    if record.holder != Owner::NONE {
        let again = Claim { request: COMMAND, owner: record.holder, arrival: Arrival::Ordinary };
        add(Who::Holder, "claim again", Input::Claim(again));
    }
    let lost = Claim { request: COMMAND, owner: new, arrival: Arrival::Ordinary };
    add(Who::Anybody, "claim after loss", Input::ClaimAfterLoss(lost));
    add(Who::Anybody, "restore", Input::Restore);
    add(Who::Anybody, "ask", Input::Ask(new));
    add(Who::Anybody, "sweep", Input::Sweep);

    let holder = record.hold();
    let holds = [
        (Who::Holder, holder),
        (Who::A, Hold { owner: A, fence: LIFE }),
        (Who::Q, Hold { owner: Q, fence: LIFE.next() }),
        (Who::O, Hold { owner: owner(b'O'), fence: Fence::new(2) }),
        (Who::WrongToken, Hold { owner: owner(b'W'), fence: record.fence }),
        (Who::LaterFence, Hold { owner: record.holder, fence: record.fence.next() }),
    ];
    for (who, hold) in holds {
        let earlier_of_this_life = hold.fence < record.fence;
        let shown = match who {
            Who::A | Who::Q => earlier_of_this_life,
            Who::Holder => record.holder != Owner::NONE,
            Who::O | Who::WrongToken | Who::LaterFence => true,
            Who::Anybody | Who::Person | Who::LatePerson => false,
        };
        if shown {
            reports(hold).into_iter().for_each(|(what, input)| add(who, what, input));
        }
    }
    let late = Fence::new(record.fence.number().wrapping_sub(1));
    let late = Hold { owner: record.holder, fence: late };
    decisions(holder).into_iter().for_each(|(what, input)| add(Who::Person, what, input));
    decisions(late).into_iter().for_each(|(what, input)| add(Who::LatePerson, what, input));
    all
}
