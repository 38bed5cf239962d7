//! How a payment stands after its captures, refunds and voids, and what may still be done with it.

use super::amount::Amount;
use super::book::Refusal;
use super::entry::{Effect, EffectKind, Op};

/// A payment and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The payment's id.
    pub id: String,
    /// Its order.
    pub order_id: String,
    /// Its amount.
    pub amount: Option<Amount>,
    /// Its currency.
    pub currency: Option<String>,
    /// Payment or authorisation.
    pub kind: EffectKind,
    /// Captured so far, in ten-thousandths; the whole amount where it was a payment from the start.
    pub captured: u64,
    /// Given back so far, in ten-thousandths.
    pub refunded: u64,
    /// True where it was captured at least once, or was a payment from the start.
    pub is_captured: bool,
    /// True where it was refunded at least once.
    pub is_refunded: bool,
    /// True where the reservation was given up.
    pub is_voided: bool,
}

impl Standing {
    /// Folds the effects of one payment, oldest first.
    pub fn of<'a>(effects: impl Iterator<Item = &'a Effect>) -> Option<Self> {
        let mut standing: Option<Self> = None;
        for effect in effects {
            let units = effect.amount.as_ref().map_or(0, Amount::ten_thousandths);
            match (effect.effect, &mut standing) {
                (EffectKind::Payment | EffectKind::Authorisation, None) => {
                    let is_captured = effect.effect == EffectKind::Payment;
                    standing = Some(Self {
                        id: effect.id.clone(),
                        order_id: effect.order_id.clone(),
                        amount: effect.amount.clone(),
                        currency: effect.currency.clone(),
                        kind: effect.effect,
                        captured: if is_captured { units } else { 0 },
                        refunded: 0,
                        is_captured,
                        is_refunded: false,
                        is_voided: false,
                    });
                }
                (EffectKind::Capture, Some(payment)) => {
                    payment.captured += units;
                    payment.is_captured = true;
                }
                (EffectKind::Refund, Some(payment)) => {
                    payment.refunded += units;
                    payment.is_refunded = true;
                }
                (EffectKind::Void, Some(payment)) => payment.is_voided = true,
                (
                    EffectKind::Payment
                    | EffectKind::Authorisation
                    | EffectKind::Capture
                    | EffectKind::Refund
                    | EffectKind::Void
                    | EffectKind::Declined,
                    _,
                ) => {}
            }
        }
        standing
    }

    /// Whether an operation may be done, and with which amount: the one asked for, or all that is left.
    pub fn allow(
        &self,
        op: Op,
        asked: Option<&Amount>,
    ) -> Result<(EffectKind, Option<Amount>), Refusal> {
        let refuse = |detail: &str| {
            Err(Refusal {
                payment_id: Some(self.id.clone()),
                ..Refusal::new(409, "not_allowed", detail)
            })
        };
        let whole = self.amount.as_ref().map(Amount::ten_thousandths);
        match op {
            Op::Capture if self.kind == EffectKind::Payment => {
                refuse("this payment was captured when it was made")
            }
            Op::Capture if self.is_voided => refuse("this authorisation was voided"),
            Op::Capture if whole.is_none() && self.is_captured => {
                refuse("this authorisation was captured")
            }
            Op::Capture => {
                let left = whole.map(|whole| whole.saturating_sub(self.captured));
                self.within(left, asked).map(|amount| (EffectKind::Capture, amount))
            }
            Op::Refund if !self.is_captured => {
                refuse("nothing was captured yet; void the authorisation")
            }
            Op::Refund if whole.is_none() && self.is_refunded => {
                refuse("this payment was refunded")
            }
            Op::Refund => {
                let left = whole.map(|_| self.captured.saturating_sub(self.refunded));
                self.within(left, asked).map(|amount| (EffectKind::Refund, amount))
            }
            Op::Void if self.is_captured => refuse("this payment was captured; refund it"),
            Op::Void if self.is_voided => refuse("this authorisation was voided"),
            Op::Void => Ok((EffectKind::Void, self.amount.clone())),
            Op::Pay | Op::Query | Op::Other => refuse("this cannot be done with a payment"),
        }
    }

    fn within(&self, left: Option<u64>, asked: Option<&Amount>) -> Result<Option<Amount>, Refusal> {
        let too_much = |detail: String| Refusal {
            payment_id: Some(self.id.clone()),
            ..Refusal::new(422, "too_much", detail)
        };
        match (left, asked) {
            (None, None) => Ok(None),
            (None, Some(_)) => {
                Err(too_much("this payment has no amount; leave the amount out".to_owned()))
            }
            (Some(0), _) => Err(too_much("nothing is left of this payment".to_owned())),
            (Some(left), None) => Ok(Some(Amount::from_ten_thousandths(left))),
            (Some(left), Some(asked)) if asked.ten_thousandths() > left => {
                let left = Amount::from_ten_thousandths(left);
                Err(too_much(format!("{asked} is more than the {left} that is left")))
            }
            (Some(_), Some(asked)) => Ok(Some(asked.clone())),
        }
    }
}
