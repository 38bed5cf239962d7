//! From clusters and counts to the report.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::words;
use super::{
    CauseShare, CauseTotal, ClusterReport, ExampleReport, FORMAT_VERSION, InputReport, MoneyTotal,
    ProblemReport, Report, RowReport, Settings, SourceTotal, Totals, VerdictTotal,
};
use crate::cause::learn::diagnose;
use crate::cause::verdict::{KeyColumn, Verdict, judge};
use crate::cause::{Cause, Confidence, Diagnosis};
use crate::cluster::search::{Beyond, Found};
use crate::cluster::{Cluster, Money};
use crate::options::{Breadth, Options, nanos};
use crate::read::columns::Field;
use crate::read::layout::Layout;
use crate::read::problem::Problems;
use crate::read::scan::Scanned;
use crate::value::amount::{Currency, DECIMALS_USUAL};

/// An input as the report names it.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) encoding: &'static str,
    pub(crate) packed: bool,
}

/// A cluster with what was concluded from it.
struct Judged {
    cluster: Cluster,
    diagnosis: Diagnosis,
    verdict: Verdict,
}

/// Sources read apart; payments of further ones are read together.
const SOURCES_MAX: usize = 64;

/// Builds the report.
pub(crate) fn build(
    named: &[Named],
    layouts: &[Layout],
    scanned: &Scanned,
    found: Found,
    options: &Options,
    threads: usize,
) -> Report {
    let names: Vec<String> = named.iter().map(|one| one.name.clone()).collect();
    let columns: Vec<KeyColumn> = layouts
        .iter()
        .map(|layout| match layout.columns.of(Field::Key) {
            Some(_) => KeyColumn::Present,
            None => KeyColumn::Absent,
        })
        .collect();
    let mut judged = judge_all(found.clusters, &columns, nanos(options.key_life), threads);
    judged.sort_by_cached_key(|one| {
        let stake = one.cluster.money().map_or(0, |money| money.at_stake_minor);
        (
            std::cmp::Reverse((stake, one.cluster.surplus())),
            one.cluster.members.first().map(|member| member.ns),
            one.cluster.label.clone(),
        )
    });
    let grain_ns = scanned.files.iter().map(|file| file.finest.ns()).min().unwrap_or(1);
    let at = |ns: Option<i64>| ns.map(|ns| words::instant(ns, grain_ns));
    Report {
        format_version: FORMAT_VERSION,
        inputs: inputs(named, layouts, scanned),
        rows: scanned.rows(),
        rows_left_out: scanned.problems.left_out(),
        rows_without_effect: scanned.without_effect,
        first_at: at(scanned.first_ns),
        last_at: at(scanned.last_ns),
        settings: Settings {
            pause_s: options.pause.as_secs_f64(),
            window_s: options.window.as_secs_f64(),
            key_life_s: options.key_life.as_secs_f64(),
            fuzzy: options.breadth == Breadth::Fuzzy,
            timezone: options.zone.clone().unwrap_or_else(|| "UTC".to_owned()),
        },
        totals: totals(&judged, &found.beyond),
        causes: cause_totals(&judged),
        verdicts: verdict_totals(&judged),
        sources: source_totals(&judged),
        clusters_not_listed: found.beyond.clusters,
        explained: found.explained,
        overloaded_example: found.overloaded_example.map(|place| {
            let name = names.get(place.file as usize).map_or("", String::as_str);
            format!("{name}:{}", place.line)
        }),
        problems: problems(&scanned.problems, &names),
        limits: limits(&found.beyond),
        clusters: judged.into_iter().map(|one| cluster_report(one, &names)).collect(),
    }
}

fn judge_all(
    clusters: Vec<Cluster>,
    columns: &[KeyColumn],
    key_life_ns: i64,
    threads: usize,
) -> Vec<Judged> {
    let mut by_source: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (at, cluster) in clusters.iter().enumerate() {
        by_source.entry(cluster.source.as_deref()).or_default().push(at);
    }
    let mut groups: Vec<Vec<usize>> = by_source.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let rest: Vec<usize> = groups.drain(SOURCES_MAX.min(groups.len())..).flatten().collect();
    groups.push(rest);
    let diagnoses = diagnose_all(&clusters, &groups, threads);
    clusters
        .into_iter()
        .zip(diagnoses.into_values())
        .map(|(cluster, diagnosis)| {
            // Of several exports one may show keys and another not.
            let shows = |file: u32| columns.get(file as usize) == Some(&KeyColumn::Present);
            let column = if cluster.payments().any(|member| shows(member.place.file)) {
                KeyColumn::Present
            } else {
                KeyColumn::Absent
            };
            let verdict = judge(&cluster, &diagnosis, column, key_life_ns);
            Judged { cluster, diagnosis, verdict }
        })
        .collect()
}

/// Reads each source by itself, several at a time.
fn diagnose_all(
    clusters: &[Cluster],
    groups: &[Vec<usize>],
    threads: usize,
) -> BTreeMap<usize, Diagnosis> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = BTreeMap::new();
        while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
            let members: Vec<&Cluster> = group.iter().filter_map(|at| clusters.get(*at)).collect();
            done.extend(group.iter().copied().zip(diagnose(&members)));
        }
        done
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.min(groups.len())).map(|_| scope.spawn(work)).collect();
        let mut all = BTreeMap::new();
        for worker in workers {
            match worker.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

fn inputs(named: &[Named], layouts: &[Layout], scanned: &Scanned) -> Vec<InputReport> {
    named
        .iter()
        .zip(layouts)
        .zip(&scanned.files)
        .map(|((named, layout), count)| InputReport {
            name: named.name.clone(),
            rows: count.rows,
            encoding: named.encoding.to_owned(),
            packed: named.packed,
            separator: match layout.shape.separator {
                b'\t' => "tab".to_owned(),
                byte => char::from(byte).to_string(),
            },
            columns: layout
                .taken()
                .into_iter()
                .map(|(field, column)| (field.word().to_owned(), column))
                .collect(),
            precision: words::grain(count.finest).to_owned(),
            guesses: layout.guesses.clone(),
        })
        .collect()
}

/// Money by currency.
#[derive(Default)]
struct Purse(BTreeMap<String, (i64, i64)>);

impl Purse {
    fn add(&mut self, currency: Option<Currency>, money: Money) {
        let code = currency.map(|currency| currency.as_str().to_owned()).unwrap_or_default();
        self.add_code(code, money.surplus_minor, money.at_stake_minor);
    }

    fn add_code(&mut self, code: String, surplus: i64, stake: i64) {
        let sum = self.0.entry(code).or_default();
        *sum = (sum.0.saturating_add(surplus), sum.1.saturating_add(stake));
    }

    fn into_totals(self) -> Vec<MoneyTotal> {
        self.0
            .into_iter()
            .map(|(currency, (surplus_minor, at_stake_minor))| MoneyTotal {
                decimals: Currency::read(currency.as_bytes())
                    .map_or(DECIMALS_USUAL, Currency::decimals),
                currency,
                surplus_minor,
                at_stake_minor,
            })
            .collect()
    }
}

fn totals(judged: &[Judged], beyond: &Beyond) -> Totals {
    let mut totals = Totals {
        clusters: judged.len() as u64 + beyond.clusters,
        payments: beyond.payments,
        surplus: beyond.payments.saturating_sub(beyond.clusters),
        ..Totals::default()
    };
    let mut purse = Purse::default();
    for one in judged {
        totals.payments += one.cluster.payments().count() as u64;
        totals.surplus += one.cluster.surplus();
        match one.cluster.money() {
            Some(money) => purse.add(one.cluster.currency, money),
            None => totals.clusters_without_amount += 1,
        }
    }
    for (code, (surplus, stake)) in &beyond.money {
        purse.add_code(code.clone(), *surplus, *stake);
    }
    totals.money = purse.into_totals();
    totals
}

fn cause_totals(judged: &[Judged]) -> Vec<CauseTotal> {
    let mut by_cause: BTreeMap<(bool, Cause), Vec<&Judged>> = BTreeMap::new();
    for one in judged {
        let ambiguous = one.diagnosis.is_ambiguous();
        let cause = if ambiguous { Cause::Undetermined } else { one.diagnosis.cause() };
        by_cause.entry((ambiguous, cause)).or_default().push(one);
    }
    let mut all: Vec<CauseTotal> = by_cause
        .into_iter()
        .map(|((ambiguous, cause), members)| {
            let mut purse = Purse::default();
            let mut schedules: BTreeMap<&str, usize> = BTreeMap::new();
            for one in &members {
                purse.add(one.cluster.currency, one.cluster.money().unwrap_or_default());
                if let Some(schedule) = &one.diagnosis.schedule {
                    *schedules.entry(schedule).or_default() += 1;
                }
            }
            let schedule =
                schedules.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name);
            CauseTotal {
                cause: (!ambiguous).then_some(cause),
                label: if ambiguous { "ambiguous".to_owned() } else { cause.label().to_owned() },
                clusters: members.len() as u64,
                surplus: members.iter().map(|one| one.cluster.surplus()).sum(),
                confidence: members
                    .iter()
                    .map(|one| one.diagnosis.confidence)
                    .max()
                    .unwrap_or(Confidence::Low),
                schedule: schedule.filter(|_| !ambiguous).map(str::to_owned),
                money: purse.into_totals(),
            }
        })
        .collect();
    all.sort_by_key(|total| std::cmp::Reverse(total.clusters));
    all
}

fn verdict_totals(judged: &[Judged]) -> Vec<VerdictTotal> {
    let mut by_verdict: BTreeMap<Verdict, BTreeMap<Cause, u64>> = BTreeMap::new();
    for one in judged {
        let causes = by_verdict.entry(one.verdict).or_default();
        let cause =
            if one.diagnosis.is_ambiguous() { Cause::Undetermined } else { one.diagnosis.cause() };
        *causes.entry(cause).or_default() += 1;
    }
    let mut all: Vec<VerdictTotal> = by_verdict
        .into_iter()
        .map(|(verdict, causes)| {
            let clusters: u64 = causes.values().sum();
            let mut ranked: Vec<(Cause, u64)> = causes.into_iter().collect();
            ranked.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let mut changes = vec![verdict.change().to_owned()];
            // What a twentieth of the purchases came from is not what to change first.
            const SHARE_LEAST: u64 = 20;
            const CAUSES_MAX: usize = 3;
            let main = ranked.into_iter().filter(|(_, count)| count * SHARE_LEAST >= clusters);
            changes.extend(main.take(CAUSES_MAX).map(|(cause, _)| cause.change().to_owned()));
            VerdictTotal {
                verdict,
                label: verdict.label().to_owned(),
                explanation: verdict.explanation().to_owned(),
                changes,
                clusters,
            }
        })
        .collect();
    all.sort_by_key(|total| std::cmp::Reverse(total.clusters));
    all
}

fn source_totals(judged: &[Judged]) -> Vec<SourceTotal> {
    let mut by_source: BTreeMap<&str, (u64, u64, BTreeMap<Cause, u64>)> = BTreeMap::new();
    for one in judged {
        let Some(source) = one.cluster.source.as_deref() else { continue };
        let sum = by_source.entry(source).or_default();
        sum.0 += 1;
        sum.1 += one.cluster.surplus();
        *sum.2.entry(one.diagnosis.cause()).or_default() += 1;
    }
    let mut all: Vec<SourceTotal> = by_source
        .into_iter()
        .map(|(source, (clusters, surplus, causes))| SourceTotal {
            source: plain(source),
            clusters,
            surplus,
            cause: causes
                .into_iter()
                .max_by_key(|(_, count)| *count)
                .map(|(cause, _)| cause.label().to_owned())
                .unwrap_or_default(),
        })
        .collect();
    all.sort_by_key(|total| std::cmp::Reverse(total.clusters));
    all.truncate(SOURCES_MAX);
    all
}

/// Text from the records without what would steer a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn cluster_report(one: Judged, names: &[String]) -> ClusterReport {
    let Judged { cluster, diagnosis, verdict } = one;
    let money = cluster.money();
    ClusterReport {
        label: plain(&cluster.label),
        signature: cluster.signature,
        source: cluster.source.as_deref().map(plain),
        payments: cluster.payments().count() as u64,
        surplus: cluster.surplus(),
        currency: cluster.currency.map(|currency| currency.as_str().to_owned()),
        surplus_minor: money.map(|money| money.surplus_minor),
        at_stake_minor: money.map(|money| money.at_stake_minor),
        // Through milliseconds and up: a microsecond of float noise is no gap.
        gaps_s: cluster.gaps().iter().map(|gap| (*gap as f64 / 1e3).round() / 1e6).collect(),
        causes: diagnosis
            .causes
            .iter()
            .map(|(cause, share)| CauseShare {
                cause: *cause,
                share: (share * 1000.0).round() / 1000.0,
            })
            .collect(),
        ambiguous: diagnosis.is_ambiguous(),
        confidence: diagnosis.confidence,
        schedule: diagnosis.schedule,
        verdict,
        notes: diagnosis.notes.iter().map(|note| (*note).to_owned()).collect(),
        rows: cluster
            .members
            .iter()
            .map(|member| RowReport {
                id: member.id.as_deref().map(plain),
                id_lossy: member.id_lossy,
                key: member.key.as_deref().map(plain),
                at: words::instant(member.ns, cluster.grain_ns),
                amount_minor: member.amount,
                returned_minor: member.returned,
                role: member.role,
                file: names.get(member.place.file as usize).cloned().unwrap_or_default(),
                line: member.place.line,
            })
            .collect(),
    }
}

fn problems(problems: &Problems, names: &[String]) -> Vec<ProblemReport> {
    problems
        .iter()
        .map(|(kind, problem)| ProblemReport {
            kind,
            explanation: kind.explanation().to_owned(),
            left_out: kind.is_left_out(),
            rows: problem.rows,
            examples: problem
                .examples
                .iter()
                .map(|example| ExampleReport::of(example, names))
                .collect(),
        })
        .collect()
}

fn limits(beyond: &Beyond) -> Vec<String> {
    let mut limits = Vec::new();
    if beyond.clusters > 0 {
        limits.push(format!(
            "{} more were counted with their money and are not listed one by one",
            words::count(beyond.clusters, "purchase", "purchases")
        ));
    }
    if beyond.crossing_left > 0 {
        limits.push(format!(
            "{} on so many records with different references that they were not compared; is the \
             key column the right one?",
            words::count(beyond.crossing_left, "key stands", "keys stand")
        ));
    }
    limits
}
