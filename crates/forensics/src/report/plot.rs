//! Gaps on a logarithmic axis: where on it a gap lies, and a histogram for terminals.

/// Marks of the axis, in seconds; decades up to a minute, then the units people use.
const MARKS: [(f64, &str); 11] = [
    (0.001, "1ms"),
    (0.01, "10ms"),
    (0.1, "100ms"),
    (1.0, "1s"),
    (10.0, "10s"),
    (60.0, "1min"),
    (600.0, "10min"),
    (3_600.0, "1h"),
    (36_000.0, "10h"),
    (259_200.0, "3d"),
    (2_592_000.0, "30d"),
];

/// A piece of the logarithmic axis that holds all gaps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    low_ln: f64,
    high_ln: f64,
}

impl Axis {
    /// From the mark below the smallest gap to the mark above the largest, at least three decades.
    pub(crate) fn over(gaps: impl Iterator<Item = f64>) -> Option<Self> {
        const DECADES_LEAST: f64 = 3.0;
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for gap in gaps {
            let gap = shown(gap);
            (low, high) = (low.min(gap), high.max(gap));
        }
        if !low.is_finite() {
            return None;
        }
        let below = MARKS.iter().rev().map(|(mark, _)| *mark).find(|mark| *mark <= low * 0.999);
        let above = MARKS.iter().map(|(mark, _)| *mark).find(|mark| *mark >= high * 1.001);
        let low_ln = below.unwrap_or(MARKS_LOW).ln();
        let mut high_ln = above.unwrap_or(high * 1.1).ln();
        high_ln = high_ln.max(low_ln + DECADES_LEAST * std::f64::consts::LN_10);
        Some(Self { low_ln, high_ln })
    }

    /// Where a gap lies, from 0 to 1.
    pub(crate) fn place(&self, gap: f64) -> f64 {
        ((shown(gap).ln() - self.low_ln) / (self.high_ln - self.low_ln)).clamp(0.0, 1.0)
    }

    /// The marks on this piece, with their places.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (f64, &'static str)> {
        let axis = *self;
        MARKS
            .into_iter()
            .filter(move |(mark, _)| {
                (axis.low_ln - 1e-9..=axis.high_ln + 1e-9).contains(&mark.ln())
            })
            .map(move |(mark, label)| (axis.place(mark), label))
    }
}

const MARKS_LOW: f64 = 0.0005;

/// A gap of nothing has no logarithm; it is shown at the left end.
fn shown(gap: f64) -> f64 {
    gap.max(0.001)
}

/// A histogram of a few lines for a terminal.
pub(crate) fn histogram(gaps: &[f64]) -> Option<String> {
    const COLUMNS: usize = 60;
    const ROWS: usize = 5;
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let axis = Axis::over(gaps.iter().copied())?;
    let column = |place: f64| ((place * (COLUMNS - 1) as f64).round() as usize).min(COLUMNS - 1);
    let mut counts = [0_usize; COLUMNS];
    for gap in gaps {
        if let Some(slot) = counts.get_mut(column(axis.place(*gap))) {
            *slot += 1;
        }
    }
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let width = most.to_string().len();
    let mut text = String::new();
    // Few gaps need no tall bars.
    let rows = ROWS.min(most.max(2));
    for row in (0..rows).rev() {
        let label = if row == rows - 1 { most.to_string() } else { String::new() };
        let mut line = format!("  {label:>width$} │");
        for count in counts {
            let eighths = (count * rows * 8).div_ceil(most);
            let here = eighths.saturating_sub(row * 8).min(8);
            line.push(BLOCKS.get(here).copied().unwrap_or(' '));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let mut ticks = vec!['─'; COLUMNS];
    let mut labels = vec![' '; COLUMNS + 8];
    let mut free_from = 0;
    for (place, label) in axis.marks() {
        let at = column(place);
        if let Some(tick) = ticks.get_mut(at) {
            *tick = '┬';
        }
        let start = at.saturating_sub(label.len() / 2);
        if start >= free_from {
            for (slot, letter) in labels.iter_mut().skip(start).zip(label.chars()) {
                *slot = letter;
            }
            free_from = start + label.len() + 1;
        }
    }
    let ticks: String = ticks.into_iter().collect();
    let labels: String = labels.into_iter().collect();
    let gap = " ".repeat(width);
    text.push_str(&format!("  {gap} └{ticks}\n  {gap}  {}\n", labels.trim_end()));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ratios_are_equal_distances() {
        let axis = Axis::over([1.0, 2.0, 4.0].into_iter()).unwrap();
        let (a, b, c) = (axis.place(1.0), axis.place(2.0), axis.place(4.0));
        assert!(((b - a) - (c - b)).abs() < 1e-9);
        assert!(a > 0.0 && c < 1.0);
    }

    #[test]
    fn nothing_gives_no_plot_and_zero_is_shown_at_the_left() {
        assert_eq!(histogram(&[]), None);
        let axis = Axis::over([0.0, 1.0].into_iter()).unwrap();
        assert!(axis.place(0.0) < axis.place(1.0));
        assert!(histogram(&[0.0, 1.0]).unwrap().contains("1s"));
    }
}
