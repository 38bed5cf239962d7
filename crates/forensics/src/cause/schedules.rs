//! The schedules that are known, each with the weight it has before any gap is seen. The weights
//! say what is common in the field; with a few clusters of one source the evidence outweighs them.

use std::sync::OnceLock;

use super::Cause;
use super::model::{CONCURRENT_S, Component, Shape};

/// What share of clusters each cause has before any gap is seen.
const PRIOR_CONCURRENT: f64 = 0.18;
pub(crate) const PRIOR_BACKOFF: f64 = 0.27;
pub(crate) const PRIOR_FIXED: f64 = 0.12;
const PRIOR_QUEUE: f64 = 0.12;
pub(crate) const PRIOR_CRON: f64 = 0.08;
const PRIOR_HUMAN: f64 = 0.15;
const PRIOR_UNDETERMINED: f64 = 0.08;

/// No cap on the delay.
const UNCAPPED: f64 = f64::INFINITY;

/// All known schedules.
pub(crate) fn known() -> &'static [Component] {
    static KNOWN: OnceLock<Vec<Component>> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut all = Vec::new();
        let one = |cause, weight, shape| Component { cause, weight, shape, name: None };
        // Double clicks are slower than two consumers of one message; both end below the limit.
        for (high, weight) in [(0.05, 0.25), (0.15, 0.35), (CONCURRENT_S, 0.40)] {
            let shape = Shape::Window { low: 0.0, high };
            all.push(one(Cause::Concurrent, PRIOR_CONCURRENT * weight, shape));
        }
        for (median, weight) in [(8.0, 0.3), (22.0, 0.4), (60.0, 0.3)] {
            for (spread, share) in [(0.6, 0.4), (1.1, 0.6)] {
                let shape = Shape::Person { median, spread };
                all.push(one(Cause::Human, PRIOR_HUMAN * weight * share, shape));
            }
        }
        all.push(one(Cause::Undetermined, PRIOR_UNDETERMINED, Shape::Anything));
        backoff(&mut all);
        named(&mut all);
        fixed(&mut all);
        queue(&mut all);
        cron(&mut all);
        all
    })
}

/// Whether the growing part of a gap shows beside the constant one.
pub(crate) fn grows(base: f64, wait: f64) -> bool {
    const SHARE_LEAST: f64 = 0.025;
    base >= SHARE_LEAST * wait
}

/// `wait + base * ratio^i`, over usual timeouts, bases, ratios and jitters.
fn backoff(all: &mut Vec<Component>) {
    /// Share of the cause; the rest goes to schedules with a name.
    const SHARE: f64 = 0.88;
    const WAITS: [(f64, f64); 13] = [
        (0.0, 0.50),
        (1.0, 0.03),
        (2.0, 0.05),
        (3.0, 0.04),
        (5.0, 0.07),
        (6.0, 0.01),
        (10.0, 0.08),
        (15.0, 0.03),
        (20.0, 0.03),
        (30.0, 0.09),
        (60.0, 0.05),
        (90.0, 0.01),
        (120.0, 0.01),
    ];
    const BASES: [(f64, f64); 14] = [
        (0.1, 0.04),
        (0.2, 0.04),
        (0.25, 0.02),
        (0.3, 0.02),
        (0.5, 0.12),
        (1.0, 0.30),
        (1.5, 0.02),
        (2.0, 0.16),
        (3.0, 0.05),
        (4.0, 0.02),
        (5.0, 0.08),
        (10.0, 0.06),
        (15.0, 0.03),
        (30.0, 0.04),
    ];
    const RATIOS: [(f64, f64); 4] = [(2.0, 0.80), (1.5, 0.09), (3.0, 0.08), (1.6, 0.03)];
    // None; a tenth or a quarter to both sides; half to whole ("equal"); nothing to whole ("full").
    const JITTERS: [(f64, f64, f64); 5] = [
        (1.0, 1.0, 0.45),
        (0.9, 1.1, 0.13),
        (0.75, 1.25, 0.10),
        (0.5, 1.0, 0.17),
        (0.0, 1.0, 0.15),
    ];
    // A cap of eight times the base stands for the many that are set.
    const CAPS: [(f64, f64); 2] = [(f64::INFINITY, 0.85), (8.0, 0.15)];
    let first = all.len();
    for (wait, wait_weight) in WAITS {
        // Against a long timeout a short base cannot be seen to grow: that is a fixed wait.
        for (base, base_weight) in BASES.into_iter().filter(|(base, _)| grows(*base, wait)) {
            for (ratio, ratio_weight) in RATIOS {
                for (low, high, jitter_weight) in JITTERS {
                    for (cap, cap_weight) in CAPS {
                        let parts =
                            wait_weight * base_weight * ratio_weight * jitter_weight * cap_weight;
                        all.push(Component {
                            cause: Cause::Backoff,
                            weight: PRIOR_BACKOFF * SHARE * parts,
                            shape: Shape::Growth { wait, base, ratio, cap: base * cap, low, high },
                            name: None,
                        });
                    }
                }
            }
        }
    }
    // What was left out of the grid is no reason to think less of the cause.
    let made = all.get_mut(first..).unwrap_or_default();
    let sum: f64 = made.iter().map(|component| component.weight).sum();
    for component in made {
        component.weight *= PRIOR_BACKOFF * SHARE / sum;
    }
}

/// Schedules that libraries come with, from their sources and manuals.
fn named(all: &mut Vec<Component>) {
    const SHARE: f64 = 0.12;
    let power = |plus: f64, exponent: i32, low: f64, high: f64| {
        (1..=8).map(move |attempt| {
            let delay = plus + f64::from(attempt).powi(exponent);
            (delay * low, delay * high)
        })
    };
    // Half a second doubling to two, times a random share from half to whole, never under half a
    // second; the request itself may take its eighty seconds first.
    let stripe = vec![(0.5, 0.5), (0.5, 1.0), (1.0, 2.0)];
    // Count from zero: count^4 + 15 + up to ten times (count + 1).
    let sidekiq = (0..8).map(|count| {
        let base = f64::from(count).powi(4) + 15.0;
        (base, base + 10.0 * f64::from(count + 1))
    });
    let oban = (1..=8).map(|attempt| {
        let delay = 15.0 + 2_f64.powi(attempt);
        (delay, delay * 1.1)
    });
    type Named = (&'static str, f64, f64, Vec<(f64, f64)>);
    let tables: [Named; 6] = [
        ("Stripe SDK", 0.20, 0.0, stripe.clone()),
        ("Stripe SDK after its timeout of 80 s", 0.10, 80.0, stripe),
        ("Sidekiq (count^4 + 15 s and jitter)", 0.20, 0.0, sidekiq.collect()),
        ("River (attempt^4 s, a tenth of jitter)", 0.12, 0.0, power(0.0, 4, 0.9, 1.1).collect()),
        ("Oban (15 s + 2^attempt, a tenth of jitter)", 0.12, 0.0, oban.collect()),
        ("delayed_job (5 s + attempt^4)", 0.06, 0.0, power(5.0, 4, 1.0, 1.0).collect()),
    ];
    for (name, weight, wait, windows) in tables {
        all.push(Component {
            cause: Cause::Backoff,
            weight: PRIOR_BACKOFF * SHARE * weight,
            shape: Shape::Table { wait, windows },
            name: Some(name),
        });
    }
    let growths = [
        ("AWS SDK, standard mode (full jitter up to 20 s)", 0.15, 1.0, 20.0, 0.0),
        ("samekey client (equal jitter, 1 s up to 300 s)", 0.05, 1.0, 300.0, 0.5),
    ];
    for (name, weight, base, cap, low) in growths {
        all.push(Component {
            cause: Cause::Backoff,
            weight: PRIOR_BACKOFF * SHARE * weight,
            shape: Shape::Growth { wait: 0.0, base, ratio: 2.0, cap, low, high: 1.0 },
            name: Some(name),
        });
    }
}

/// Waits that people write into code. Those that are also a queue's time have less weight: seen
/// again and again in payments, half a minute is a queue more often than a loop.
fn fixed(all: &mut Vec<Component>) {
    const WAITS: [(f64, f64); 30] = [
        (1.0, 0.12),
        (2.0, 0.12),
        (3.0, 0.09),
        (4.0, 0.02),
        (5.0, 0.16),
        (6.0, 0.02),
        (7.0, 0.01),
        (8.0, 0.01),
        (10.0, 0.12),
        (12.0, 0.01),
        (15.0, 0.06),
        (20.0, 0.05),
        (25.0, 0.01),
        (30.0, 0.02),
        (35.0, 0.005),
        (40.0, 0.01),
        (45.0, 0.01),
        (60.0, 0.03),
        (65.0, 0.005),
        (90.0, 0.01),
        (120.0, 0.02),
        (180.0, 0.02),
        (240.0, 0.005),
        (300.0, 0.02),
        (600.0, 0.02),
        (900.0, 0.005),
        (1_200.0, 0.005),
        (1_800.0, 0.005),
        (3_600.0, 0.005),
        (7_200.0, 0.005),
    ];
    for (wait, weight) in WAITS {
        for (low, high, share) in [(1.0, 1.0, 0.7), (0.9, 1.1, 0.3)] {
            all.push(Component {
                cause: Cause::Fixed,
                weight: PRIOR_FIXED * weight * share,
                shape: Shape::Window { low: wait * low, high: wait * high },
                name: None,
            });
        }
    }
}

/// Whether a wait is that of a known queue, counting what a poll or a busy consumer adds.
pub(crate) fn is_queue_time(wait: f64) -> bool {
    known().iter().any(|component| match (component.cause, &component.shape) {
        (Cause::Queue, Shape::Window { low, high }) => (*low * 0.995..=*high).contains(&wait),
        _ => false,
    })
}

/// How long queues wait before they deliver a message again that nobody confirmed.
fn queue(all: &mut Vec<Component>) {
    const TIMES: [(f64, f64, &str); 10] = [
        (10.0, 0.04, "10 s: Google Pub/Sub's acknowledgement deadline"),
        (30.0, 0.30, "30 s: visibility timeout of Amazon SQS, AckWait of NATS JetStream"),
        (60.0, 0.12, "60 s: lock of Azure Service Bus"),
        (90.0, 0.04, "90 s: retry_after of Laravel's queues"),
        (300.0, 0.08, "5 min: max.poll.interval of Kafka consumers"),
        (600.0, 0.05, "10 min: dispatch deadline of Google Cloud Tasks"),
        (900.0, 0.12, "15 min: delivery acknowledgement timeout of older RabbitMQ"),
        (1_800.0, 0.10, "30 min: delivery acknowledgement timeout of RabbitMQ"),
        (3_600.0, 0.13, "1 h: visibility timeout of Celery on Redis, rescue of River and Oban"),
        (14_400.0, 0.02, "4 h: longest run of delayed_job"),
    ];
    for (time, weight, name) in TIMES {
        // Redelivery is never early; a poll or a busy consumer makes it late.
        for (late, more, share) in [(1.005, 0.05, 0.4), (1.02, 0.3, 0.35), (1.15, 0.5, 0.25)] {
            all.push(Component {
                cause: Cause::Queue,
                weight: PRIOR_QUEUE * weight * share,
                shape: Shape::Window { low: time, high: time * late + more },
                name: Some(name),
            });
        }
    }
}

/// Periods of jobs.
fn cron(all: &mut Vec<Component>) {
    const PERIODS: [(f64, f64, &str); 9] = [
        (60.0, 0.15, "every minute"),
        (300.0, 0.22, "every 5 minutes"),
        (600.0, 0.10, "every 10 minutes"),
        (900.0, 0.18, "every 15 minutes"),
        (1_800.0, 0.08, "every 30 minutes"),
        (3_600.0, 0.16, "every hour"),
        (21_600.0, 0.03, "every 6 hours"),
        (43_200.0, 0.03, "every 12 hours"),
        (86_400.0, 0.05, "every day"),
    ];
    for (period, weight, name) in PERIODS {
        all.push(Component {
            cause: Cause::Cron,
            weight: PRIOR_CRON * weight,
            shape: Shape::Clock { period, offset: 0.0 },
            name: Some(name),
        });
    }
}

/// A schedule in words.
pub(crate) fn in_words(component: &Component) -> Option<String> {
    let seconds = crate::report::words::seconds;
    let jitter = |low: f64, high: f64| {
        if (low, high) == (1.0, 1.0) {
            ""
        } else if (low, high) == (0.5, 1.0) {
            ", equal jitter"
        } else if low == 0.0 {
            ", full jitter"
        } else {
            ", some jitter"
        }
    };
    let named = component.name.map(str::to_owned);
    match &component.shape {
        Shape::Growth { wait, base, ratio, cap, low, high } => named.or_else(|| {
            let before = if *wait > 0.0 {
                format!("{} (a timeout) + ", seconds(*wait))
            } else {
                String::new()
            };
            let up_to =
                if *cap < UNCAPPED { format!(" up to {}", seconds(*cap)) } else { String::new() };
            let ratio = (ratio * 100.0).round() / 100.0;
            Some(format!("{before}{} × {ratio}^i{up_to}{}", seconds(*base), jitter(*low, *high)))
        }),
        Shape::Table { .. } => named,
        Shape::Window { low, high } => named.or_else(|| match component.cause {
            Cause::Fixed => Some(format!("every {}", seconds((low + high) / 2.0))),
            Cause::Concurrent
            | Cause::Backoff
            | Cause::Queue
            | Cause::Cron
            | Cause::Human
            | Cause::Undetermined => None,
        }),
        Shape::Clock { offset, .. } => named.map(|name| {
            if *offset > 0.0 { format!("{name}, {} past", seconds(*offset)) } else { name }
        }),
        Shape::Person { .. } | Shape::Anything => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weights_of_each_cause_add_up() {
        let sum = |cause: Cause| -> f64 {
            known().iter().filter(|one| one.cause == cause).map(|one| one.weight).sum()
        };
        for (cause, prior) in [
            (Cause::Concurrent, PRIOR_CONCURRENT),
            (Cause::Backoff, PRIOR_BACKOFF),
            (Cause::Fixed, PRIOR_FIXED),
            (Cause::Queue, PRIOR_QUEUE),
            (Cause::Cron, PRIOR_CRON),
            (Cause::Human, PRIOR_HUMAN),
            (Cause::Undetermined, PRIOR_UNDETERMINED),
        ] {
            let found = sum(cause);
            assert!((found / prior - 1.0).abs() < 0.03, "{cause:?} {found} {prior}");
        }
        let all: f64 = known().iter().map(|one| one.weight).sum();
        assert!((all - 1.0).abs() < 0.03, "{all}");
    }
}
