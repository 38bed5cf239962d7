//! The orders themselves, on either database.

mod postgres;
mod sqlite;

use crate::delivery::{self, Paying};
use crate::payments::{Desk, Payments, Terms};
use http::{HeaderMap, StatusCode, header};
use samekey::core::key::{Key, Org};
use samekey::core::policy::{Choices, OnMismatch, ReplayStatus};
use samekey::store::address::Address;
use samekey::store::{Kind, StoreError};
use samekey::{Answer, BoxError, Caller, Request, Response, Route, SweepPlan, Sweeper};
use samekey_client::Running;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The largest amount: a trillion minor units. Beyond it a figure is a slip of the keyboard.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;
/// The longest name of a cart, in characters.
const CART_CHARACTERS_MAX: usize = 100;

/// What a caller asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewOrder {
    /// In minor units, such as cents.
    pub amount: i64,
    /// The cart that is ordered, if there is one: a cart is ordered once, under whichever key.
    pub cart: Option<String>,
    /// Whether it is paid at the provider, once.
    #[serde(default)]
    pub pay: bool,
}

/// What a caller gets.
#[derive(Clone, Debug, Serialize)]
pub struct Order {
    /// The order's id.
    pub id: String,
    /// In minor units.
    pub amount: i64,
    /// How its payment stands, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment: Option<Paying>,
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
        const EXPECTED: &str =
            r#"expected {"amount": 1200}, with an optional "cart" and an optional "pay": true"#;
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
    /// Where its payments go is said by `terms`.
    pub async fn open(address: &str, terms: &Terms) -> Result<Shop, StoreError> {
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
            Address::Postgres(url) => Place::Postgres(postgres::Orders::open(&url, terms).await?),
            Address::Sqlite(address) => Place::Sqlite(sqlite::Orders::open(&address, terms).await?),
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

    /// Has the payments of orders executed, in the background.
    pub fn spawn_courier(&self) -> Running {
        match &self.place {
            Place::Postgres(orders) => orders.courier.spawn(),
            Place::Sqlite(orders) => orders.courier.spawn(),
        }
    }

    /// Enters how payments ended into the shop's own table, in the background.
    pub fn spawn_books(&self) -> tokio::task::JoinHandle<()> {
        match &self.place {
            Place::Postgres(orders) => tokio::spawn(delivery::keep_books(orders.clone())),
            Place::Sqlite(orders) => tokio::spawn(delivery::keep_books(orders.clone())),
        }
    }

    /// Removes keys whose retention is over, in the background, until this is dropped.
    pub fn spawn_sweeper(&self) -> Sweeper {
        match &self.place {
            Place::Postgres(orders) => orders.engine.spawn_sweeper(SweepPlan::default()),
            Place::Sqlite(orders) => orders.engine.spawn_sweeper(SweepPlan::default()),
        }
    }

    /// Waits for open commands, so long at the most; says whether all ended.
    pub async fn drain(&self, grace: Duration) -> bool {
        match &self.place {
            Place::Postgres(orders) => orders.engine.drain(grace).await,
            Place::Sqlite(orders) => orders.engine.drain(grace).await,
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

/// The id of a new order: of one that is paid it is made of the key under which it is ordered. Without a
/// key that can be read nothing is ordered at all.
fn new_id(caller: &Caller, request: &Request, order: &NewOrder) -> String {
    let lines = request.headers().get_all("idempotency-key");
    let key = Key::from_header_lines(lines.iter().map(http::HeaderValue::as_bytes));
    match key {
        Ok(Some(key)) if order.pay => delivery::order_id(&caller.org, &key).to_string(),
        Ok(_) | Err(_) => uuid::Uuid::now_v7().to_string(),
    }
}

/// The answer where a payment cannot be prepared: its store is away, and nothing was written.
fn try_later() -> Response {
    let sentence = "nothing was ordered; send the same order again with its key";
    let body = serde_json::json!({ "detail": sentence }).to_string();
    let mut answer = http::Response::new(samekey::whole(body));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    headers.insert(header::RETRY_AFTER, http::HeaderValue::from_static("1"));
    answer
}

/// The answer to an order that stands already: of the same cart under another key, or under this key, which
/// was forgotten since.
fn ordered_before(order: &NewOrder) -> Result<Answer, BoxError> {
    let sentence = match order.cart {
        Some(_) => "this cart was ordered already, under another key",
        None => "an order was made under this key before; a new order needs a new key",
    };
    samekey::json(StatusCode::CONFLICT, &serde_json::json!({ "detail": sentence }))
}
