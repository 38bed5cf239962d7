//! Judges what backoff.sh and retryable.sh print. Pure.

/// Intervals that backoff.sh prints at least.
pub const INTERVALS_MIN: usize = 4;

/// Statuses that are worth another try.
pub const RETRYABLE: [&str; 6] = ["500", "502", "503", "504", "429", "timeout"];
/// Statuses for which the same request gets the same answer.
pub const FINAL: [&str; 5] = ["400", "422", "401", "403", "404"];

/// Reads the intervals: every word where all words are numbers, else the last number of each line.
///
/// A number may carry `s` or `ms`; what is compared is seconds.
pub fn intervals(output: &str) -> Vec<f64> {
    let all: Vec<Option<f64>> = output.split_whitespace().map(seconds).collect();
    if all.iter().all(Option::is_some) {
        return all.into_iter().flatten().collect();
    }
    output.lines().filter_map(|line| line.split_whitespace().rev().find_map(seconds)).collect()
}

fn seconds(word: &str) -> Option<f64> {
    let word = word.trim_matches(|letter: char| ",;:()".contains(letter));
    let (digits, factor) = match word.strip_suffix("ms") {
        Some(digits) => (digits, 0.001),
        None => (word.trim_end_matches(['s', '秒', '초']), 1.0),
    };
    let is_plain =
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = digits.parse().ok().filter(|_| is_plain)?;
    (value.is_finite() && value > 0.0).then_some(value * factor)
}

/// Two runs of backoff.sh.
pub fn backoff(first: &str, second: &str) -> Result<String, String> {
    let runs = [intervals(first), intervals(second)];
    for run in &runs {
        if run.len() < INTERVALS_MIN {
            return Err(format!(
                "it printed {} intervals; at least {INTERVALS_MIN} are wanted",
                run.len()
            ));
        }
        let shrinking = run.windows(2).find_map(|pair| match pair {
            [before, after] if after <= before => Some((*before, *after)),
            _ => None,
        });
        if let Some((before, after)) = shrinking {
            return Err(format!(
                "{after} comes after {before}; each interval must be larger than the one before"
            ));
        }
    }
    let [first, second] = runs;
    if first == second {
        return Err(
            "both runs printed the same intervals; without chance all clients come back together"
                .to_owned(),
        );
    }
    Ok(format!("{} growing intervals, other ones in each run", first.len()))
}

/// The answer of retryable.sh to one status: true for yes.
pub fn answer(output: &str) -> Option<bool> {
    match output.trim().to_ascii_lowercase().as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_people_print_them() {
        let pairs = [
            ("1.2\n2.5\n4.9\n8.8\n", vec![1.2, 2.5, 4.9, 8.8]),
            ("1 2 4 8", vec![1.0, 2.0, 4.0, 8.0]),
            ("retry 1: wait 1.5s\nretry 2: wait 3s\n", vec![1.5, 3.0]),
            ("1.5초\n3초", vec![1.5, 3.0]),
            ("100ms\n250ms", vec![0.1, 0.25]),
            ("inf\nNaN\n-3\n0\n", vec![]),
            ("", vec![]),
        ];
        for (output, wanted) in pairs {
            assert_eq!(intervals(output), wanted, "{output}");
        }
    }
}
