//! Decides what happens to a request. Pure: the plan, the seed and what was counted so far are all it looks at.

use super::plan::{AnswerPlan, Plan, Process, Rule, Wire};
use crate::payments::Op;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Keys and orders whose attempts are counted at most; later ones count as first attempts.
const ATTEMPTS_TRACKED_MAX: usize = 1_000_000;
/// Orders that can be repaired between two resets.
const REPAIRED_MAX: usize = 100_000;

/// What the planner looks at.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The kind of request.
    pub op: Op,
    /// Its position among its kind since the reset, from 1.
    pub number: u64,
    /// The key, if there is one.
    pub key: Option<&'a str>,
    /// The order, if one is named.
    pub order_id: Option<&'a str>,
    /// The members of the body.
    pub fields: &'a Map<String, Value>,
    /// Its position on its connection, from 1.
    pub on_connection: u64,
    /// Whether it came over HTTP/2.
    pub is_http2: bool,
}

/// What happens to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The rule behind it, by name.
    pub rule: Option<String>,
    /// Whether it is processed.
    pub process: Process,
    /// What is answered.
    pub answer: Arc<AnswerPlan>,
    /// What happens on the wire.
    pub wire: Wire,
}

/// A plan, and what was counted under it since the last reset.
#[derive(Debug, Default)]
pub struct Planner {
    plan: Plan,
    /// What each rule answers, what a late answer is, and the plain one: shared, because every request gets one.
    answers: Vec<Arc<AnswerPlan>>,
    late: Arc<AnswerPlan>,
    plain: Arc<AnswerPlan>,
    counts_attempts: bool,
    applied: Vec<u64>,
    attempts: HashMap<String, u64>,
    repaired: HashSet<String>,
}

impl Planner {
    /// A planner at the start of its plan.
    pub fn new(plan: Plan) -> Self {
        let applied = vec![0; plan.rules.len()];
        let counts_attempts = plan.rules.iter().any(|rule| !rule.when.attempt.is_empty());
        let answers = plan.rules.iter().map(|rule| Arc::new(rule.answer.clone())).collect();
        let late_ms = plan.late.map(|late| late.ms);
        let late = Arc::new(AnswerPlan { late_ms, ..AnswerPlan::default() });
        Self { plan, answers, late, counts_attempts, applied, ..Self::default() }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How often each rule was applied.
    pub fn applied(&self) -> &[u64] {
        &self.applied
    }

    /// Back to the start of the plan.
    pub fn reset(&mut self) {
        *self = Self::new(std::mem::take(&mut self.plan));
    }

    /// From now on this order is no longer declined.
    pub fn repair(&mut self, order_id: &str) {
        if self.repaired.len() < REPAIRED_MAX {
            self.repaired.insert(order_id.to_owned());
        }
    }

    /// Decides about the next request.
    pub fn decide(&mut self, facts: &Facts<'_>) -> Course {
        let attempt = self.count_attempt(facts);
        let seed = self.plan.seed;
        let rules = self.plan.rules.iter().zip(&self.answers).zip(self.applied.iter_mut());
        for (index, ((rule, answer), applied)) in rules.enumerate() {
            let is_used_up = rule.times.is_some_and(|times| *applied >= times);
            let is_repaired = rule.process == Some(Process::Declined)
                && facts.order_id.is_some_and(|order| self.repaired.contains(order));
            let is_due = !is_used_up && !is_repaired;
            if is_due && fits(rule, facts, attempt) && is_chosen(rule, seed, index, facts) {
                *applied += 1;
                return course(rule, index, Arc::clone(answer));
            }
        }
        let late = self.plan.late;
        let is_late =
            facts.op == Op::Pay && late.is_some_and(|late| facts.number.is_multiple_of(late.every));
        let answer = if is_late { &self.late } else { &self.plain };
        Course {
            rule: is_late.then(|| "late".to_owned()),
            process: Process::Once,
            answer: Arc::clone(answer),
            wire: Wire::Whole,
        }
    }

    fn count_attempt(&mut self, facts: &Facts<'_>) -> u64 {
        let is_command = match facts.op {
            Op::Pay | Op::Capture | Op::Refund | Op::Void => true,
            Op::Query | Op::Other => false,
        };
        let Some(name) = facts.key.or(facts.order_id) else { return 1 };
        if !self.counts_attempts || !is_command {
            return 1;
        }
        if self.attempts.len() >= ATTEMPTS_TRACKED_MAX && !self.attempts.contains_key(name) {
            return 1;
        }
        let attempt = self.attempts.entry(name.to_owned()).or_insert(0);
        *attempt += 1;
        *attempt
    }
}

fn course(rule: &Rule, index: usize, answer: Arc<AnswerPlan>) -> Course {
    let unprocessed = rule.wire.means_unprocessed();
    let natural = if unprocessed { Process::Never } else { Process::Once };
    Course {
        rule: Some(rule.name.clone().unwrap_or_else(|| format!("rule {}", index + 1))),
        process: rule.process.unwrap_or(natural),
        answer,
        wire: rule.wire.clone(),
    }
}

fn fits(rule: &Rule, facts: &Facts<'_>, attempt: u64) -> bool {
    let when = &rule.when;
    let listed = |counts: &[u64], count| counts.is_empty() || counts.contains(&count);
    let same = |wanted: &Option<String>, found: Option<&str>| {
        wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
    };
    when.op.contains(&facts.op)
        && listed(&when.number, facts.number)
        && when.every.is_none_or(|every| facts.number.is_multiple_of(every))
        && when.from.is_none_or(|from| facts.number >= from)
        && when.to.is_none_or(|to| facts.number <= to)
        && listed(&when.attempt, attempt)
        && same(&when.order_id, facts.order_id)
        && same(&when.key, facts.key)
        && when.keyed.is_none_or(|keyed| facts.key.is_some() == keyed)
        && when.fields.iter().all(|(name, value)| facts.fields.get(name) == Some(value))
        && (rule.wire != Wire::KillIdle || facts.on_connection > 1)
        && (!rule.wire.is_http2_only() || facts.is_http2)
}

/// A coin that depends on seed, rule and number alone, so that the order in which requests meet does not matter.
fn is_chosen(rule: &Rule, seed: u64, index: usize, facts: &Facts<'_>) -> bool {
    let Some(share) = rule.when.share else { return true };
    let mut bits = Dice::new(seed, index as u64, facts.number);
    // The upper 53 bits make a number in [0, 1) without rounding.
    ((bits.roll() >> 11) as f64) / ((1u64 << 53) as f64) < share
}

/// A stream of bits made from three numbers; the mixing function is splitmix64's.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// A stream of its own for each triple.
    pub fn new(seed: u64, stream: u64, number: u64) -> Self {
        let mut dice = Self(seed);
        for part in [stream, number] {
            dice = Self(dice.roll() ^ part);
        }
        dice
    }

    /// The next 64 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Late;
    use super::*;

    fn facts(number: u64, fields: &Map<String, Value>) -> Facts<'_> {
        Facts {
            op: Op::Pay,
            number,
            key: None,
            order_id: None,
            fields,
            on_connection: 1,
            is_http2: false,
        }
    }

    fn planner(text: &str) -> Planner {
        Planner::new(Plan::from_json("plan", text.as_bytes()).unwrap())
    }

    #[test]
    fn the_article_answers_even_payments_late_and_nothing_else() {
        let mut planner =
            Planner::new(Plan { late: Some(Late { every: 2, ms: 6 }), ..Plan::article() });
        let none = Map::new();
        for number in 1..=6 {
            let late = planner.decide(&facts(number, &none)).answer.late_ms;
            assert_eq!(late.is_some(), number % 2 == 0, "number {number}");
        }
        let query = Facts { op: Op::Query, ..facts(2, &none) };
        assert_eq!(planner.decide(&query).answer.late_ms, None);
    }

    #[test]
    fn the_same_seed_chooses_the_same_requests_in_any_order() {
        let plan = r#"{"seed":SEED,"rules":[{"when":{"share":0.3},"wire":"close"}]}"#;
        let none = Map::new();
        let chosen = |seed: &str, numbers: &[u64]| {
            let mut planner = planner(&plan.replace("SEED", seed));
            let mut hit: Vec<u64> = numbers
                .iter()
                .copied()
                .filter(|number| planner.decide(&facts(*number, &none)).wire == Wire::Close)
                .collect();
            hit.sort_unstable();
            hit
        };
        let forward: Vec<u64> = (1..=1000).collect();
        let backward: Vec<u64> = (1..=1000).rev().collect();
        assert_eq!(chosen("7", &forward), chosen("7", &backward));
        assert_ne!(chosen("7", &forward), chosen("8", &forward));
        assert!((250..350).contains(&chosen("7", &forward).len()));
    }

    #[test]
    fn attempts_are_counted_by_key_then_order_and_times_are_used_up() {
        let mut planner =
            planner(r#"{"rules":[{"when":{"attempt":[1]},"times":2,"wire":"reset"}]}"#);
        let none = Map::new();
        let mut wire =
            |key, order_id| planner.decide(&Facts { key, order_id, ..facts(1, &none) }).wire;
        assert_eq!(wire(Some("K1"), Some("ORD-1")), Wire::Reset);
        assert_eq!(wire(Some("K1"), Some("ORD-1")), Wire::Whole);
        assert_eq!(wire(None, Some("ORD-1")), Wire::Reset);
        assert_eq!(wire(None, Some("ORD-2")), Wire::Whole, "the rule was used up");
        planner.reset();
        let again = Facts { key: Some("K1"), ..facts(1, &none) };
        assert_eq!(planner.decide(&again).wire, Wire::Reset, "a reset starts the plan again");
    }

    #[test]
    fn every_condition_of_a_rule_can_keep_it_from_fitting() {
        let mut planner = planner(
            r#"{"rules":[{"when":{"op":["pay"],"number":[2,4],"every":2,"from":2,"to":4,"order_id":"O","key":"K",
                "keyed":true,"fields":{"method":"card"}},"wire":"close"}]}"#,
        );
        let card: Map<String, Value> = serde_json::from_str(r#"{"method":"card"}"#).unwrap();
        let cash: Map<String, Value> = serde_json::from_str(r#"{"method":"cash"}"#).unwrap();
        let fitting = Facts { key: Some("K"), order_id: Some("O"), ..facts(4, &card) };
        assert_eq!(planner.decide(&fitting).wire, Wire::Close);
        let others = [
            Facts { op: Op::Query, ..fitting.clone() },
            Facts { number: 3, ..fitting.clone() },
            Facts { number: 6, ..fitting.clone() },
            Facts { order_id: Some("P"), ..fitting.clone() },
            Facts { key: Some("L"), ..fitting.clone() },
            Facts { key: None, ..fitting.clone() },
            Facts { fields: &cash, ..fitting.clone() },
        ];
        for other in others {
            assert_eq!(planner.decide(&other).wire, Wire::Whole, "{other:?}");
        }
    }

    #[test]
    fn a_first_request_on_a_connection_passes_a_rule_that_kills_idle_ones() {
        let mut planner =
            planner(r#"{"rules":[{"wire":"kill_idle","times":1},{"wire":"refuse_stream"}]}"#);
        let none = Map::new();
        assert_eq!(planner.decide(&facts(1, &none)).wire, Wire::Whole);
        let second = Facts { on_connection: 2, ..facts(2, &none) };
        let course = planner.decide(&second);
        assert_eq!((course.wire, course.process), (Wire::KillIdle, Process::Never));
        let over_http2 = Facts { is_http2: true, ..facts(3, &none) };
        assert_eq!(planner.decide(&over_http2).wire, Wire::RefuseStream);
    }

    #[test]
    fn a_repaired_order_is_no_longer_declined() {
        let mut planner = planner(r#"{"rules":[{"process":"declined"}]}"#);
        let none = Map::new();
        let poor = Facts { order_id: Some("O"), ..facts(1, &none) };
        assert_eq!(planner.decide(&poor).process, Process::Declined);
        planner.repair("O");
        assert_eq!(planner.decide(&poor).process, Process::Once);
        let other = Facts { order_id: Some("P"), ..facts(2, &none) };
        assert_eq!(planner.decide(&other).process, Process::Declined);
    }
}
