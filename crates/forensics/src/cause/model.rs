//! Densities: how probable are these gaps under this schedule?

use super::Cause;

/// The gaps of one cluster, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gaps {
    /// Between consecutive payments.
    pub(crate) gaps: Vec<f64>,
    /// When the later payment of each gap came, in seconds since 1970.
    pub(crate) ends: Vec<f64>,
    /// The step of the records' clock.
    pub(crate) grain: f64,
}

/// Gaps looked at in one cluster: a schedule shows itself in the first ones, and a client that
/// retried for a day would outweigh all others.
pub(crate) const GAPS_MAX: usize = 12;

/// How the delay of a schedule grows and varies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Gap i lies in `wait + min(cap, base * ratio^i) * [low, high]`, in seconds. `wait` is what
    /// an attempt takes before the delay starts: usually a timeout.
    Growth { wait: f64, base: f64, ratio: f64, cap: f64, low: f64, high: f64 },
    /// Gap i lies in `wait` plus the i-th window; the last window repeats.
    Table { wait: f64, windows: Vec<(f64, f64)> },
    /// Every gap lies in this window.
    Window { low: f64, high: f64 },
    /// The later payment comes shortly after a whole number of periods (plus the offset).
    Clock { period: f64, offset: f64 },
    /// A person: somewhere around this median, never twice the same; `spread` is that of the
    /// logarithm.
    Person { median: f64, spread: f64 },
    /// Anything from a millisecond to a month, no length more likely than another.
    Anything,
}

/// A schedule with the weight it has before any gap is seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Component {
    pub(crate) cause: Cause,
    pub(crate) weight: f64,
    pub(crate) shape: Shape,
    /// Whose schedule it is, where it is known.
    pub(crate) name: Option<&'static str>,
}

/// Whatever the schedule, one gap in fifty is disturbed: an attempt left no record, a process
/// stood still. Without this a single odd gap would overrule ten good ones.
const DISTURBED: f64 = 0.02;

/// A schedule that misses more than one gap in four is not the schedule.
const GAPS_PER_MISS: usize = 4;

/// What a schedule of waits loses (as a logarithm) where it must explain one short gap alone: only
/// a source that shows the same schedule at greater length makes up for it.
const LONE_SHORT_LN: f64 = -3.0;

/// Requests closer than this are concurrent: no client's timeout lies between them.
pub(crate) const CONCURRENT_S: f64 = 0.5;

/// Attempts take a little time themselves, and timers drift: a part of the delay and some
/// milliseconds.
const LATENCY_SHARE: f64 = 0.004;
const LATENCY_S: f64 = 0.015;

/// Two rounded times differ from the true gap by a triangle of one grain to each side; a logistic
/// edge of this share of the grain has about the same spread.
const GRAIN_SHARE: f64 = 0.23;

/// The logarithm of a month over a millisecond.
const ANYTHING_LN_RANGE: f64 = 21.7;

impl Component {
    /// The logarithm of the density of these gaps, in one over seconds for each gap; nothing where
    /// the schedule does not fit at all.
    pub(crate) fn ln_density(&self, gaps: &Gaps) -> Option<f64> {
        let mut sum = if self.speaks_for(gaps) { 0.0 } else { LONE_SHORT_LN };
        let mut misses = 0;
        let counted = gaps.gaps.len().min(GAPS_MAX);
        for (number, (gap, end)) in gaps.gaps.iter().zip(&gaps.ends).take(counted).enumerate() {
            let here = self.shape.density(number, *gap, *end, gaps.grain);
            let disturbed = DISTURBED * anything(*gap, gaps.grain);
            if here < disturbed {
                misses += 1;
                if misses > counted / GAPS_PER_MISS {
                    return None;
                }
            }
            sum += ((1.0 - DISTURBED) * here + disturbed).ln();
        }
        Some(sum)
    }

    /// A lone gap under half a second is what "concurrent" means; that a client waited so shortly
    /// on purpose shows only when the next wait is longer.
    fn speaks_for(&self, gaps: &Gaps) -> bool {
        match self.cause {
            Cause::Backoff | Cause::Fixed | Cause::Queue | Cause::Cron => {
                gaps.gaps.len() > 1
                    || gaps.gaps.first().is_some_and(|gap| *gap >= CONCURRENT_S)
                    || gaps.grain >= 1.0
            }
            Cause::Concurrent | Cause::Human | Cause::Undetermined => true,
        }
    }
}

impl Shape {
    fn density(&self, number: usize, gap: f64, end: f64, grain: f64) -> f64 {
        match self {
            Self::Growth { wait, base, ratio, cap, low, high } => {
                let delay = (base * ratio.powi(number as i32)).min(*cap);
                window(gap, wait + delay * low, wait + delay * high, grain)
            }
            Self::Table { wait, windows } => {
                let last = windows.len().saturating_sub(1);
                let (low, high) = windows.get(number.min(last)).copied().unwrap_or((0.0, 0.0));
                window(gap, wait + low, wait + high, grain)
            }
            Self::Window { low, high } => window(gap, *low, *high, grain),
            Self::Clock { period, offset } => clock(gap, end, *period, *offset, grain),
            Self::Person { median, spread } => person(gap, *median, *spread),
            Self::Anything => anything(gap, grain),
        }
    }
}

/// A uniform density between two edges that are as soft as latency and grain make them.
fn window(gap: f64, low: f64, high: f64, grain: f64) -> f64 {
    const FAR: f64 = 14.0;
    let soft = LATENCY_SHARE * high + LATENCY_S + GRAIN_SHARE * grain;
    if gap < low - FAR * soft || gap > high + FAR * soft {
        return 0.0;
    }
    // A window narrower than its own edges is a peak; its width is then that of the edges.
    let (low, high) = (low.min(high - soft / 2.0), high.max(low + soft / 2.0));
    let edge = |x: f64| 1.0 / (1.0 + (-x / soft).exp());
    (edge(gap - low) - edge(gap - high)) / (high - low)
}

/// How long after its minute a scheduled job pays: most start at once, some work off a list.
fn lateness(late: f64) -> f64 {
    const PROMPT_S: f64 = 1.5;
    const LISTED_S: f64 = 12.0;
    0.6 / PROMPT_S * (-late / PROMPT_S).exp() + 0.4 / LISTED_S * (-late / LISTED_S).exp()
}

fn clock(gap: f64, end: f64, period: f64, offset: f64, grain: f64) -> f64 {
    const DAY_S: f64 = 86_400.0;
    // A run that was skipped is rarer than one that was not.
    const RUNS: f64 = 0.85;
    if grain >= 60.0 {
        return 0.0;
    }
    if period >= DAY_S {
        // The hour of a daily job is its own; what shows is the day, and the whole minute.
        const SLACK_S: f64 = 3_660.0;
        let near = (gap - period).abs() < SLACK_S;
        let late = (end - offset).rem_euclid(60.0);
        return if near { lateness(late) * 60.0 / (2.0 * SLACK_S) } else { 0.0 };
    }
    let mut late = (end - offset).rem_euclid(period);
    // A clock that is a little fast starts the job a little early.
    const EARLY_S: f64 = 0.05;
    if period - late < EARLY_S {
        late = 0.0;
    }
    let since = gap - late;
    if since <= 0.0 {
        return 0.0;
    }
    let skipped = ((since / period).ceil() - 1.0).max(0.0);
    lateness(late) * RUNS * (1.0 - RUNS).powf(skipped)
}

fn person(gap: f64, median: f64, spread: f64) -> f64 {
    if gap <= 0.0 {
        return 0.0;
    }
    let distance = (gap / median).ln() / spread;
    let normal = (-distance * distance / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    normal / (spread * gap)
}

fn anything(gap: f64, grain: f64) -> f64 {
    1.0 / ((gap + 0.001 + 0.3 * grain) * ANYTHING_LN_RANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integral(shape: &Shape, to: f64, steps: u32) -> f64 {
        let width = to / f64::from(steps);
        (0..steps)
            .map(|step| {
                let gap = (f64::from(step) + 0.5) * width;
                shape.density(0, gap, gap, 0.0) * width
            })
            .sum()
    }

    #[test]
    fn densities_are_densities() {
        for shape in [
            Shape::Window { low: 2.0, high: 4.0 },
            Shape::Window { low: 2.0, high: 2.0 },
            Shape::Growth { wait: 30.0, base: 1.0, ratio: 2.0, cap: 60.0, low: 0.5, high: 1.0 },
            Shape::Person { median: 25.0, spread: 1.0 },
        ] {
            let mass = integral(&shape, 2_000.0, 400_000);
            assert!((0.95..1.05).contains(&mass), "{shape:?} {mass}");
        }
    }

    #[test]
    fn a_timeout_before_the_delay_is_part_of_the_gap() {
        let shape =
            Shape::Growth { wait: 30.0, base: 1.0, ratio: 2.0, cap: 60.0, low: 1.0, high: 1.0 };
        for (number, gap) in [(0, 31.0), (1, 32.0), (2, 34.0)] {
            let here = shape.density(number, gap, 0.0, 1.0);
            let beside = shape.density(number, gap + 4.0, 0.0, 1.0);
            assert!(here > 10.0 * beside, "{number} {here} {beside}");
        }
    }

    #[test]
    fn the_clock_on_the_wall_wants_the_whole_minute() {
        let shape = Shape::Clock { period: 300.0, offset: 0.0 };
        let on_time = shape.density(0, 123.0, 600.4, 0.001);
        let off_time = shape.density(0, 123.0, 700.0, 0.001);
        assert!(on_time > 50.0 * off_time, "{on_time} {off_time}");
    }
}
