//! The orders themselves, on either database.

mod postgres;
mod sqlite;

use crate::payments::{Desk, Payments, Terms};
use http::{HeaderMap, StatusCode, header};
use samekey::core::key::Org;
use samekey::core::policy::{Choices, OnMismatch, ReplayStatus};
use samekey::store::address::Address;
use samekey::store::{Kind, StoreError};
use samekey::{Answer, BoxError, Caller, Request, Response, Route, SweepPlan, Sweeper};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The largest amount: a trillion minor units. Beyond it a figure is a slip of the keyboard.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;
/// The longest name of a cart, in characters.
const CART_CHARACTERS_MAX: usize = 100;
/// How long commands may take to end after the signal to stop.
const DRAIN_GRACE: Duration = Duration::from_secs(10);

/// What a caller asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewOrder {
    /// In minor units, such as cents.
    pub amount: i64,
    /// The cart that is ordered, if there is one: a cart is ordered once, under whichever key.
    pub cart: Option<String>,
}

/// What a caller gets.
#[derive(Clone, Debug, Serialize)]
pub struct Order {
    /// The order's id.
    pub id: String,
    /// In minor units.
    pub amount: i64,
}

/// Why a body is no order: a status and one sentence for the caller.
#[derive(Debug)]
pub struct Refusal {
    /// 400, or 415 for an encoding.
    pub status: StatusCode,
    /// What was found and what is expected.
    pub sentence: String,
}

impl NewOrder {
    /// Reads the body.
    pub fn parse(headers: &HeaderMap, body: &[u8]) -> Result<NewOrder, Refusal> {
        refuse_encoded(headers)?;
        NewOrder::read(body)
            .map_err(|sentence| Refusal { status: StatusCode::BAD_REQUEST, sentence })
    }

    fn read(body: &[u8]) -> Result<NewOrder, String> {
        const EXPECTED: &str = r#"expected {"amount": 1200}, with an optional "cart""#;
        if is_list(body) {
            return Err(format!("the body cannot be read as an order: it is a list; {EXPECTED}"));
        }
        let order: NewOrder = serde_json::from_slice(body)
            .map_err(|error| format!("the body cannot be read as an order: {error}; {EXPECTED}"))?;
        if order.amount < 1 || order.amount > AMOUNT_MAX {
            return Err(format!(
                "the amount is {}; expected 1 to {AMOUNT_MAX} minor units",
                order.amount
            ));
        }
        match &order.cart {
            Some(cart) if cart.is_empty() || cart.chars().count() > CART_CHARACTERS_MAX => Err(
                format!("the cart's name is empty or longer than {CART_CHARACTERS_MAX} characters"),
            ),
            Some(cart) if cart.chars().any(char::is_control) => {
                Err("the cart's name has a control character; expected plain text".to_owned())
            }
            Some(_) | None => Ok(order),
        }
    }
}

/// Whether a body is a JSON list: a list of the right values would be read as an object otherwise.
pub fn is_list(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

/// Refuses a body that is not sent as it is.
pub fn refuse_encoded(headers: &HeaderMap) -> Result<(), Refusal> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        let sentence = "the body has a Content-Encoding, which is not read here; send it as it is";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Refusal { status, sentence: sentence.to_owned() });
    }
    Ok(())
}

/// A shop on one database; cheap to clone.
#[derive(Clone)]
pub struct Shop {
    route: Route,
    place: Place,
}

#[derive(Clone)]
enum Place {
    Postgres(postgres::Orders),
    Sqlite(sqlite::Orders),
}

impl Shop {
    /// Opens the database and brings its tables to what this program needs.
    pub async fn open(address: &str) -> Result<Shop, StoreError> {
        let route = Route::new(
            "orders",
            Choices {
                // The first write wins, and a retry says 200 instead of 201.
                on_mismatch: OnMismatch::Replay,
                replay_status: ReplayStatus::Fixed(200),
                ..Choices::default()
            },
        )
        .map_err(|fault| StoreError::new(Kind::Other, fault.to_string()))?;
        let place = match Address::parse(address)? {
            Address::Postgres(url) => Place::Postgres(postgres::Orders::open(&url).await?),
            Address::Sqlite(address) => Place::Sqlite(sqlite::Orders::open(&address).await?),
        };
        Ok(Shop { route, place })
    }

    /// The route of `POST /orders`.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Creates an order, once a key.
    pub async fn create(&self, caller: &Caller, request: Request, order: NewOrder) -> Response {
        match &self.place {
            Place::Postgres(orders) => orders.create(&self.route, caller, request, order).await,
            Place::Sqlite(orders) => orders.create(&self.route, caller, request, order).await,
        }
    }

    /// Reads an order of this organisation.
    pub async fn read(&self, org: &Org, id: &str) -> Result<Option<Order>, BoxError> {
        match &self.place {
            Place::Postgres(orders) => orders.read(org, id).await,
            Place::Sqlite(orders) => orders.read(org, id).await,
        }
    }

    /// The payments of this shop, on its database.
    pub async fn payments(&self, terms: &Terms) -> Result<Payments, StoreError> {
        Ok(match &self.place {
            Place::Postgres(orders) => Payments::Postgres(Desk::open(&orders.engine, terms).await?),
            Place::Sqlite(orders) => Payments::Sqlite(Desk::open(&orders.engine, terms).await?),
        })
    }

    /// Removes keys whose retention is over, in the background, until this is dropped.
    pub fn spawn_sweeper(&self) -> Sweeper {
        match &self.place {
            Place::Postgres(orders) => orders.engine.spawn_sweeper(SweepPlan::default()),
            Place::Sqlite(orders) => orders.engine.spawn_sweeper(SweepPlan::default()),
        }
    }

    /// Waits for open commands; says whether all ended.
    pub async fn drain(&self) -> bool {
        match &self.place {
            Place::Postgres(orders) => orders.engine.drain(DRAIN_GRACE).await,
            Place::Sqlite(orders) => orders.engine.drain(DRAIN_GRACE).await,
        }
    }
}

/// The answer to a new order.
fn created(order: &Order) -> Result<Answer, BoxError> {
    let mut response = samekey::json(StatusCode::CREATED, order)?;
    let location = http::HeaderValue::from_str(&format!("/orders/{}", order.id))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// The answer to a cart that was ordered before, under another key.
fn ordered_before() -> Result<Answer, BoxError> {
    samekey::json(
        StatusCode::CONFLICT,
        &serde_json::json!({ "detail": "this cart was ordered already, under another key" }),
    )
}
