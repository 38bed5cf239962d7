//! S14: planted secrets stand in no answer and in nothing that was written.

use crate::history::{Attempt, Evidence, Violation};
use memchr::memmem::Finder;

pub(super) fn check(attempts: &[Attempt], evidence: &Evidence, found: &mut Vec<Violation>) {
    let last = evidence.last_round.iter().map(|last| &last.attempt);
    let answers: Vec<_> = attempts.iter().chain(last).collect();
    for (number, secret) in evidence.secrets.iter().enumerate().filter(|(_, s)| !s.is_empty()) {
        let finder = Finder::new(secret.as_bytes());
        let shows = |bytes: &[u8]| finder.find(bytes).is_some();
        let mut wrong = |place: &str| {
            // The report is a log as well: it names the secret by its place in the list.
            let found_at = format!("secret number {number} stands in {place}");
            found.push(Violation { rule: "S14", found: found_at });
        };
        for attempt in &answers {
            let Some(answer) = &attempt.answer else { continue };
            let in_headers = answer.headers.iter().any(|(_, value)| shows(value));
            if in_headers || shows(&answer.body) {
                wrong(&format!("an answer to org {}, key {}", attempt.org, attempt.key));
            }
        }
        for captured in evidence.captured.iter().filter(|captured| shows(&captured.bytes)) {
            wrong(&captured.place);
        }
    }
}
