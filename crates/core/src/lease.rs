//! Who may write: owner token, fence, and what a holder shows of both.
//!
//! A lease ends by time, and time is not proof: an owner that was stopped for minutes wakes up
//! and still believes that it works. What keeps it from writing is the fence, a number that
//! grows with every change of owner. Why both are needed is told in `docs/leases.md`.

use std::fmt;

/// The number of a key's owners so far. It grows with every change of owner and is never reset
/// while the row is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The fence of a key that nobody ever claimed.
    pub const NONE: Fence = Fence(0);

    /// The fence with this number.
    pub const fn new(number: u64) -> Fence {
        Fence(number)
    }

    /// The number itself, for a column or an operator's eyes.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The fence of the next owner.
    pub const fn next(self) -> Fence {
        Fence(self.0.saturating_add(1))
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A random token, new for every claim, by which an owner recognises its own claim after a lost
/// acknowledgement. It is made by the shell; the core has no dice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// Nobody: what a row says that has no owner.
    pub const NONE: Owner = Owner([0; 16]);

    /// The token of these 128 random bits.
    pub const fn from_bytes(bytes: [u8; 16]) -> Owner {
        Owner(bytes)
    }

    /// The bits themselves, for a column.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

/// What an owner shows with every write: its token and the fence that it was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// The owner's token.
    pub owner: Owner,
    /// The fence of its claim.
    pub fence: Fence,
}

/// What a person has on the screen of a record or a delivery: whoever decides says which state of it that
/// was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct View {
    hold: Hold,
    revision: u64,
}

impl View {
    /// The view of a row with this hold and revision.
    pub const fn new(hold: Hold, revision: u64) -> View {
        View { hold, revision }
    }

    /// The hold that was seen.
    pub const fn hold(self) -> Hold {
        self.hold
    }
}

impl fmt::Display for View {
    /// The fence, the revision and the beginning of the owner's token, as in `3.7-9f2c01ab`: whatever
    /// is written to the row makes it another view.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}-", self.hold.fence, self.revision)?;
        self.hold.owner.bytes().iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
