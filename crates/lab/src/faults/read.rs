//! Reads a fault plan from JSON and refuses what cannot work, naming the field and what is expected.

use super::plan::{Body, Door, Plan, Process, Rule, Wire};
use crate::error::{Error, Kind};
use base64::Engine;
use http::{HeaderName, HeaderValue};

/// Rules of a plan at most: every request is held against each of them.
const RULES_MAX: usize = 1000;
/// The longest delay: an hour. Nobody waits longer, and a typing mistake is found out.
const DELAY_MS_MAX: u64 = 3_600_000;
/// The longest pause in a trickle: a connection on which nothing moves for longer is taken for idle and ended.
const PAUSE_MS_MAX: u64 = 20_000;
/// Statuses that an answer can have; 1xx are no answers (see `wire.raw`).
const STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

impl Plan {
    /// Reads a plan. `origin` begins the message of an error: a file's name, or `the fault plan`.
    pub fn from_json(origin: &str, text: &[u8]) -> Result<Self, Error> {
        // Serde would take a list for an object, member by member: nobody means that.
        if text.trim_ascii().first() != Some(&b'{') {
            let complaint =
                "expected a JSON object, for example {\"late\":{\"every\":2,\"ms\":6000}}";
            return Err(Error::new(Kind::Plan, format!("{origin}: {complaint}")));
        }
        let mut json = serde_json::Deserializer::from_slice(text);
        let plan: Self = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = match error.path().to_string().as_str() {
                "." => String::new(),
                path => format!("{path}: "),
            };
            Error::new(Kind::Plan, format!("{origin}: {path}{}", error.inner()))
        })?;
        json.end().map_err(|error| Error::new(Kind::Plan, format!("{origin}: {error}")))?;
        match plan.check() {
            Ok(()) => Ok(plan),
            Err(complaint) => Err(Error::new(Kind::Plan, format!("{origin}: {complaint}"))),
        }
    }

    /// Checks what types alone cannot say. The complaint begins with the field.
    pub fn check(&self) -> Result<(), String> {
        if let Some(late) = self.late {
            at_least_one("late.every", late.every)?;
            delay("late.ms", late.ms)?;
        }
        if let Some(life_ms) = self.keys.life_ms {
            at_least_one("keys.life_ms", life_ms)?;
        }
        if let Some(for_ms) = self.connections.for_ms {
            at_least_one("connections.for_ms", for_ms)?;
            delay("connections.for_ms", for_ms)?;
            if self.connections.mode == Door::Open {
                return Err("connections.for_ms: belongs to another mode than open".to_owned());
            }
        }
        if self.rules.len() > RULES_MAX {
            return Err(format!(
                "rules: {} of them, at most {RULES_MAX} are taken",
                self.rules.len()
            ));
        }
        for (index, rule) in self.rules.iter().enumerate() {
            rule.check().map_err(|complaint| format!("rules[{index}].{complaint}"))?;
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let when = &self.when;
        if when.op.is_empty() {
            return Err(
                "when.op: an empty list fits no request; leave it out for payments".to_owned()
            );
        }
        for (field, counts) in [("when.number", &when.number), ("when.attempt", &when.attempt)] {
            counts.iter().try_for_each(|count| at_least_one(field, *count))?;
        }
        for (field, count) in [("when.every", when.every), ("times", self.times)] {
            count.map_or(Ok(()), |count| at_least_one(field, count))?;
        }
        if let Some(share) = when.share.filter(|share| !(0.0..=1.0).contains(share)) {
            return Err(format!("when.share: {share}, expected a number from 0 to 1"));
        }
        self.check_answer()?;
        self.check_process()?;
        match &self.wire {
            Wire::SlowHead(trickle) | Wire::SlowBody(trickle) => {
                at_least_one("wire: bytes", trickle.bytes)?;
                if trickle.every_ms > PAUSE_MS_MAX {
                    let found = trickle.every_ms;
                    return Err(format!(
                        "wire: every_ms: {found}, expected at most {PAUSE_MS_MAX}"
                    ));
                }
                Ok(())
            }
            Wire::Whole
            | Wire::Close
            | Wire::Reset
            | Wire::Hang
            | Wire::Cut(_)
            | Wire::Raw(_)
            | Wire::KillIdle
            | Wire::RefuseStream
            | Wire::CancelStream
            | Wire::Goaway(_) => Ok(()),
        }
    }

    fn check_process(&self) -> Result<(), String> {
        let process = self.process.unwrap_or(Process::Never);
        if self.wire.means_unprocessed() && process != Process::Never {
            return Err("process: this wire fault means that the request was never processed; leave process out, or \
                        say never"
                .to_owned());
        }
        match process {
            Process::Late(wait) | Process::Slow(wait) => {
                wait.ms.map_or(Ok(()), |ms| delay("process: ms", ms))
            }
            Process::Once | Process::Never | Process::Twice | Process::Declined => {
                if self.answer.early {
                    return Err("answer.early: belongs to a late or slow process".to_owned());
                }
                Ok(())
            }
        }
    }

    fn check_answer(&self) -> Result<(), String> {
        let answer = &self.answer;
        if let Some(ms) = answer.late_ms {
            delay("answer.late_ms", ms)?;
        }
        if let Some(status) = answer.status.filter(|status| !STATUSES.contains(status)) {
            return Err(format!("answer.status: {status}, expected a status from 200 to 599"));
        }
        let named = [("retry-after", &answer.retry_after), ("location", &answer.location)];
        for (name, value) in named {
            if let Some(value) = value {
                HeaderValue::from_str(value).map_err(|_| {
                    format!(
                        "answer.{}: no line breaks or control characters",
                        name.replace('-', "_")
                    )
                })?;
            }
        }
        for (index, (name, value)) in answer.headers.iter().enumerate() {
            let name = HeaderName::try_from(name.as_str());
            let framing = |name: &HeaderName| {
                *name == http::header::CONTENT_LENGTH || *name == http::header::TRANSFER_ENCODING
            };
            match name {
                Err(_) => return Err(format!("answer.headers[{index}]: this is no header name")),
                Ok(name) if framing(&name) => {
                    return Err(format!(
                        "answer.headers[{index}]: the framing is the lab's; use chunked, cut or raw"
                    ));
                }
                Ok(_) => {}
            }
            HeaderValue::from_str(value).map_err(|_| {
                format!("answer.headers[{index}]: no line breaks or control characters in a value")
            })?;
        }
        match &answer.body {
            Some(Body::Base64(text)) => {
                match base64::engine::general_purpose::STANDARD.decode(text) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(format!("answer.body.base64: {error}")),
                }
            }
            Some(Body::Endless | Body::Seeded(_)) if answer.gzip => {
                Err("answer.gzip: made-up bytes are sent as they are; give text or base64"
                    .to_owned())
            }
            Some(Body::Text(_) | Body::Seeded(_) | Body::Endless) | None => Ok(()),
        }
    }
}

fn at_least_one(field: &str, value: u64) -> Result<(), String> {
    if value == 0 { Err(format!("{field}: 0, expected at least 1")) } else { Ok(()) }
}

fn delay(field: &str, ms: u64) -> Result<(), String> {
    if ms > DELAY_MS_MAX {
        return Err(format!("{field}: {ms}, expected at most {DELAY_MS_MAX} (an hour)"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_plan_names_the_field_and_what_is_expected() {
        let wrong = [
            ("", "expected a JSON object"),
            ("{", "EOF"),
            ("[]", "expected a JSON object"),
            ("{} {}", "trailing"),
            (r#"{"sed":1}"#, "unknown field `sed`, expected one of `seed`, `late`"),
            (r#"{"late":{"every":0,"ms":1}}"#, "late.every: 0, expected at least 1"),
            (r#"{"late":{"every":2,"ms":9999999}}"#, "late.ms: 9999999, expected at most"),
            (r#"{"rules":[{"when":{"op":"pay"}}]}"#, "rules[0].when.op: invalid type"),
            (
                r#"{"rules":[{"when":{"op":["paid"]}}]}"#,
                "rules[0].when.op[0]: unknown variant `paid`",
            ),
            (r#"{"rules":[{"when":{"op":[]}}]}"#, "rules[0].when.op: an empty list"),
            (r#"{"rules":[{},{"answer":{"status":99}}]}"#, "rules[1].answer.status: 99, expected"),
            (r#"{"rules":[{"answer":{"status":"x"}}]}"#, "rules[0].answer.status: invalid type"),
            (r#"{"rules":[{"wire":"explode"}]}"#, "rules[0].wire: unknown variant `explode`"),
            (r#"{"rules":[{"wire":{"cut":{"after":1}}}]}"#, "unknown field `after`"),
            (
                r#"{"rules":[{"wire":"kill_idle","process":"once"}]}"#,
                "rules[0].process: this wire fault",
            ),
            (
                r#"{"rules":[{"answer":{"retry_after":"a\r\nb"}}]}"#,
                "rules[0].answer.retry_after: no line breaks",
            ),
            (
                r#"{"rules":[{"answer":{"headers":[["a b","c"]]}}]}"#,
                "answer.headers[0]: this is no header name",
            ),
            (r#"{"rules":[{"answer":{"headers":[["Content-Length","9"]]}}]}"#, "framing"),
            (r#"{"rules":[{"answer":{"body":{"base64":"?"}}}]}"#, "answer.body.base64"),
            (r#"{"rules":[{"answer":{"early":true}}]}"#, "answer.early"),
            (r#"{"rules":[{"process":"once","answer":{"early":true}}]}"#, "answer.early"),
            (
                r#"{"rules":[{"when":{"share":1.5}}]}"#,
                "when.share: 1.5, expected a number from 0 to 1",
            ),
            (r#"{"rules":[{"times":0}]}"#, "rules[0].times: 0"),
            (r#"{"connections":{"for_ms":5}}"#, "connections.for_ms: belongs to another mode"),
        ];
        for (text, part) in wrong {
            match Plan::from_json("plan.json", text.as_bytes()) {
                Ok(_) => panic!("{text} was taken"),
                Err(error) => {
                    let message = error.to_string();
                    assert!(message.starts_with("plan.json: "), "{message}");
                    assert!(message.contains(part), "{text}\n{message}");
                    assert!(!message.contains('\n'), "{message}");
                }
            }
        }
    }

    #[test]
    fn a_plan_survives_its_own_json() {
        let text = r#"{"seed":7,"late":{"every":2,"ms":60},"rules":[
            {"name":"n","when":{"op":["pay","query"],"attempt":[1]},"times":2,"process":{"late":{"ms":5}},
             "answer":{"early":true,"status":503,"retry_after":"soon"},"wire":{"cut":{"after_bytes":9,"then":"reset"}}}]}"#;
        let plan = Plan::from_json("plan", text.as_bytes()).unwrap();
        let again = serde_json::to_vec(&plan).unwrap();
        assert_eq!(Plan::from_json("plan", &again).unwrap(), plan);
    }
}
