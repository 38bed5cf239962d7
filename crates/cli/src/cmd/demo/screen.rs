//! What is seen while the clients pay: on a terminal a line an order, drawn anew with every change; else a line
//! a change.

use super::client::Seen;
use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

/// How often what turns is turned.
const TURN: Duration = Duration::from_millis(100);

/// Where progress is shown: on standard error, so that standard output has the result alone.
pub enum Screen {
    /// A terminal, with a line for each order.
    Lines(Vec<ProgressBar>),
    /// Anything else.
    Log(&'static str),
}

impl Screen {
    /// A screen for a client and its orders, under a line that says who it is.
    pub fn of(client: &'static str, title: &str, orders: &[String]) -> Screen {
        let term = Term::stderr();
        if !term.is_term() {
            line(&format!("{client}: {title}"));
            return Screen::Log(client);
        }
        for part in textwrap::wrap(&format!("{client}: {title}"), width(&term)) {
            line(&part);
        }
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let bar = |order: &String| {
            let bar = all.add(ProgressBar::new_spinner());
            // The message is cut at the terminal's edge, and what matters comes first in it.
            let style = ProgressStyle::with_template("{spinner} {prefix}  {wide_msg}");
            if let Ok(style) = style {
                bar.set_style(style.tick_chars("-\\|/ "));
            }
            bar.set_prefix(order.clone());
            bar.tick();
            bar
        };
        Screen::Lines(orders.iter().map(bar).collect())
    }

    /// Shows what a client sees of the order at this position.
    pub fn tell(&self, at: usize, order: &str, seen: Seen) {
        let text = text(seen);
        match self {
            Screen::Log(client) => line(&format!("{client}: {order} {text}")),
            Screen::Lines(bars) => {
                let Some(bar) = bars.get(at) else { return };
                match seen {
                    Seen::Paid { .. } | Seen::GaveUp { .. } => bar.finish_with_message(text),
                    Seen::Sent(_) | Seen::NoAnswer { .. } | Seen::ComesBack { .. } => {
                        bar.set_message(text);
                        bar.enable_steady_tick(TURN);
                    }
                }
            }
        }
    }

    /// Ends with how often each order was really paid.
    pub fn end(self, recorded: &BTreeMap<String, u64>) {
        for (at, (order, count)) in recorded.iter().enumerate() {
            let recorded = match count {
                0 => "recorded never".to_owned(),
                1 => "recorded once".to_owned(),
                2 => "recorded TWICE".to_owned(),
                more => format!("recorded {more} TIMES"),
            };
            match &self {
                Screen::Log(client) => line(&format!("{client}: {order} {recorded}")),
                Screen::Lines(bars) => {
                    if let Some(bar) = bars.get(at) {
                        bar.finish_with_message(format!("{recorded}; {}", bar.message()));
                    }
                }
            }
        }
    }
}

/// How wide a terminal's text may be.
pub fn width(term: &Term) -> usize {
    /// Longer lines are hard to read.
    const WIDTH_MAX: u16 = 100;
    const WIDTH_USUAL: u16 = 80;
    let found = term.size_checked().filter(|_| term.is_term()).map(|(_, width)| width);
    usize::from(found.unwrap_or(WIDTH_USUAL).clamp(20, WIDTH_MAX))
}

/// Nobody has to read what happens meanwhile.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn text(seen: Seen) -> String {
    match seen {
        Seen::Sent(1) => "is sent".to_owned(),
        Seen::Sent(tries) => format!("is sent again, try {tries}"),
        Seen::NoAnswer { patience, rest: Duration::ZERO } => {
            format!("no answer in {}", seconds(patience))
        }
        Seen::NoAnswer { patience, rest } => {
            format!("no answer in {}; rests {}", seconds(patience), seconds(rest))
        }
        Seen::ComesBack { status, wait } => {
            format!("{status}: at work, come back in {}", seconds(wait))
        }
        Seen::Paid { tries: 1, .. } => "paid at once".to_owned(),
        Seen::Paid { tries, replayed: true, .. } => {
            format!("paid at try {tries}, the first answer again")
        }
        Seen::Paid { status, tries, replayed: false } => {
            format!("paid at try {tries}, status {status}")
        }
        Seen::GaveUp { status: Some(status), tries } => format!("gave up: {status} at try {tries}"),
        Seen::GaveUp { status: None, tries } => format!("gave up after {tries} tries"),
    }
}

/// A span as people say it.
pub fn seconds(span: Duration) -> String {
    let tenths = span.as_millis() / 100;
    match tenths % 10 {
        0 => format!("{} s", tenths / 10),
        rest => format!("{}.{rest} s", tenths / 10),
    }
}
