//! Day before month or after it: what a sample says.

use super::time::{DateOrder, digits};
use super::trimmed;

/// What the dates of a sample say about the order of day and month.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OrderEvidence {
    day_first: u32,
    month_first: u32,
    unclear: u32,
    dots: bool,
}

impl OrderEvidence {
    /// Looks at one field.
    pub(crate) fn see(&mut self, field: &[u8]) {
        let text = trimmed(field);
        let separator = match text.iter().find(|byte| !byte.is_ascii_digit()) {
            Some(byte @ (b'/' | b'.' | b'-')) => *byte,
            _ => return,
        };
        let mut parts = text.splitn(3, |byte| *byte == separator);
        let (Some(first), Some(second)) = (parts.next(), parts.next()) else { return };
        let (Some(first), Some(second), true) = (digits(first), digits(second), first.len() <= 2)
        else {
            return;
        };
        self.dots |= separator == b'.';
        match (first > 12, second > 12) {
            (true, _) => self.day_first += 1,
            (_, true) => self.month_first += 1,
            _ => self.unclear += 1,
        }
    }

    /// The order, and whether it had to be guessed.
    pub(crate) fn verdict(self) -> (DateOrder, bool) {
        let guessed = self.unclear > 0 && self.day_first == self.month_first && !self.dots;
        if self.month_first > self.day_first {
            (DateOrder::MonthFirst, false)
        } else {
            (DateOrder::DayFirst, guessed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_day_and_month_is_found_from_a_sample() {
        let verdict = |fields: &[&str]| {
            let mut evidence = OrderEvidence::default();
            fields.iter().for_each(|field| evidence.see(field.as_bytes()));
            evidence.verdict()
        };
        assert_eq!(verdict(&["03/04/2026", "13/04/2026"]), (DateOrder::DayFirst, false));
        assert_eq!(verdict(&["03/04/2026", "03/14/2026"]), (DateOrder::MonthFirst, false));
        assert_eq!(verdict(&["03.04.2026"]), (DateOrder::DayFirst, false));
        assert_eq!(verdict(&["03/04/2026"]), (DateOrder::DayFirst, true));
        assert_eq!(verdict(&["2026-09-07"]), (DateOrder::DayFirst, false));
    }
}
