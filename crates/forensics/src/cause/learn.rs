//! Reading the gaps of all clusters of a source together: which schedules the source has is
//! learned from them, one by one, then each cluster is read with those.

use super::candidates;
use super::model::{CONCURRENT_S, Component, Gaps};
use super::schedules::{in_words, known};
use super::{Cause, Confidence, Diagnosis, NAMED_MIN};
use crate::cluster::{Cluster, Signature};

/// Clusters from which the weights are learned; more would not move them.
const SAMPLE_MAX: usize = 250;

/// How many clusters of evidence the prior counts for.
const PRIOR_CLUSTERS: f64 = 4.0;

/// Rounds of learning after each schedule that is added; the weights stand still before.
const ROUNDS: usize = 8;

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
    candidates::add(&sample, &mut components);
    let weights = learn(&sample, &components);
    // After learning, few schedules have any weight; only those are tried on the rest.
    let kept: Vec<(usize, f64)> = weights
        .iter()
        .copied()
        .enumerate()
        .filter(|(at, weight)| {
            // What is left of the prior after learning is not worth the time, the basic ones apart.
            const LEARNED: f64 = 2.0;
            let left = PRIOR_CLUSTERS / (PRIOR_CLUSTERS + sample.len() as f64);
            components.get(*at).is_some_and(|component| {
                step == 1 || is_basic(component) || *weight > component.weight * left * LEARNED
            })
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
        let Some(density) = component.ln_density(gaps) else { continue };
        let score = weight.ln() + density;
        if score > best + NEGLIGIBLE_LN {
            best = best.max(score);
            found.push((*at, score));
        }
    }
    normalise(&mut found);
    found
}

/// Turns logarithms of weights into shares of one.
fn normalise(scores: &mut Vec<(usize, f64)>) {
    let best = scores.iter().map(|(_, score)| *score).fold(f64::NEG_INFINITY, f64::max);
    for (_, score) in scores.iter_mut() {
        *score = (*score - best).exp();
    }
    let sum: f64 = scores.iter().map(|(_, share)| share).sum();
    for (_, score) in scores.iter_mut() {
        *score /= sum;
    }
    scores.retain(|(_, share)| *share > NEGLIGIBLE_LN.exp());
}

/// The densities of the sample: for each cluster those schedules that fit at all.
struct Table {
    /// (schedule, density relative to the best of this cluster).
    rows: Vec<Vec<(usize, f64)>>,
    /// Gaps of each cluster.
    counts: Vec<f64>,
}

impl Table {
    fn new(sample: &[&Gaps], components: &[Component]) -> Self {
        let row = |gaps: &Gaps| {
            let mut row: Vec<(usize, f64)> = components
                .iter()
                .enumerate()
                .filter_map(|(at, component)| Some((at, component.ln_density(gaps)?)))
                .collect();
            let best = row.iter().map(|(_, ln)| *ln).fold(f64::NEG_INFINITY, f64::max);
            for (_, ln) in &mut row {
                *ln = (*ln - best).exp();
            }
            row.retain(|(_, relative)| *relative > NEGLIGIBLE_LN.exp());
            row
        };
        Self {
            rows: sample.iter().map(|gaps| row(gaps)).collect(),
            counts: sample.iter().map(|gaps| gaps.gaps.len() as f64).collect(),
        }
    }

    /// What the weights make of each cluster: the sum of weight and density.
    fn mixed(&self, weights: &[f64]) -> Vec<f64> {
        let weight = |at: usize| weights.get(at).copied().unwrap_or(0.0);
        self.rows
            .iter()
            .map(|row| row.iter().map(|(at, density)| weight(*at) * density).sum::<f64>())
            .map(|sum| sum.max(f64::MIN_POSITIVE))
            .collect()
    }

    /// One round of expectation and maximisation over the schedules that have weight.
    fn round(&self, weights: &[f64]) -> Vec<f64> {
        let mixed = self.mixed(weights);
        let mut next = vec![0.0; weights.len()];
        for (row, mix) in self.rows.iter().zip(&mixed) {
            for (at, density) in row {
                if let (Some(slot), Some(weight)) = (next.get_mut(*at), weights.get(*at)) {
                    *slot += weight * density / mix;
                }
            }
        }
        let total: f64 = next.iter().sum();
        next.into_iter().map(|weight| weight / total.max(f64::MIN_POSITIVE)).collect()
    }
}

/// Whether a schedule is in play from the start: those without a number of their own.
fn is_basic(component: &Component) -> bool {
    match component.cause {
        Cause::Concurrent | Cause::Human | Cause::Undetermined => true,
        Cause::Backoff | Cause::Fixed | Cause::Queue | Cause::Cron => false,
    }
}

/// Schedules of one source beside the basic ones; a source with more is many sources in one.
const SCHEDULES_MAX: usize = 24;

/// Gaps that a schedule must explain before a source is said to have it; two are a coincidence.
const GAPS_LEAST: f64 = 3.0;

/// The weights of schedules in a source. A schedule is added when what it explains better is worth
/// more than the price of naming it, which is the logarithm of its rarity: with enough narrow
/// schedules anything can be explained, and nothing is.
fn learn(sample: &[&Gaps], components: &[Component]) -> Vec<f64> {
    let table = Table::new(sample, components);
    let basic = |component: &Component| if is_basic(component) { component.weight } else { 0.0 };
    let mut weights: Vec<f64> = components.iter().map(basic).collect();
    let mut chosen = Vec::new();
    for _ in 0..SCHEDULES_MAX {
        for _ in 0..ROUNDS {
            weights = table.round(&weights);
        }
        let Some((best, share)) = best_addition(&table, components, &weights) else { break };
        for weight in &mut weights {
            *weight *= 1.0 - share;
        }
        if let Some(weight) = weights.get_mut(best) {
            *weight += share;
        }
        chosen.push(best);
    }
    let mut learned = spread_over_rivals(&table, components, &weights, &chosen);
    let clusters = sample.len() as f64;
    for (weight, component) in learned.iter_mut().zip(components) {
        *weight =
            (PRIOR_CLUSTERS * component.weight + clusters * *weight) / (PRIOR_CLUSTERS + clusters);
    }
    learned
}

/// The schedule that is most worth adding, with the share it would take.
fn best_addition(table: &Table, components: &[Component], weights: &[f64]) -> Option<(usize, f64)> {
    const REFINEMENTS: usize = 4;
    let mixed = table.mixed(weights);
    let clusters = table.rows.len() as f64;
    // By schedule: how much better than now it explains each cluster, and the cluster's gaps.
    let mut better: Vec<Vec<(f64, f64)>> = vec![Vec::new(); components.len()];
    for ((row, mix), gaps) in table.rows.iter().zip(&mixed).zip(&table.counts) {
        for (at, density) in row {
            if let Some(list) = better.get_mut(*at) {
                list.push((density / mix, *gaps));
            }
        }
    }
    let mut best: Option<(usize, f64, f64)> = None;
    for (at, (list, component)) in better.iter().zip(components).enumerate() {
        let already = weights.get(at).is_some_and(|weight| *weight > 0.0);
        if list.is_empty() || already || is_basic(component) {
            continue;
        }
        let part = |share: f64, ratio: f64| share * ratio / (1.0 - share + share * ratio);
        let mut share = (list.len() as f64 / clusters * 0.5).min(0.5);
        for _ in 0..REFINEMENTS {
            share = list.iter().map(|(ratio, _)| part(share, *ratio)).sum::<f64>() / clusters;
            share = share.min(0.999);
        }
        let gaps: f64 = list.iter().map(|(ratio, gaps)| part(share, *ratio) * gaps).sum();
        let others = clusters - list.len() as f64;
        let gain: f64 =
            list.iter().map(|(ratio, _)| (1.0 - share + share * ratio).ln()).sum::<f64>()
                + others * (1.0 - share).ln()
                + component.weight.ln()
                - clusters.ln() / 2.0;
        if gain > 0.0 && gaps >= GAPS_LEAST * 0.95 && best.is_none_or(|(_, _, other)| gain > other)
        {
            best = Some((at, share, gain));
        }
    }
    best.map(|(at, share, _)| (at, share))
}

/// A chosen schedule stands for all that explain its clusters about as well: its weight is shared
/// with them by what is common and by how well they fit all its clusters together. Five lone gaps
/// of two seconds are a fixed wait or the first step of a backoff, and must stay both.
fn spread_over_rivals(
    table: &Table,
    components: &[Component],
    weights: &[f64],
    chosen: &[usize],
) -> Vec<f64> {
    /// What a schedule that does not fit a cluster loses; the tables hold nothing smaller.
    const MISFIT_LN: f64 = 2.0 * NEGLIGIBLE_LN;
    let mixed = table.mixed(weights);
    let mut spread = weights.to_vec();
    for at in chosen {
        let weight = weights.get(*at).copied().unwrap_or(0.0);
        let mut scores: Vec<f64> = components
            .iter()
            .map(|rival| if is_basic(rival) { f64::NEG_INFINITY } else { rival.weight.ln() })
            .collect();
        for (row, mix) in table.rows.iter().zip(&mixed) {
            let own = row.iter().find(|(other, _)| other == at).map_or(0.0, |(_, own)| *own);
            let part = weight * own / mix;
            if part < 1e-3 {
                continue;
            }
            for score in &mut scores {
                *score += part * MISFIT_LN;
            }
            for (rival, density) in row {
                if let Some(score) = scores.get_mut(*rival) {
                    *score += part * (density.ln() - MISFIT_LN);
                }
            }
        }
        let mut shares: Vec<(usize, f64)> = scores.into_iter().enumerate().collect();
        normalise(&mut shares);
        if let Some(slot) = spread.get_mut(*at) {
            *slot -= weight;
        }
        for (rival, share) in shares {
            if let Some(slot) = spread.get_mut(rival) {
                *slot += weight * share;
            }
        }
    }
    spread
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
