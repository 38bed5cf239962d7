//! From the fields of a record to what they mean.

use super::columns::Field;
use super::layout::Layout;
use super::problem::ProblemKind;
use super::split::Record;
use crate::options::Options;
use crate::value::amount::{self, Currency, DECIMALS_USUAL};
use crate::value::id::Id;
use crate::value::time::{self, Clock, Moment};
use crate::value::words::{self, Effect, Stage};
use crate::value::{is_missing, trimmed};

/// What a record says, borrowed from the record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact<'a> {
    pub(crate) id: Id<'a>,
    pub(crate) reference: Id<'a>,
    pub(crate) parent: Id<'a>,
    pub(crate) key: Id<'a>,
    pub(crate) payer: &'a [u8],
    pub(crate) payee: &'a [u8],
    pub(crate) source: &'a [u8],
    pub(crate) moment: Moment,
    /// In minor units, never negative.
    pub(crate) amount: Option<i64>,
    pub(crate) refunded: Option<i64>,
    pub(crate) currency: Option<Currency>,
    pub(crate) stage: Stage,
    pub(crate) effect: Effect,
    pub(crate) recurring: bool,
    pub(crate) doubts: Doubts<'a>,
}

/// Doubts about one record, each with what was found.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doubts<'a> {
    found: [Option<(ProblemKind, &'a [u8])>; 4],
}

impl<'a> Doubts<'a> {
    fn add(&mut self, kind: ProblemKind, found: &'a [u8]) {
        // Four slots hold all doubts a record can have at once that matter to a reader.
        if let Some(slot) = self.found.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some((kind, found));
        }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = (ProblemKind, &'a [u8])> {
        self.found.into_iter().flatten()
    }
}

/// A record that cannot be used: why, and what was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) kind: ProblemKind,
    pub(crate) found: Vec<u8>,
}

/// Reads the records of one layout.
#[derive(Debug)]
pub(crate) struct RowReader<'l> {
    layout: &'l Layout,
    width: usize,
    places: Places,
    currency_usual: Option<Currency>,
    failed_words: &'l [String],
    moved_words: &'l [String],
    statuses: WordCache<Effect>,
    operations: WordCache<Stage>,
}

/// The columns, looked up once.
#[derive(Debug, Clone, Copy)]
struct Places {
    id: Option<usize>,
    reference: Option<usize>,
    time: Option<usize>,
    time_of_day: Option<usize>,
    amount: Option<usize>,
    currency: Option<usize>,
    payer: Option<usize>,
    payee: Option<usize>,
    key: Option<usize>,
    status: Option<usize>,
    operation: Option<usize>,
    source: Option<usize>,
    parent: Option<usize>,
    refunded: Option<usize>,
    recurring: Option<usize>,
    last: usize,
}

impl<'l> RowReader<'l> {
    pub(crate) fn new(layout: &'l Layout, options: &'l Options) -> Self {
        let of = |field| layout.columns.of(field);
        let places = Places {
            id: of(Field::Id),
            reference: of(Field::Reference),
            time: of(Field::Time),
            time_of_day: layout.columns.time_of_day,
            amount: of(Field::Amount),
            currency: of(Field::Currency),
            payer: of(Field::Payer),
            payee: of(Field::Payee),
            key: of(Field::Key),
            status: of(Field::Status),
            operation: of(Field::Operation),
            source: of(Field::Source),
            parent: of(Field::Parent),
            refunded: of(Field::Refunded),
            recurring: of(Field::Recurring),
            last: layout.columns.last(),
        };
        Self {
            layout,
            width: layout.header.len(),
            places,
            currency_usual: options.currency,
            failed_words: &options.failed_words,
            moved_words: &options.moved_words,
            statuses: WordCache::default(),
            operations: WordCache::default(),
        }
    }

    /// Reads one record.
    pub(crate) fn read<'a>(&mut self, record: Record<'a>) -> Result<Fact<'a>, LeftOut> {
        self.check_width(record)?;
        let places = self.places;
        let get = |place: Option<usize>| {
            place.and_then(|place| record.get(place)).map(trimmed).unwrap_or_default()
        };
        let moment = self.moment(get(places.time), get(places.time_of_day))?;
        let mut doubts = Doubts::default();
        match moment.clock {
            Clock::Plain => {}
            Clock::Repeated => doubts.add(ProblemKind::ClockRepeated, get(places.time)),
            Clock::Skipped => doubts.add(ProblemKind::ClockSkipped, get(places.time)),
        }
        let id = Id::read(get(places.id));
        if let Id::Lossy(text) = id {
            doubts.add(ProblemKind::IdLossy, text);
        }
        let reference = Id::read(get(places.reference));
        if let Id::Lossy(text) = reference {
            doubts.add(ProblemKind::ReferenceLossy, text);
        }
        let (amount, currency) = self.amount(get(places.amount), get(places.currency), &mut doubts);
        let (refunded, _) = self.amount(get(places.refunded), get(places.currency), &mut doubts);
        let parent = Id::read(get(places.parent));
        let (stage, mut effect) =
            self.stage_and_effect(get(places.operation), get(places.status), parent, &mut doubts);
        // A negative payment is money given back; a payment of nothing moved nothing.
        let negative = amount.is_some_and(|amount| amount < 0);
        let stage = match stage {
            Stage::Charge | Stage::Capture if negative => Stage::Refund,
            Stage::Charge
            | Stage::Capture
            | Stage::Authorise
            | Stage::Refund
            | Stage::Void
            | Stage::Other => stage,
        };
        if amount == Some(0) && effect == Effect::Moved {
            effect = Effect::Failed;
        }
        Ok(Fact {
            id,
            reference,
            parent,
            key: Id::read(get(places.key)),
            payer: present(get(places.payer)),
            payee: present(get(places.payee)),
            source: present(get(places.source)),
            moment,
            amount: amount.map(i64::saturating_abs),
            refunded: refunded.map(i64::saturating_abs),
            currency,
            stage,
            effect,
            recurring: words::is_yes(get(places.recurring)),
            doubts,
        })
    }

    fn check_width(&self, record: Record<'_>) -> Result<(), LeftOut> {
        let first = record.get(0).unwrap_or_default();
        if record.len() < self.width && record.len() <= self.places.last {
            let found = format!("{} of {} fields: ", record.len(), self.width).into_bytes();
            let found = [found.as_slice(), first].concat();
            return Err(LeftOut { kind: ProblemKind::TooShort, found });
        }
        let surplus = record.len() > self.width
            && record.fields().skip(self.width).any(|field| !trimmed(field).is_empty());
        if surplus {
            let found = format!("{} instead of {} fields: ", record.len(), self.width).into_bytes();
            let found = [found.as_slice(), first].concat();
            return Err(LeftOut { kind: ProblemKind::TooLong, found });
        }
        Ok(())
    }

    fn moment(&self, date: &[u8], time_of_day: &[u8]) -> Result<Moment, LeftOut> {
        if is_missing(date) {
            return Err(LeftOut { kind: ProblemKind::TimeMissing, found: date.to_vec() });
        }
        let style = &self.layout.time;
        let unreadable =
            |found: &[u8]| LeftOut { kind: ProblemKind::TimeUnreadable, found: found.to_vec() };
        if time_of_day.is_empty() {
            return time::read(date, style).ok_or_else(|| unreadable(date));
        }
        let joined = [date, b" ", time_of_day].concat();
        time::read(&joined, style).ok_or_else(|| unreadable(&joined))
    }

    fn amount<'a>(
        &self,
        field: &'a [u8],
        currency: &'a [u8],
        doubts: &mut Doubts<'a>,
    ) -> (Option<i64>, Option<Currency>) {
        let named = Currency::read(currency);
        if is_missing(field) {
            return (None, named.or(self.currency_usual));
        }
        let style = self.layout.amount;
        let read = amount::read(field, style.decimal);
        let currency = named.or(read.and_then(|read| read.currency)).or(self.currency_usual);
        let decimals = currency.map_or(DECIMALS_USUAL, Currency::decimals);
        let minor = read.and_then(|read| read.minor(decimals, style.unit));
        if minor.is_none() {
            doubts.add(ProblemKind::AmountUnreadable, field);
        }
        (minor, currency)
    }

    fn stage_and_effect<'a>(
        &mut self,
        operation: &'a [u8],
        status: &'a [u8],
        parent: Id<'_>,
        doubts: &mut Doubts<'a>,
    ) -> (Stage, Effect) {
        let (failed, moved) = (self.failed_words, self.moved_words);
        let own = |words: &[String], field: &[u8]| {
            words.iter().any(|word| field.eq_ignore_ascii_case(word.as_bytes()))
        };
        let effect = self.statuses.read(status, |field| {
            if own(failed, field) {
                Some(Effect::Failed)
            } else if own(moved, field) {
                Some(Effect::Moved)
            } else {
                Effect::read(field)
            }
        });
        if effect.is_none() {
            doubts.add(ProblemKind::StatusUnknown, status);
        }
        let effect = effect.unwrap_or(Effect::Moved);
        if effect == Effect::Failed && words::is_duplicate_answer(status) {
            doubts.add(ProblemKind::RefusedAsDuplicate, status);
        }
        if self.places.operation.is_some() {
            if is_missing(operation) {
                return (Stage::Charge, effect);
            }
            let stage = self.operations.read(operation, Stage::read);
            if stage.is_none() {
                doubts.add(ProblemKind::OperationUnknown, operation);
            }
            return (stage.unwrap_or(Stage::Charge), effect);
        }
        // Some exports have one column for both: `authorized`, `settled`, `refunded`.
        let linked = parent.proof().is_some();
        match self.operations.read(status, Stage::read) {
            Some(Stage::Authorise) => (Stage::Authorise, effect),
            Some(Stage::Capture) if self.places.parent.is_some() => (Stage::Capture, effect),
            Some(stage @ (Stage::Refund | Stage::Void)) if linked => (stage, Effect::Moved),
            Some(Stage::Charge | Stage::Capture | Stage::Refund | Stage::Void | Stage::Other)
            | None => (Stage::Charge, effect),
        }
    }
}

fn present(field: &[u8]) -> &[u8] {
    if is_missing(field) { &[] } else { field }
}

/// Words are few and come again and again; comparing bytes is cheaper than reading a word.
#[derive(Debug)]
struct WordCache<T> {
    known: Vec<(Box<[u8]>, Option<T>)>,
}

impl<T> Default for WordCache<T> {
    fn default() -> Self {
        Self { known: Vec::new() }
    }
}

impl<T: Copy> WordCache<T> {
    /// More different words than this is free text; then each is read anew.
    const WORDS_MAX: usize = 32;

    fn read(&mut self, field: &[u8], meaning: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        if let Some((_, found)) = self.known.iter().find(|(word, _)| **word == *field) {
            return *found;
        }
        let found = meaning(field);
        if self.known.len() < Self::WORDS_MAX {
            self.known.push((field.into(), found));
        }
        found
    }
}
