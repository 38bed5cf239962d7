//! Made-up payments with known duplicates: the same seed gives the same bytes, and the truth about
//! every duplicate is written beside them. The shapes differ from those that the diagnosis uses
//! where they can, so that measuring with them is no exam with the answers at hand.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use crate::cause::Cause;

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The same seed gives the same bytes.
    pub seed: u64,
    /// Rows, about.
    pub rows: u64,
    /// Duplicated purchases in a thousand.
    pub duplicates_per_mille: u32,
}

/// Numbers that look random and are the same on every machine (SplitMix64).
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// From 0 up to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.share() * (high - low)
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.share()).ln()
    }

    /// Equal ratios are equally probable.
    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}

/// What a source does when it pays twice.
#[derive(Debug, Clone, Copy)]
enum Habit {
    Concurrent,
    Growth { wait: f64, base: f64, ratio: f64, low: f64, high: f64 },
    Stripe,
    Sidekiq,
    Fixed(f64),
    Queue(f64),
    Cron { period: f64, offset: f64 },
    Person,
    Odd,
}

/// What keys a source sends.
#[derive(Debug, Clone, Copy)]
enum Keys {
    PerAttempt,
    PerPurchase,
    None,
}

const SOURCES: [(&str, Habit, Keys); 22] = [
    ("web", Habit::Person, Keys::PerAttempt),
    ("kiosk", Habit::Person, Keys::None),
    ("mobile", Habit::Concurrent, Keys::PerAttempt),
    ("consumer-a", Habit::Concurrent, Keys::PerPurchase),
    ("svc-orders", growth(0.0, 1.0, 2.0, 1.0, 1.0), Keys::PerAttempt),
    ("svc-invoices", growth(30.0, 1.0, 2.0, 1.0, 1.0), Keys::PerAttempt),
    ("svc-partners", growth(0.0, 0.5, 2.0, 0.5, 1.0), Keys::None),
    ("svc-import", growth(0.0, 1.0, 2.0, 0.0, 1.0), Keys::PerAttempt),
    ("svc-legacy", growth(8.0, 2.5, 2.0, 0.9, 1.1), Keys::None),
    ("svc-tickets", growth(0.0, 3.0, 3.0, 1.0, 1.0), Keys::PerAttempt),
    ("sdk", Habit::Stripe, Keys::PerAttempt),
    ("jobs", Habit::Sidekiq, Keys::PerAttempt),
    ("pos-north", Habit::Fixed(2.0), Keys::None),
    ("pos-south", Habit::Fixed(5.0), Keys::PerAttempt),
    ("pos-east", Habit::Fixed(7.5), Keys::None),
    ("queue-fast", Habit::Queue(30.0), Keys::PerAttempt),
    ("queue-slow", Habit::Queue(900.0), Keys::PerAttempt),
    ("queue-hour", Habit::Queue(3_600.0), Keys::PerPurchase),
    ("batch-5", Habit::Cron { period: 300.0, offset: 0.0 }, Keys::PerAttempt),
    ("batch-15", Habit::Cron { period: 900.0, offset: 0.0 }, Keys::None),
    ("batch-hour", Habit::Cron { period: 3_600.0, offset: 420.0 }, Keys::PerAttempt),
    ("partner-x", Habit::Odd, Keys::PerAttempt),
];

const fn growth(wait: f64, base: f64, ratio: f64, low: f64, high: f64) -> Habit {
    Habit::Growth { wait, base, ratio, low, high }
}

impl Habit {
    fn cause(self) -> Cause {
        match self {
            Self::Concurrent => Cause::Concurrent,
            Self::Growth { .. } | Self::Stripe | Self::Sidekiq => Cause::Backoff,
            Self::Fixed(_) => Cause::Fixed,
            Self::Queue(_) => Cause::Queue,
            Self::Cron { .. } => Cause::Cron,
            Self::Person => Cause::Human,
            Self::Odd => Cause::Undetermined,
        }
    }

    /// The wait before payment `number` (from 0) behind the one at `last_s`.
    fn gap(self, number: i32, last_s: f64, dice: &mut Dice) -> f64 {
        // What a request takes on its way.
        let latency = 0.004 + dice.exponential(0.012);
        match self {
            Self::Concurrent => (0.003 + dice.exponential(0.09)).min(0.45),
            Self::Growth { wait, base, ratio, low, high } => {
                wait + base * ratio.powi(number) * dice.between(low, high) + latency
            }
            Self::Stripe => {
                let delay = (0.5 * 2_f64.powi(number)).min(2.0);
                (delay * dice.between(0.5, 1.0)).max(0.5) + latency
            }
            Self::Sidekiq => {
                let random = dice.below(10) as f64 * f64::from(number + 1);
                f64::from(number).powi(4) + 15.0 + random + dice.between(0.0, 0.8)
            }
            Self::Fixed(wait) => wait + latency,
            Self::Queue(time) => time + dice.exponential(time * 0.004) + latency,
            Self::Cron { period, offset } => {
                let next = ((last_s - offset) / period).floor() * period + period + offset;
                next - last_s + dice.between(0.1, 3.0)
            }
            // Not the curve that the diagnosis has in mind.
            Self::Person => dice.log_between(4.0, 150.0),
            Self::Odd => dice.log_between(0.6, 20_000.0),
        }
    }
}

/// A row that waits for its turn in time.
type Waiting = Reverse<(i64, u64, String)>;

struct Writer<'w> {
    out: &'w mut dyn Write,
    waiting: BinaryHeap<Waiting>,
    made: u64,
    dice: Dice,
    /// Part of every id, so that two seeds make two worlds.
    world: u64,
}

/// The first instant: 2026-03-01T00:00:00Z.
const START_MS: i64 = 1_772_323_200_000;

/// What one row says beside its time.
struct Line<'a> {
    order: u64,
    amount: u64,
    customer: u64,
    key: Option<u64>,
    status: &'a str,
    operation: &'a str,
    source: &'a str,
    parent: Option<u64>,
}

impl Writer<'_> {
    fn row(&mut self, ms: i64, line: &Line<'_>) -> u64 {
        self.made += 1;
        let number = self.made;
        let shown = |prefix: &str, number: Option<u64>| {
            number.map_or(String::new(), |number| format!("{prefix}{number:012x}"))
        };
        let world = self.world;
        let id = move |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16 ^ world;
        let at = crate::report::words::instant(ms * 1_000_000, 1_000_000);
        let row = format!(
            "pay_{:012x},ORD-{:08},{at},{}.{:02},EUR,cus_{:06},{},{},{},{},{}\n",
            id(number),
            line.order,
            line.amount / 100,
            line.amount % 100,
            line.customer,
            shown("key_", line.key.map(id)),
            line.status,
            line.operation,
            line.source,
            shown("pay_", line.parent.map(id)),
        );
        self.waiting.push(Reverse((ms, number, row)));
        number
    }

    /// Writes what nothing can come before any more.
    fn flush_until(&mut self, ms: i64) -> io::Result<()> {
        while let Some(Reverse((at, _, _))) = self.waiting.peek() {
            if *at > ms {
                break;
            }
            if let Some(Reverse((_, _, row))) = self.waiting.pop() {
                self.out.write_all(row.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Writes payments to `out` and the truth about their duplicates to `truth`, both as CSV.
///
/// # Errors
/// What the two writers fail with.
pub fn generate(plan: &Plan, out: &mut dyn Write, truth: &mut dyn Write) -> io::Result<()> {
    out.write_all(
        b"payment_id,order_id,created_at,amount,currency,customer_id,idempotency_key,status,type,\
          source,parent_id\n",
    )?;
    truth.write_all(b"order_id,cause,payments\n")?;
    let mut dice = Dice(plan.seed);
    let world = dice.next() >> 16;
    let mut writer = Writer { out, waiting: BinaryHeap::new(), made: 0, dice, world };
    // Orders come at a pace that spreads them over ninety days, however many there are.
    const SPAN_MS: f64 = 90.0 * 86_400_000.0;
    let pace = SPAN_MS / plan.rows.max(1) as f64 * 1.25;
    let (mut now, mut order) = (START_MS as f64, 0);
    while writer.made < plan.rows {
        order += 1;
        now += writer.dice.exponential(pace);
        let ms = now as i64;
        writer.flush_until(ms)?;
        let duplicate = writer.dice.below(1_000) < u64::from(plan.duplicates_per_mille);
        if duplicate {
            let (cause, payments) = duplicated(&mut writer, order, ms);
            writeln!(truth, "ORD-{order:08},{},{payments}", cause.short())?;
        } else {
            order += single(&mut writer, order, ms);
        }
    }
    writer.flush_until(i64::MAX)
}

fn line<'a>(dice: &mut Dice, order: u64, source: &'a str) -> Line<'a> {
    Line {
        order,
        amount: 199 + dice.below(40_000),
        customer: dice.below(400_000),
        key: Some(order << 8),
        status: "succeeded",
        operation: "charge",
        source,
        parent: None,
    }
}

fn duplicated(writer: &mut Writer<'_>, order: u64, ms: i64) -> (Cause, u64) {
    let number = writer.dice.below(SOURCES.len() as u64) as usize;
    let (source, habit, keys) =
        SOURCES.get(number).copied().unwrap_or(("web", Habit::Person, Keys::None));
    // In every source some duplicates are a person's: sources are never pure.
    const PERSON_IN: u64 = 12;
    let may_be_person = matches!(habit, Habit::Growth { .. } | Habit::Fixed(_) | Habit::Concurrent);
    let habit =
        if may_be_person && writer.dice.below(PERSON_IN) == 0 { Habit::Person } else { habit };
    let extra = match habit {
        Habit::Person | Habit::Concurrent => 1 + u64::from(writer.dice.below(6) == 0),
        Habit::Growth { .. }
        | Habit::Stripe
        | Habit::Sidekiq
        | Habit::Fixed(_)
        | Habit::Queue(_)
        | Habit::Cron { .. }
        | Habit::Odd => 1 + writer.dice.below(4),
    };
    let mut line = line(&mut writer.dice, order, source);
    let mut at = ms as f64 / 1_000.0;
    for number in 0..=extra {
        line.key = match keys {
            Keys::PerAttempt => Some(order << 8 | number),
            Keys::PerPurchase => Some(order << 8),
            Keys::None => None,
        };
        if number > 0 {
            at += habit.gap(number as i32 - 1, at, &mut writer.dice);
        }
        writer.row((at * 1_000.0) as i64, &line);
    }
    (habit.cause(), extra + 1)
}

/// An order that is paid once, in one of the ways that look like more; returns how many further
/// orders it used.
fn single(writer: &mut Writer<'_>, order: u64, ms: i64) -> u64 {
    let number = writer.dice.below(SOURCES.len() as u64) as usize;
    let source = SOURCES.get(number).map_or("web", |(source, _, _)| *source);
    let mut line = line(&mut writer.dice, order, source);
    let soon = |dice: &mut Dice, seconds: f64| (dice.exponential(seconds) * 1_000.0) as i64 + 1;
    match writer.dice.below(100) {
        // A hold and its capture.
        0..=9 => {
            line.operation = "auth";
            let parent = writer.row(ms, &line);
            let later = soon(&mut writer.dice, 40_000.0);
            line.operation = "capture";
            line.parent = Some(parent);
            writer.row(ms + later, &line);
        }
        // Given back later.
        10..=12 => {
            let parent = writer.row(ms, &line);
            let later = soon(&mut writer.dice, 200_000.0);
            line.operation = "refund";
            line.parent = Some(parent);
            writer.row(ms + later, &line);
        }
        // Declined, then paid.
        13..=16 => {
            line.status = "declined";
            writer.row(ms, &line);
            line.status = "succeeded";
            let later = soon(&mut writer.dice, 30.0);
            writer.row(ms + later, &line);
        }
        // Two coffees: another order of the same customer and amount.
        17..=18 => {
            writer.row(ms, &line);
            line.order += 1;
            line.key = Some(line.order << 8);
            let later = soon(&mut writer.dice, 300.0);
            writer.row(ms + later, &line);
            return 1;
        }
        // Paid in two parts.
        19 => {
            writer.row(ms, &line);
            line.amount = line.amount / 2 + 7;
            line.key = Some(order << 8 | 1);
            let later = soon(&mut writer.dice, 60.0);
            writer.row(ms + later, &line);
        }
        _ => {
            writer.row(ms, &line);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(seed: u64) -> (String, String) {
        let plan = Plan { seed, rows: 3_000, duplicates_per_mille: 100 };
        let (mut out, mut truth) = (Vec::new(), Vec::new());
        generate(&plan, &mut out, &mut truth).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(truth).unwrap())
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
    }

    #[test]
    fn rows_come_in_the_order_of_time_and_none_is_lost() {
        let (out, truth) = made(7);
        let times: Vec<&str> =
            out.lines().skip(1).map(|line| line.split(',').nth(2).unwrap()).collect();
        assert!(times.len() >= 3_000 && times.is_sorted());
        assert!(truth.lines().count() > 100);
    }
}
