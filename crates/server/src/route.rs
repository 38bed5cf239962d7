//! A route: its name, its policy, and what of its answers is kept.

use crate::capture::Room;
use samekey_core::key::Org;
use samekey_core::policy::{Choices, Policy, PolicyFault};
use samekey_core::receipt::Keep;
use std::sync::Arc;

/// A command of a service, made once at start-up and cheap to clone.
#[derive(Clone, Debug)]
pub struct Route(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    policy: Policy,
    keep: Keep,
    room: Room,
}

impl Route {
    /// A route with these choices. A choice out of bounds is refused with its reason, so that a
    /// service that cannot keep the promise does not start.
    ///
    /// `name` is what metrics and logs call it. The name of an external route is more: it is part of the
    /// outbound key, and recovery finds open keys by it. Never change it, and give no two routes one
    /// name: under another name nobody asks about the open keys, and the counterparty meets the same
    /// command under another key.
    pub fn new(name: impl Into<String>, choices: Choices) -> Result<Route, PolicyFault> {
        let policy = choices.check()?;
        let room = Room::new(policy.body_bytes_max);
        Ok(Route(Arc::new(Inner { name: name.into(), policy, keep: Keep::default(), room })))
    }

    /// The same route, keeping this of its answers.
    #[must_use]
    pub fn keeping(self, keep: Keep) -> Route {
        let Inner { name, policy, room, .. } = &*self.0;
        let (name, policy, room) = (name.clone(), policy.clone(), room.clone());
        Route(Arc::new(Inner { name, policy, keep, room }))
    }

    /// What metrics and logs call it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.0.policy
    }

    pub(crate) fn room(&self) -> &Room {
        &self.0.room
    }

    /// What of its answers is kept.
    pub fn keep(&self) -> &Keep {
        &self.0.keep
    }
}

/// Who sends a command, as the service's own authentication has *verified* it.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    /// The organisation: the scope of its keys. Never take it from a header that the caller can set.
    pub org: Org,
    /// The principal within the organisation, compared only on routes with `bind_principal`.
    pub principal: Option<String>,
}

impl Caller {
    /// A caller of this organisation, without a principal.
    pub fn of(org: Org) -> Caller {
        Caller { org, principal: None }
    }
}
