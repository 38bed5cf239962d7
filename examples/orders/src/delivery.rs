//! The payment of an order: a command that is written down in the order's own transaction, and that a
//! courier has executed once.
//!
//! Nobody waits for the provider here. `POST /orders` answers when order, key and command are committed;
//! the courier sends the command with no transaction open, as often as it takes and is safe, asks where
//! an answer was lost, and writes down how it ended. That end is the result: `GET /orders/ID` shows it.
//!
//! Commands are swept some time after they have ended, and orders are not. So the end is brought into the shop's
//! own table, by [`keep_books`].

use crate::provider::is_id;
use samekey::BoxError;
use samekey::core::delivery::{Delivery, Proof, State};
use samekey::core::key::{Key, Org};
use samekey::core::receipt::Receipt;
use samekey::store::outbox::{Action, Outbox};
use samekey::store::{Kind, Ledger, StoreError};
use samekey_client::{Courier, HttpRequest, NewCommand, Prepared};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::future::Future;
use std::time::Duration;
use uuid::Uuid;

/// The name under which commands to the provider are in the outbox. Keep it: they are looked for by it.
pub const DESTINATION: &str = "provider";
/// What is done there.
const OPERATION: &str = "pay";
/// What every payment here is made in.
const CURRENCY: &str = "EUR";
/// The namespace of the ids of orders that are paid. It never changes.
const ORDERS: Uuid = Uuid::from_u128(0x6b1d_7f1e_7b0c_4f5e_9a57_20c1_4d8e_6a11);

/// The id of an order that is paid. It is made of the caller's key: an order that has to be placed a
/// second time, since the database was set back to a state before it, has the same id again, so that the
/// provider can be asked whether it was paid already.
pub fn order_id(org: &Org, key: &Key) -> Uuid {
    // No organisation has a line break in its name, so no two pairs read the same.
    Uuid::new_v5(&ORDERS, format!("{}\n{}", org.as_str(), key.as_str()).as_bytes())
}

/// The payment of an order, ready to be written in the order's transaction.
pub async fn prepare<S: Outbox + Ledger>(
    courier: &Courier<S>,
    org: &Org,
    order_id: &str,
    amount: i64,
) -> Result<Prepared, samekey_client::Error> {
    let body = serde_json::json!({ "order_id": order_id, "amount": amount, "currency": CURRENCY });
    let request = HttpRequest::post("/payments").json(body.to_string()).encode()?;
    let command = NewCommand {
        org: org.clone(),
        destination: DESTINATION.to_owned(),
        operation: OPERATION.to_owned(),
        business_ref: order_id.to_owned(),
        order_key: None,
        request,
        delay: Duration::ZERO,
    };
    courier.prepare(command).await
}

/// How the payment of an order stands.
#[derive(Clone, Debug, Serialize)]
pub struct Paying {
    /// `waiting`, `sending` or `unknown` while it goes on; `succeeded` or `refused` when the provider has
    /// said so; `failed`, `undecided`, `cancelled` or `resolved` where a person decides, or has decided.
    pub state: Cow<'static, str>,
    /// Its id at the provider, once that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether this is the last word.
    #[serde(skip)]
    pub is_final: bool,
}

impl Paying {
    /// What the shop's own table says, where its payment has ended.
    pub fn kept(state: Option<String>, id: Option<String>) -> Option<Paying> {
        state.map(|state| Paying { state: state.into(), id, is_final: true })
    }
}

/// The shop's own table of orders that are paid, on either database.
pub trait Books: Send + Sync + 'static {
    /// A page of orders whose payment is not entered yet, after this one, as organisation and id.
    fn open_after(
        &self,
        after: (String, String),
    ) -> impl Future<Output = Result<Vec<(String, String)>, BoxError>> + Send;

    /// How the payment of an order stands; entered into the table where that is the last word.
    fn entered(
        &self,
        org: &Org,
        order_id: &str,
    ) -> impl Future<Output = Result<Option<Paying>, BoxError>> + Send;
}

/// How often the ends of payments are entered. Commands are kept for weeks, so this is in no hurry.
const ENTER_EVERY: Duration = Duration::from_secs(2);
/// How many orders are looked at at a time.
pub const BOOKS_PAGE: i64 = 100;

/// Enters the end of every payment into the shop's table, for as long as this is polled: also of an order that
/// nobody reads before its command is swept.
pub async fn keep_books(books: impl Books) {
    loop {
        let mut after = (String::new(), String::new());
        while let Ok(page) = books.open_after(after.clone()).await {
            let Some(last) = page.last() else { break };
            after = last.clone();
            for (org, order_id) in &page {
                let Ok(org) = Org::new(org) else { continue };
                if let Err(error) = books.entered(&org, order_id).await {
                    tracing::warn!(%error, "the end of a payment could not be entered");
                }
            }
        }
        tokio::time::sleep(ENTER_EVERY).await;
    }
}

/// How the payment of an order stands; nothing where it has none.
pub async fn paying<S: Outbox>(
    store: &S,
    org: &Org,
    order_id: &str,
) -> Result<Option<Paying>, StoreError> {
    let action = Action {
        org: org.clone(),
        destination: DESTINATION.to_owned(),
        operation: OPERATION.to_owned(),
        business_ref: order_id.to_owned(),
    };
    let found = store.latest(&action).await?;
    Ok(found.map(|(_, seen)| Paying {
        state: seen.delivery.state_name().into(),
        id: payment_id(&seen.delivery),
        is_final: seen.delivery.is_finished(),
    }))
}

/// The answer of the provider is kept with the command; what it told is read there.
fn payment_id(delivery: &Delivery) -> Option<String> {
    #[derive(Deserialize)]
    struct Told {
        payment_id: String,
    }
    let receipt = match (&delivery.state, &delivery.proof) {
        (State::Succeeded(ended), _) => &ended.with,
        (_, Some(Proof::Executed(receipt))) => receipt,
        (_, Some(Proof::Refused(_)) | None) => return None,
    };
    let Receipt::Kept(answer) = receipt else { return None };
    let Told { payment_id } = serde_json::from_slice(&answer.body).ok()?;
    is_id(&payment_id).then_some(payment_id)
}

/// A courier that cannot be opened, in the words of the store that it was to be opened on.
pub fn not_opened(error: &samekey_client::Error) -> StoreError {
    match error.store() {
        Some(error) => error.clone(),
        None => StoreError::new(Kind::Address, error.to_string()),
    }
}
