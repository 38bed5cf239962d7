//! The result of grading, as a table and as JSON.

use serde::Serialize;

/// One line of the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The file that was checked.
    pub name: &'static str,
    /// Whether it is as it should be.
    pub passed: bool,
    /// Why, in one line.
    pub reason: String,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every check passed.
    pub passed: bool,
    /// What the grader cannot judge.
    pub note: &'static str,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// The longest name of a checked file.
const NAME_WIDTH: usize = "forensics.txt".len();

/// Said with every result, because a passed text says less than a passed script.
const NOTE: &str = "Scripts are judged by what the API recorded. In texts the grader only looks for the words of a topic: \
                    it cannot tell whether what they say is right.";

impl Report {
    /// A result from its checks.
    pub fn new(checks: Vec<Check>) -> Self {
        let passed = !checks.is_empty() && checks.iter().all(|check| check.passed);
        Self { passed, note: NOTE, checks }
    }

    /// The result for people: a line a check.
    pub fn table(&self) -> String {
        let mut lines = String::new();
        for Check { name, passed, reason } in &self.checks {
            let word = if *passed { "pass" } else { "FAIL" };
            lines.push_str(&format!("{word}  {name:<NAME_WIDTH$}  {reason}\n"));
        }
        let passed = self.checks.iter().filter(|check| check.passed).count();
        format!("{lines}\n{passed} of {} passed. {}\n", self.checks.len(), self.note)
    }

    /// The result for programs.
    pub fn json(&self) -> String {
        // Plain structs of text cannot fail to be written.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
