//! Schedules that no list foresees, solved from the gaps themselves.

use super::Cause;
use super::model::{CONCURRENT_S, Component, Gaps, Shape};
use super::schedules::{PRIOR_BACKOFF, PRIOR_CRON, PRIOR_FIXED, grows, is_queue_time};

/// Schedules that the data itself suggests beside the known ones. They start with little weight,
/// the price of having been made to fit; only repeated agreement raises it.
pub(super) fn add(sample: &[&Gaps], components: &mut Vec<Component>) {
    candidate_fixed(sample, components);
    candidate_growth(sample, components);
    candidate_clock(sample, components);
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The same gap again and again, at a length that no list foresees.
fn candidate_fixed(sample: &[&Gaps], components: &mut Vec<Component>) {
    const ALIKE: f64 = 0.03;
    const CANDIDATES_MAX: usize = 40;
    const WEIGHT: f64 = 0.01;
    let mut add = |wait: f64| {
        if is_queue_time(wait) {
            return;
        }
        let weight = PRIOR_FIXED * WEIGHT;
        let shape = Shape::Window { low: wait, high: wait };
        components.push(Component { cause: Cause::Fixed, weight, shape, name: None });
    };
    let mut all: Vec<f64> = sample.iter().flat_map(|gaps| gaps.gaps.iter().copied()).collect();
    if let Some(middle) = median(&mut all) {
        let near = all.iter().filter(|gap| (**gap - middle).abs() < ALIKE * middle).count();
        if all.len() >= 4 && near * 5 >= all.len() * 3 && middle > CONCURRENT_S {
            add(middle);
        }
    }
    let regular = sample.iter().filter(|gaps| {
        let (low, high) = extremes(&gaps.gaps);
        gaps.gaps.len() >= 2 && low > CONCURRENT_S && high - low < ALIKE * low + gaps.grain
    });
    for gaps in regular.take(CANDIDATES_MAX) {
        let sum: f64 = gaps.gaps.iter().sum();
        add(sum / gaps.gaps.len() as f64);
    }
}

fn extremes(gaps: &[f64]) -> (f64, f64) {
    gaps.iter()
        .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), gap| (low.min(*gap), high.max(*gap)))
}

/// `wait + base * ratio^i` solved from the first gaps: from their medians over many clusters, or
/// from one cluster with enough gaps to test the answer.
fn candidate_growth(sample: &[&Gaps], components: &mut Vec<Component>) {
    const CANDIDATES_MAX: usize = 40;
    let mut add = |first: f64, second: f64, third: Option<f64>, weight: f64| {
        let Some((wait, base, ratio)) = solve(first, second, third) else { return };
        for (low, high) in [(1.0, 1.0), (0.9, 1.1)] {
            let shape = Shape::Growth { wait, base, ratio, cap: f64::INFINITY, low, high };
            let weight = PRIOR_BACKOFF * weight;
            components.push(Component { cause: Cause::Backoff, weight, shape, name: None });
        }
    };
    let at = |number: usize| -> Vec<f64> {
        sample.iter().filter_map(|gaps| gaps.gaps.get(number).copied()).collect()
    };
    let (mut first, mut second, mut third) = (at(0), at(1), at(2));
    let enough = |gaps: &[f64], least: usize| gaps.len() >= least;
    if enough(&second, 5)
        && let (Some(a), Some(b)) = (median(&mut first), median(&mut second))
    {
        let c = if enough(&third, 3) { median(&mut third) } else { None };
        add(a, b, c, 1e-3);
    }
    let long = sample.iter().filter(|gaps| gaps.gaps.len() >= 4);
    for gaps in long.take(CANDIDATES_MAX) {
        if let [a, b, c, ..] = gaps.gaps.as_slice() {
            add(*a, *b, Some(*c), 1e-4);
        }
    }
}

/// Wait, base and ratio from the first gaps; without a third one the ratio is taken as two.
fn solve(first: f64, second: f64, third: Option<f64>) -> Option<(f64, f64, f64)> {
    const RATIOS: std::ops::RangeInclusive<f64> = 1.2..=5.0;
    let step = second - first;
    let ratio = match third {
        Some(third) => (third - second) / step,
        None => 2.0,
    };
    if step <= 0.0 || !RATIOS.contains(&ratio) {
        return None;
    }
    let base = step / (ratio - 1.0);
    let wait = first - base;
    // A little below nothing is rounding; further below, the first gap was no base at all.
    (wait > -0.2 * base && grows(base, wait)).then_some((wait.max(0.0), base, ratio))
}

/// A job that starts at its own minute past the hour: its payments crowd at one phase.
fn candidate_clock(sample: &[&Gaps], components: &mut Vec<Component>) {
    const PERIODS: [(f64, &str); 4] = [
        (300.0, "every 5 minutes"),
        (900.0, "every 15 minutes"),
        (1_800.0, "every 30 minutes"),
        (3_600.0, "every hour"),
    ];
    const BIN_S: f64 = 10.0;
    const LEAST: usize = 5;
    let ends: Vec<f64> = sample
        .iter()
        .filter(|gaps| gaps.grain < 60.0)
        .flat_map(|gaps| gaps.ends.iter().zip(&gaps.gaps))
        .filter(|(_, gap)| **gap > 2.0 * BIN_S)
        .map(|(end, _)| *end)
        .collect();
    for (period, name) in PERIODS {
        let mut bins = vec![0_usize; (period / BIN_S) as usize];
        for end in &ends {
            if let Some(slot) = bins.get_mut((end.rem_euclid(period) / BIN_S) as usize) {
                *slot += 1;
            }
        }
        let most = bins.iter().copied().enumerate().max_by_key(|(_, count)| *count);
        let Some((bin, count)) = most else { continue };
        // Far more than would meet by chance in one of so many places.
        if bin > 0 && count >= LEAST + ends.len() * 6 / bins.len() {
            // The whole minute at or before the crowd is where a job's line would put it.
            let offset = ((bin as f64 * BIN_S + BIN_S) / 60.0).floor() * 60.0;
            if offset > 0.0 && offset < period {
                components.push(Component {
                    cause: Cause::Cron,
                    weight: PRIOR_CRON * 0.02,
                    shape: Shape::Clock { period, offset },
                    name: Some(name),
                });
            }
        }
    }
}
