//! Which migrations there are, and what to do with a database that has some of them.
//!
//! This is the pure part: a list, a decision, and a text to print. What runs the statements is the
//! adapter. Migrations go forward only, are numbered from 1 without a gap, and each is applied in
//! one transaction together with the row that records it.

use crate::error::{Kind, StoreError};
use std::fmt::Write;

/// One step of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number, from 1.
    pub number: i32,
    /// Its name, as in the name of its file.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
}

/// All steps of one database's schema, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrations {
    /// The database that they are for, as `--print` names it.
    pub database: &'static str,
    /// The table with the columns `number` and `name` in which applied steps are recorded. The
    /// first step makes it.
    pub recorded_in: &'static str,
    /// The steps.
    pub list: &'static [Migration],
}

/// What to do with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: it has every step.
    InPlace,
    /// Apply these, in this order.
    Apply(&'static [Migration]),
    /// Refuse: it has steps that this program does not know.
    Newer {
        /// The highest number found.
        found: i32,
        /// The highest number known.
        known: i32,
    },
    /// Refuse: a step is missing below one that is there.
    Gap {
        /// The lowest number that is missing.
        missing: i32,
    },
}

impl Migrations {
    /// Decides from the numbers that the database has recorded, in any order.
    pub fn plan(&self, found: &[i32]) -> Plan {
        let known = self.newest();
        if let Some(highest) = found.iter().copied().max()
            && highest > known
        {
            return Plan::Newer { found: highest, known };
        }
        let there = |migration: &&Migration| found.contains(&migration.number);
        let applied = self.list.iter().take_while(there).count();
        let rest = self.list.get(applied..).unwrap_or_default();
        let Some(first) = rest.first() else { return Plan::InPlace };
        if rest.iter().any(|migration| there(&migration)) {
            return Plan::Gap { missing: first.number };
        }
        Plan::Apply(rest)
    }

    /// The number of the newest step; 0 where there is none.
    pub fn newest(&self) -> i32 {
        self.list.last().map_or(0, |migration| migration.number)
    }

    /// The sentence for a program that finds the database otherwise than it needs it; nothing
    /// where the plan is [`Plan::InPlace`].
    pub fn refusal(&self, plan: Plan) -> Option<StoreError> {
        let sentence = match plan {
            Plan::InPlace => return None,
            Plan::Apply(rest) => {
                let have = self.list.len().saturating_sub(rest.len());
                format!(
                    "the schema has {have} of {} migrations; run `samekey migrate`, then start again",
                    self.list.len()
                )
            }
            Plan::Newer { found, known } => format!(
                "the schema has migration {found}, and this program knows {known} at the most; start a newer samekey"
            ),
            Plan::Gap { missing } => format!(
                "migration {missing} is not recorded, but a later one is; find out who changed the table {}, and restore what is missing",
                self.recorded_in
            ),
        };
        Some(StoreError::new(Kind::Schema, sentence))
    }

    /// The sentence for a database whose table of steps is there without a step in it. The first step
    /// makes the table and is recorded with it, so somebody has emptied it; to apply the steps would
    /// fail at tables that are there.
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "sqlx"))]
    pub(crate) fn emptied(&self) -> StoreError {
        StoreError::new(
            Kind::Schema,
            format!(
                "the table {} is there and empty, so nobody can tell which migrations ran; find out who emptied it, and restore its rows from a backup or from `samekey migrate --print`",
                self.recorded_in
            ),
        )
    }

    /// The statement that records a step as applied.
    pub fn record(&self, migration: &Migration) -> String {
        format!(
            "insert into {} (number, name)\nvalues ({}, '{}');\n",
            self.recorded_in, migration.number, migration.name
        )
    }

    /// What `samekey migrate --print` says: every step with the statement that records it, for
    /// teams that apply schemas with a tool of their own.
    pub fn print(&self) -> String {
        let mut text = format!(
            "-- The schema of samekey for {}, {} migration(s).\n\
             -- Apply each one once, in this order, in one transaction with the insert below it.\n",
            self.database,
            self.list.len()
        );
        for migration in self.list {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n-- migration {}: {}\n\n{}\n\n{}",
                migration.number,
                migration.name,
                migration.sql.trim_end(),
                self.record(migration)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(number: i32, name: &'static str) -> Migration {
        Migration { number, name, sql: "create table t (a integer);\n" }
    }

    const THREE: [Migration; 3] = [step(1, "keys"), step(2, "more"), step(3, "most")];
    const SCHEMA: Migrations =
        Migrations { database: "a database", recorded_in: "steps", list: &THREE };

    #[test]
    fn an_empty_database_gets_every_step() {
        assert_eq!(SCHEMA.plan(&[]), Plan::Apply(&THREE));
    }

    #[test]
    fn a_database_in_the_middle_gets_the_rest() {
        assert_eq!(SCHEMA.plan(&[1]), Plan::Apply(&THREE[1..]));
        assert_eq!(SCHEMA.plan(&[2, 1]), Plan::Apply(&THREE[2..]));
    }

    #[test]
    fn a_database_with_all_is_left_alone() {
        assert_eq!(SCHEMA.plan(&[3, 1, 2]), Plan::InPlace);
        assert_eq!(SCHEMA.refusal(Plan::InPlace), None);
    }

    #[test]
    fn a_newer_database_is_refused() {
        let plan = SCHEMA.plan(&[1, 2, 3, 4]);
        assert_eq!(plan, Plan::Newer { found: 4, known: 3 });
        let refusal = SCHEMA.refusal(plan).unwrap();
        assert_eq!(refusal.kind(), Kind::Schema);
        assert!(refusal.to_string().contains("migration 4"), "{refusal}");
    }

    #[test]
    fn a_gap_is_refused() {
        assert_eq!(SCHEMA.plan(&[1, 3]), Plan::Gap { missing: 2 });
        assert_eq!(SCHEMA.plan(&[2]), Plan::Gap { missing: 1 });
    }

    #[test]
    fn a_schema_that_is_behind_says_what_to_run() {
        let refusal = SCHEMA.refusal(SCHEMA.plan(&[1])).unwrap();
        assert_eq!(refusal.kind(), Kind::Schema);
        assert!(refusal.to_string().contains("1 of 3"), "{refusal}");
        assert!(refusal.to_string().contains("samekey migrate"), "{refusal}");
    }

    #[test]
    fn what_is_printed_holds_every_step_and_its_record_in_order() {
        let text = SCHEMA.print();
        let mut from = 0;
        for migration in &THREE {
            let record = SCHEMA.record(migration);
            let at = text[from..].find(&record).expect("the record of each step");
            assert!(text[from..from + at].contains("create table t"), "the step before its record");
            from += at + record.len();
        }
        assert_eq!(from, text.len(), "nothing after the last step");
    }
}
