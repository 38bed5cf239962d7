//! The words that exports use for what a record is and how it ended.

use super::{is_missing, trimmed};

/// What a record did in the life of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Money is taken in one step.
    Charge,
    /// Money is held, to be taken later.
    Authorise,
    /// Held money is taken.
    Capture,
    /// Taken money is given back.
    Refund,
    /// A hold or a payment is undone.
    Void,
    /// Something beside payments: a fee, a payout, a transfer.
    Other,
}

impl Stage {
    pub(crate) const ALL: [Self; 6] =
        [Self::Charge, Self::Authorise, Self::Capture, Self::Refund, Self::Void, Self::Other];

    /// Its number in a packed entry.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Charge => 0,
            Self::Authorise => 1,
            Self::Capture => 2,
            Self::Refund => 3,
            Self::Void => 4,
            Self::Other => 5,
        }
    }

    /// Reads a word of an operation column; `None` if it is not known.
    pub(crate) fn read(field: &[u8]) -> Option<Self> {
        let word = plain(field);
        let has = |part: &[u8]| memchr::memmem::find(&word, part).is_some();
        // The order matters: `authreversal` is a void, `paymentrefund` a refund.
        if has(b"refund") || has(b"chargeback") || has(b"return") {
            Some(Self::Refund)
        } else if has(b"void") || has(b"revers") || has(b"cancel") || has(b"release") {
            Some(Self::Void)
        } else if has(b"captur") || has(b"settle") || has(b"clearing") || has(b"complet") {
            Some(Self::Capture)
        } else if has(b"auth") || has(b"hold") || has(b"reserv") {
            Some(Self::Authorise)
        } else if has(b"fee") || has(b"payout") || has(b"adjust") || has(b"disput") || has(b"topup")
        {
            Some(Self::Other)
        } else if ["charge", "payment", "sale", "purchase", "debit", "pay", "paid", "order"]
            .iter()
            .any(|known| has(known.as_bytes()))
        {
            Some(Self::Charge)
        } else {
            None
        }
    }
}

/// How a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// It did what it says.
    Moved,
    /// It did nothing: declined, failed, expired.
    Failed,
    /// It has not ended yet.
    Open,
    /// It did what it says, and all of it was given back later.
    Returned,
}

impl Effect {
    pub(crate) const ALL: [Self; 4] = [Self::Moved, Self::Failed, Self::Open, Self::Returned];

    /// Its number in a packed entry.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Moved => 0,
            Self::Failed => 1,
            Self::Open => 2,
            Self::Returned => 3,
        }
    }

    /// Reads a word of a status column; `None` if it is not known. An empty field says nothing,
    /// and a record that says nothing has moved money.
    pub(crate) fn read(field: &[u8]) -> Option<Self> {
        const MOVED: [&str; 21] = [
            "succeed",
            "success",
            "paid",
            "complet",
            "captur",
            "settl",
            "ok",
            "approv",
            "authori",
            "done",
            "processed",
            "accept",
            "200",
            "201",
            "true",
            "confirm",
            "posted",
            "closed",
            "partial",
            "cleared",
            "sent",
        ];
        const FAILED: [&str; 14] = [
            "duplicat", "fail", "declin", "reject", "error", "cancel", "expir", "denied", "refus",
            "abandon", "block", "false", "timeout", "timedout",
        ];
        const OPEN: [&str; 11] = [
            "pending",
            "processing",
            "created",
            "initiat",
            "requires",
            "progress",
            "submitted",
            "new",
            "incomplete",
            "open",
            "unpaid",
        ];
        const RETURNED: [&str; 4] = ["refunded", "revers", "chargeback", "chargedback"];
        let word = plain(field);
        if is_missing(&word) {
            return Some(Self::Moved);
        }
        let has = |parts: &[&str]| {
            parts.iter().any(|part| memchr::memmem::find(&word, part.as_bytes()).is_some())
        };
        // The order matters: `partiallyrefunded` moved, `unpaid` is open, `incomplete` is open.
        if word.starts_with(b"partial") {
            Some(Self::Moved)
        } else if has(&RETURNED) || word == b"voided" || word == b"void" {
            Some(Self::Returned)
        } else if has(&FAILED) || word.starts_with(b"unsuccess") || word.starts_with(b"notpaid") {
            Some(Self::Failed)
        } else if has(&OPEN) {
            Some(Self::Open)
        } else if has(&MOVED) {
            Some(Self::Moved)
        } else {
            None
        }
    }
}

/// Whether a status says that a provider took the request for one it had seen.
pub(crate) fn is_duplicate_answer(status: &[u8]) -> bool {
    memchr::memmem::find(&plain(status), b"duplicat").is_some()
}

/// Lower case, letters and digits only, no longer than any word we know.
fn plain(field: &[u8]) -> Vec<u8> {
    const LONGEST: usize = 48;
    trimmed(field)
        .iter()
        .filter(|byte| byte.is_ascii_alphanumeric())
        .take(LONGEST)
        .map(u8::to_ascii_lowercase)
        .collect()
}

/// Whether a field of a "recurring" column says yes: a flag, or the id of a subscription.
pub(crate) fn is_yes(field: &[u8]) -> bool {
    let field = trimmed(field);
    let no = ["0", "f", "false", "no", "n", "one-time", "onetime", "single"];
    !is_missing(field) && !no.iter().any(|word| field.eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_by_their_usual_words() {
        for (word, stage) in [
            ("charge", Stage::Charge),
            ("PAYMENT", Stage::Charge),
            ("auth", Stage::Authorise),
            ("Pre-Auth", Stage::Authorise),
            ("captured", Stage::Capture),
            ("settled", Stage::Capture),
            ("refund", Stage::Refund),
            ("payment_refund", Stage::Refund),
            ("auth_reversal", Stage::Void),
            ("void", Stage::Void),
            ("stripe_fee", Stage::Other),
        ] {
            assert_eq!(Stage::read(word.as_bytes()), Some(stage), "{word}");
        }
        assert_eq!(Stage::read(b"xyz"), None);
    }

    #[test]
    fn states_by_their_usual_words() {
        for (word, effect) in [
            ("succeeded", Effect::Moved),
            ("Paid", Effect::Moved),
            ("", Effect::Moved),
            ("partially_refunded", Effect::Moved),
            ("refunded", Effect::Returned),
            ("voided", Effect::Returned),
            ("declined", Effect::Failed),
            ("unsuccessful", Effect::Failed),
            ("canceled", Effect::Failed),
            ("requires_action", Effect::Open),
            ("unpaid", Effect::Open),
            ("incomplete", Effect::Open),
        ] {
            assert_eq!(Effect::read(word.as_bytes()), Some(effect), "{word}");
        }
        assert_eq!(Effect::read(b"xyzzy"), None);
    }

    #[test]
    fn the_codes_are_the_places_in_all() {
        for (code, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(stage.code()), code);
        }
        for (code, effect) in Effect::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(effect.code()), code);
        }
    }
}
