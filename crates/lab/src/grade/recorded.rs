//! Judges what naive.sh, safe.sh and newkey.sh really did: by the requests that the API logged and the payments that
//! it recorded. Pure.

use crate::api::Request;
use crate::payments::{Effect, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Orders that a script must pay for at least.
pub const ORDERS_MIN: usize = 4;
/// Ids named in a reason at most.
const NAMED_MAX: usize = 3;

/// What was counted after one script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Distinct orders in the requests, with the number of payments recorded for each.
    pub orders: BTreeMap<String, usize>,
    /// Payments recorded.
    pub records: usize,
    /// Payment requests.
    pub requests: usize,
    /// Payment requests without a key.
    pub keyless: usize,
    /// Keys, each with the orders it came with and the number of requests.
    pub keys: BTreeMap<String, (BTreeSet<String>, usize)>,
}

impl Counted {
    /// Counts.
    pub fn of(requests: &[Request], payments: &[Effect]) -> Self {
        let mut counted = Self { records: payments.len(), ..Self::default() };
        for request in requests.iter().map(|request| &request.arrived) {
            if request.op != Op::Pay || !request.whole {
                continue;
            }
            counted.requests += 1;
            if let Some(order) = &request.order_id {
                counted.orders.entry(order.clone()).or_insert(0);
            }
            match &request.key {
                None => counted.keyless += 1,
                Some(key) => {
                    let (orders, times) = counted.keys.entry(key.clone()).or_default();
                    orders.extend(request.order_id.clone());
                    *times += 1;
                }
            }
        }
        for payment in payments {
            if let Some(records) = counted.orders.get_mut(&payment.order_id) {
                *records += 1;
            }
        }
        counted
    }

    /// Records and orders in words.
    fn sum(&self) -> String {
        format!("{} records for {} orders", self.records, self.orders.len())
    }

    fn enough_orders(&self) -> Result<(), String> {
        match self.orders.len() {
            0 if self.requests == 0 => Err("it sent no payment request to the API".to_owned()),
            0 => Err(format!("none of its {} requests named an order_id", self.requests)),
            orders if orders < ORDERS_MIN => {
                Err(format!("its requests name {orders} orders; at least {ORDERS_MIN} are wanted"))
            }
            _ => Ok(()),
        }
    }

    /// naive.sh: it must have paid double.
    pub fn naive(&self) -> Result<String, String> {
        self.enough_orders()?;
        if self.records <= self.orders.len() {
            return Err(format!(
                "{}: no double payment; send again when curl gives up",
                self.sum()
            ));
        }
        Ok(format!("{}: sent again without a key, paid again", self.sum()))
    }

    /// safe.sh: each order exactly once, by keys that belong to orders and survive a retry.
    pub fn safe(&self) -> Result<String, String> {
        self.enough_orders()?;
        let shared = self.keys.iter().filter(|(_, (orders, _))| orders.len() > 1);
        if let Some(keys) = named(shared.map(|(key, _)| key.clone())) {
            return Err(format!("the same key came with two orders: {keys}"));
        }
        let not_once = self.orders.iter().filter(|(_, records)| **records != 1);
        if let Some(orders) =
            named(not_once.map(|(order, records)| format!("{order} ({records} times)")))
        {
            return Err(format!("{}; not exactly once: {orders}", self.sum()));
        }
        if self.keys.values().all(|(_, times)| *times < 2) {
            return Err(
                "no key came with two requests: nothing was sent again with its key".to_owned()
            );
        }
        Ok(format!("{}, each exactly once", self.sum()))
    }

    /// newkey.sh: keys on every request, and double payments all the same.
    pub fn newkey(&self) -> Result<String, String> {
        self.enough_orders()?;
        if self.keyless > 0 {
            let (keyless, requests) = (self.keyless, self.requests);
            return Err(format!(
                "{keyless} of {requests} requests came without a key; each attempt gets a new one"
            ));
        }
        if self.records <= self.orders.len() {
            return Err(format!(
                "{}: no double payment; make a new key for each attempt",
                self.sum()
            ));
        }
        Ok(format!("{}, although every request had a key", self.sum()))
    }
}

/// The first few names, made harmless; nothing where there are none.
fn named(names: impl Iterator<Item = String>) -> Option<String> {
    let shown: Vec<String> = names
        .take(NAMED_MAX)
        .map(|name| name.chars().filter(|letter| !letter.is_control()).take(40).collect())
        .collect();
    (!shown.is_empty()).then(|| shown.join(", "))
}
