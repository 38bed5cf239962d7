//! What the clients came to, by what the API has recorded and not by what they believe.

use super::client::Came;
use crate::exit::{Code, Stopped};
use crate::show::table;
use comfy_table::CellAlignment;
use samekey_lab::Lab;
use serde::Serialize;
use std::collections::BTreeMap;

/// What one client came to.
#[derive(Serialize)]
pub struct Tally {
    /// What the client knows.
    #[serde(flatten)]
    came: Came,
    /// Requests that reached the API, from its log.
    reached_api: u64,
    /// Payments that the API has recorded, from its ledger.
    payments: u64,
    /// How many payments there are of each order, from the ledger.
    per_order: BTreeMap<String, u64>,
}

/// The result for programs.
#[derive(Serialize)]
pub struct Result {
    /// The version of this form.
    format_version: u32,
    orders: u64,
    naive: Tally,
    safe: Tally,
    /// Whether the safe client paid each order once, and the naive one paid some more often.
    as_expected: bool,
}

impl Tally {
    /// Counts what the API has recorded for these orders.
    ///
    /// # Errors
    /// A ledger that cannot be read.
    pub fn of(lab: &Lab, orders: &[String], came: Came) -> std::result::Result<Tally, Stopped> {
        let unread = |error: samekey_lab::Error| {
            Stopped::new(Code::Unreachable, format!("what was recorded is not known: {error}"))
        };
        let mut per_order: BTreeMap<String, u64> =
            orders.iter().map(|order| (order.clone(), 0)).collect();
        for payment in lab.payments().map_err(unread)? {
            *per_order.entry(payment.order_id).or_default() += 1;
        }
        let payments = per_order.values().sum();
        Ok(Tally { came, reached_api: lab.counts().arrived, payments, per_order })
    }

    /// How often each order was paid, in the order of their names.
    pub fn per_order(&self) -> &BTreeMap<String, u64> {
        &self.per_order
    }

    fn is_one_each(&self) -> bool {
        self.per_order.values().all(|payments| *payments == 1)
    }

    /// Payments beyond the first of an order.
    fn too_many(&self) -> u64 {
        self.per_order.values().map(|payments| payments.saturating_sub(1)).sum()
    }
}

impl Result {
    /// Puts the two beside each other.
    pub fn of(orders: usize, naive: Tally, safe: Tally) -> Result {
        let as_expected = naive.too_many() > 0 && safe.is_one_each();
        let orders = u64::try_from(orders).unwrap_or(u64::MAX);
        Result { format_version: 1, orders, naive, safe, as_expected }
    }

    /// Whether it showed what it is to show; else the sentence that says what is wrong.
    ///
    /// # Errors
    /// The safe client did not pay each order once, or nothing went wrong with the naive one.
    pub fn check(&self) -> std::result::Result<(), Stopped> {
        let sentence = match (self.as_expected, self.safe.is_one_each()) {
            (true, _) => return Ok(()),
            (false, false) => {
                "the safe client did not pay each order exactly once, which must not happen: please report it with the lines above"
            }
            (false, true) => {
                "no answer of the naive client was lost, so there is nothing to see; run it again on a machine with less to do"
            }
        };
        Err(Stopped::new(Code::NothingDecided, sentence))
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut table = table(&["", "naive", "safe"]);
        let (naive, safe) = (&self.naive, &self.safe);
        let rows: [(&str, u64, u64); 5] = [
            ("orders", self.orders, self.orders),
            ("requests sent", naive.came.requests_sent, safe.came.requests_sent),
            ("answers lost", naive.came.answers_lost, safe.came.answers_lost),
            ("requests that reached the API", naive.reached_api, safe.reached_api),
            ("payments recorded", naive.payments, safe.payments),
        ];
        for (what, naive, safe) in rows {
            table.add_row([what.to_owned(), naive.to_string(), safe.to_string()]);
        }
        let too_many = [naive.too_many(), safe.too_many()].map(|count| match count {
            0 => "none".to_owned(),
            count => count.to_string(),
        });
        let [naive, safe] = too_many;
        table.add_row(["payments too many".to_owned(), naive, safe]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        format!("{table}\n")
    }
}
