//! A payment, as a caller asks for it: by itself, or with an order.

use super::paid::order_id;

/// A payment as its caller repeats it. Both organisations use the same keys.
#[derive(Clone, Debug)]
pub struct Payment {
    org: &'static str,
    number: usize,
    wanted: Wanted,
}

/// How a payment comes to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// A caller pays and waits for it.
    Payment,
    /// It belongs to an order, and a courier delivers it.
    PaidOrder,
}

impl Payment {
    pub fn of(org: &'static str, number: usize) -> Payment {
        Payment { org, number, wanted: Wanted::Payment }
    }

    /// That of an order, which a courier delivers.
    pub fn of_order(org: &'static str, number: usize) -> Payment {
        Payment { org, number, wanted: Wanted::PaidOrder }
    }

    pub fn number(&self) -> usize {
        self.number
    }

    pub fn org(&self) -> &'static str {
        self.org
    }

    /// Which member of an answer tells of the order.
    pub fn told(&self) -> &'static str {
        match self.wanted {
            Wanted::Payment => "order_id",
            Wanted::PaidOrder => "id",
        }
    }

    pub fn path(&self) -> &'static str {
        match self.wanted {
            Wanted::Payment => "/payments",
            Wanted::PaidOrder => "/orders",
        }
    }

    pub fn key(&self) -> String {
        format!("k-{}", self.number)
    }

    /// The order that it pays for: the organisation can be read from it, as the provider knows none.
    pub fn order(&self) -> String {
        match self.wanted {
            Wanted::Payment => format!("{}-{}", self.org, self.number),
            Wanted::PaidOrder => order_id(self.org, &self.key()),
        }
    }

    pub fn amount(&self) -> u64 {
        1_000 + u64::try_from(self.number).unwrap()
    }

    pub fn body(&self) -> String {
        match self.wanted {
            Wanted::Payment => {
                format!(r#"{{"order_id": "{}", "amount": {}}}"#, self.order(), self.amount())
            }
            Wanted::PaidOrder => format!(r#"{{"amount": {}, "pay": true}}"#, self.amount()),
        }
    }
}
