//! Reading the gaps of all clusters of a source together: the weights of schedules are learned
//! from them (expectation and maximisation from a prior), then each cluster is read with those.

use super::model::{Component, Gaps, Shape};
use super::schedules::{CONCURRENT_S, PRIOR_BACKOFF, PRIOR_CRON, PRIOR_FIXED, in_words, known};
use super::{Cause, Confidence, Diagnosis, NAMED_MIN};
use crate::cluster::{Cluster, Signature};

/// Clusters from which the weights are learned; more would not move them.
const SAMPLE_MAX: usize = 400;

/// How many clusters of evidence the prior counts for.
const PRIOR_CLUSTERS: f64 = 4.0;

/// Rounds of learning; the weights stand still well before.
const ROUNDS: usize = 20;

/// Schedules that explain a cluster a millionth as well as the best take no part in it.
const NEGLIGIBLE_LN: f64 = -14.0;

/// Above this step of the clock a gap shows nothing but that there was one.
const BLIND_GRAIN_S: f64 = 3_600.0;

/// Reads all clusters of one source.
pub(crate) fn diagnose(clusters: &[&Cluster]) -> Vec<Diagnosis> {
    let gaps: Vec<Gaps> = clusters.iter().map(|cluster| gaps_of(cluster)).collect();
    let step = gaps.len().div_ceil(SAMPLE_MAX).max(1);
    let sample: Vec<&Gaps> = gaps.iter().step_by(step).collect();
    let mut components: Vec<Component> = known().to_vec();
    candidates(&sample, &mut components);
    let weights = learn(&sample, &components);
    // After learning, few schedules have any weight; only those are tried on the rest.
    let kept: Vec<(usize, f64)> = weights
        .iter()
        .copied()
        .enumerate()
        .filter(|(at, weight)| {
            let prior = components.get(*at).map_or(0.0, |component| component.weight);
            step == 1 || *weight > prior * 0.5
        })
        .collect();
    let readings: Vec<Reading> = gaps.iter().map(|gaps| read(gaps, &components, &kept)).collect();
    let mut support = [0_usize; Cause::ALL.len()];
    for (reading, gaps) in readings.iter().zip(&gaps) {
        if let Some(slot) = support.get_mut(reading.best().number()) {
            *slot += gaps.gaps.len();
        }
    }
    readings
        .into_iter()
        .zip(clusters.iter().zip(&gaps))
        .map(|(reading, (cluster, gaps))| {
            let support = support.get(reading.best().number()).copied().unwrap_or(0);
            reading.diagnosis(cluster, gaps, support, &components)
        })
        .collect()
}

fn gaps_of(cluster: &Cluster) -> Gaps {
    const NS: f64 = 1e9;
    Gaps {
        gaps: cluster.gaps().iter().map(|gap| *gap as f64 / NS).collect(),
        ends: cluster.members.iter().skip(1).map(|member| member.ns as f64 / NS).collect(),
        grain: cluster.grain_ns as f64 / NS,
    }
}

/// Shares of a cluster that components have, as (component, share); negligible ones left out.
fn shares(gaps: &Gaps, components: &[Component], weights: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let mut found: Vec<(usize, f64)> = Vec::new();
    let mut best = f64::NEG_INFINITY;
    for (at, weight) in weights {
        let Some(component) = components.get(*at) else { continue };
        if *weight <= 0.0 {
            continue;
        }
        let score = weight.ln() + component.ln_density(gaps);
        if score > best + NEGLIGIBLE_LN {
            best = best.max(score);
            found.push((*at, score));
        }
    }
    let mut sum = 0.0;
    for (_, score) in &mut found {
        *score = (*score - best).exp();
        sum += *score;
    }
    for (_, score) in &mut found {
        *score /= sum;
    }
    found.retain(|(_, share)| *share > NEGLIGIBLE_LN.exp());
    found
}

fn learn(sample: &[&Gaps], components: &[Component]) -> Vec<f64> {
    let prior: Vec<f64> = components.iter().map(|component| component.weight).collect();
    let all: Vec<(usize, f64)> = prior.iter().copied().enumerate().collect();
    let mut weights = prior.clone();
    // Densities do not change between rounds: kept relative to the prior, sparse.
    let table: Vec<Vec<(usize, f64)>> = sample
        .iter()
        .map(|gaps| {
            shares(gaps, components, &all)
                .into_iter()
                .map(|(at, share)| (at, share / prior.get(at).copied().unwrap_or(1.0)))
                .collect()
        })
        .collect();
    for _ in 0..ROUNDS {
        let mut next: Vec<f64> = prior.iter().map(|weight| weight * PRIOR_CLUSTERS).collect();
        for row in &table {
            let score = |at: usize, density: f64| density * weights.get(at).copied().unwrap_or(0.0);
            let sum: f64 = row.iter().map(|(at, density)| score(*at, *density)).sum();
            for (at, density) in row {
                if let Some(slot) = next.get_mut(*at) {
                    *slot += score(*at, *density) / sum;
                }
            }
        }
        let total: f64 = next.iter().sum();
        weights = next.into_iter().map(|weight| weight / total).collect();
    }
    weights
}

/// What one cluster was read as.
struct Reading {
    by_cause: [f64; Cause::ALL.len()],
    /// The best component of each cause, with its share.
    best_of: [Option<(usize, f64)>; Cause::ALL.len()],
}

fn read(gaps: &Gaps, components: &[Component], weights: &[(usize, f64)]) -> Reading {
    let mut reading =
        Reading { by_cause: [0.0; Cause::ALL.len()], best_of: [None; Cause::ALL.len()] };
    for (at, share) in shares(gaps, components, weights) {
        let Some(component) = components.get(at) else { continue };
        let number = component.cause.number();
        if let Some(slot) = reading.by_cause.get_mut(number) {
            *slot += share;
        }
        if let Some(slot) = reading.best_of.get_mut(number)
            && slot.is_none_or(|(_, other)| share > other)
        {
            *slot = Some((at, share));
        }
    }
    reading
}

impl Reading {
    fn ranked(&self) -> Vec<(Cause, f64)> {
        let mut ranked: Vec<(Cause, f64)> = Cause::ALL.into_iter().zip(self.by_cause).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    fn best(&self) -> Cause {
        self.ranked().first().map_or(Cause::Undetermined, |(cause, _)| *cause)
    }

    fn diagnosis(
        &self,
        cluster: &Cluster,
        gaps: &Gaps,
        support: usize,
        components: &[Component],
    ) -> Diagnosis {
        let mut notes = Vec::new();
        if gaps.grain >= BLIND_GRAIN_S {
            notes.push("the records hold dates without a time, so gaps cannot name a cause");
            return Diagnosis {
                causes: vec![(Cause::Undetermined, 1.0)],
                confidence: Confidence::Low,
                schedule: None,
                notes,
            };
        }
        let mut causes = self.ranked();
        causes.retain(|(_, share)| *share >= NAMED_MIN);
        let (best, share) = causes.first().copied().unwrap_or((Cause::Undetermined, 0.0));
        if gaps.grain >= 1.0 && gaps.gaps.iter().any(|gap| *gap < 1.0 + CONCURRENT_S) {
            notes.push("the records hold whole seconds, which cannot show a gap under 500 ms");
        }
        let mut confidence = if share >= 0.99 && support >= 6 {
            Confidence::NearlyCertain
        } else if share >= 0.95 && support >= 3 {
            Confidence::High
        } else if share >= 0.8 {
            Confidence::Medium
        } else {
            Confidence::Low
        };
        if support < 3 {
            notes.push("few gaps to go by: this source has fewer than three of this kind");
            confidence = confidence.min(Confidence::Medium);
        }
        if support < 2 || best == Cause::Undetermined {
            confidence = Confidence::Low;
        }
        if cluster.clock_repeated {
            notes.push("some times fall into the hour that the local clock showed twice");
            confidence = confidence.min(Confidence::Medium);
        }
        match cluster.signature {
            Signature::Key | Signature::Reference => {}
            Signature::Payer | Signature::Fuzzy => {
                notes.push("no shared reference: may be two wanted purchases");
                confidence = confidence.min(Confidence::Medium);
            }
        }
        let schedule = self
            .best_of
            .get(best.number())
            .copied()
            .flatten()
            .and_then(|(at, _)| components.get(at))
            .and_then(in_words);
        Diagnosis { causes, confidence, schedule, notes }
    }
}

/// Schedules that the data itself suggests beside the known ones. They start with little weight,
/// the price of having been made to fit; only repeated agreement raises it.
fn candidates(sample: &[&Gaps], components: &mut Vec<Component>) {
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
    (wait > -0.2 * base).then_some((wait.max(0.0), base, ratio))
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
        if bin > 0 && count >= LEAST && count * 4 >= ends.len() {
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
