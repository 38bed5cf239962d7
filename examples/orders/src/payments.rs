//! Payments: a command whose effect is at a provider, made at most once a key.
//!
//! The intent is written, the provider called with no transaction open, and the answer written. What
//! ends without an answer is *unknown*; the provider is asked about it ([`Questions`]), or a person
//! decides. Nothing here ever sends a payment again to a provider that was not declared to deduplicate.

mod postgres;
mod sqlite;
mod terms;

pub use postgres::TABLE as POSTGRES_TABLE;
pub use sqlite::TABLE as SQLITE_TABLE;
pub use terms::{Flags, Kind, Terms};

use crate::provider::{Known, Provider, Sent};
use crate::shop::{AMOUNT_MAX, Refusal, is_list, refuse_encoded};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body_util::Full;
use samekey::core::key::Org;
use samekey::core::record::Reason;
use samekey::store::postgres::PostgresLedger;
use samekey::store::sqlite::SqliteLedger;
use samekey::store::{Ledger, StoreError};
use samekey::{
    Answer, Ask, BoxError, Call, Caller, Engine, External, Finding, Found, Outcome, Problem,
    Question, Recovery, RecoveryPlan, Request, Response, Route,
};
use serde::{Deserialize, Serialize};
use std::future::Future;

/// The name under which open payments are found again. Keep it: they are looked for by it.
const ROUTE: &str = "payments";
/// The longest reference of an order, in characters.
const ORDER_CHARACTERS_MAX: usize = 100;
/// How long a caller waits before it tries again when the provider takes nothing, in seconds.
const NOT_NOW_WAIT: &str = "10";

/// What a caller asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewPayment {
    /// Which order is paid.
    pub order_id: String,
    /// In minor units, such as cents.
    pub amount: i64,
}

/// What a caller gets.
#[derive(Clone, Debug, Serialize)]
pub struct Payment {
    /// The payment's id at the provider.
    pub id: String,
    /// Which order was paid.
    pub order_id: String,
    /// In minor units.
    pub amount: i64,
}

impl NewPayment {
    /// Reads the body.
    pub fn parse(headers: &HeaderMap, body: &[u8]) -> Result<NewPayment, Refusal> {
        refuse_encoded(headers)?;
        NewPayment::read(body)
            .map_err(|sentence| Refusal { status: StatusCode::BAD_REQUEST, sentence })
    }

    fn read(body: &[u8]) -> Result<NewPayment, String> {
        const EXPECTED: &str = r#"expected {"order_id": "ORD-1", "amount": 1200}"#;
        if is_list(body) {
            return Err(format!("the body cannot be read as a payment: it is a list; {EXPECTED}"));
        }
        let payment: NewPayment = serde_json::from_slice(body).map_err(|error| {
            format!("the body cannot be read as a payment: {error}; {EXPECTED}")
        })?;
        if payment.amount < 1 || payment.amount > AMOUNT_MAX {
            return Err(format!(
                "the amount is {}; expected 1 to {AMOUNT_MAX} minor units",
                payment.amount
            ));
        }
        let characters = payment.order_id.chars().count();
        if payment.order_id.trim().is_empty() || characters > ORDER_CHARACTERS_MAX {
            return Err(format!(
                "the order_id is empty or longer than {ORDER_CHARACTERS_MAX} characters; {EXPECTED}"
            ));
        }
        if payment.order_id.chars().any(char::is_control) {
            return Err("the order_id has a control character; expected plain text".to_owned());
        }
        Ok(payment)
    }

    fn paid(&self, id: String) -> Payment {
        Payment { id, order_id: self.order_id.clone(), amount: self.amount }
    }
}

/// Where payments can be read again. It is written before a payment is settled, as often as it takes,
/// so that no settled payment is missing.
pub trait Book: Ledger {
    /// Keeps a payment of this organisation; one that is there already stays as it is. False where
    /// another payment has its id.
    fn keep(
        &self,
        org: &Org,
        payment: &Payment,
    ) -> impl Future<Output = Result<bool, BoxError>> + Send;
    /// Reads a payment of this organisation.
    fn find(
        &self,
        org: &Org,
        id: &str,
    ) -> impl Future<Output = Result<Option<Payment>, BoxError>> + Send;
}

/// The payments of a shop, on the shop's database.
#[derive(Clone)]
pub enum Payments {
    /// On PostgreSQL.
    Postgres(Desk<PostgresLedger>),
    /// On SQLite.
    Sqlite(Desk<SqliteLedger>),
}

/// Where payments are made, on one kind of database.
pub struct Desk<S> {
    external: External<S>,
    engine: Engine<S>,
    provider: Provider,
    kind: Kind,
}

impl<S> Clone for Desk<S> {
    fn clone(&self) -> Desk<S> {
        let (external, engine) = (self.external.clone(), self.engine.clone());
        Desk { external, engine, provider: self.provider.clone(), kind: self.kind }
    }
}

impl Payments {
    /// The route of `POST /payments`.
    pub fn route(&self) -> &Route {
        match self {
            Payments::Postgres(desk) => desk.external.route(),
            Payments::Sqlite(desk) => desk.external.route(),
        }
    }

    /// Pays, once a key.
    pub async fn pay(&self, caller: &Caller, request: Request, payment: NewPayment) -> Response {
        match self {
            Payments::Postgres(desk) => desk.pay(caller, request, payment).await,
            Payments::Sqlite(desk) => desk.pay(caller, request, payment).await,
        }
    }

    /// Reads a payment of this organisation.
    pub async fn read(&self, org: &Org, id: &str) -> Result<Option<Payment>, BoxError> {
        match self {
            Payments::Postgres(desk) => desk.engine.store().find(org, id).await,
            Payments::Sqlite(desk) => desk.engine.store().find(org, id).await,
        }
    }

    /// Finds payments that ended without an answer and asks about them, until this is dropped.
    pub fn spawn_recovery(&self) -> Recovery {
        match self {
            Payments::Postgres(desk) => desk.external.spawn_recovery(RecoveryPlan::default()),
            Payments::Sqlite(desk) => desk.external.spawn_recovery(RecoveryPlan::default()),
        }
    }
}

impl<S: Book> Desk<S> {
    /// A desk on this engine's database.
    pub(crate) async fn open(engine: &Engine<S>, terms: &Terms) -> Result<Desk<S>, StoreError> {
        let other = |sentence: String| StoreError::new(samekey::store::Kind::Other, sentence);
        let route = Route::new(ROUTE, terms.choices()).map_err(|fault| other(fault.to_string()))?;
        let provider = terms.provider();
        let external = match terms.kind {
            Kind::Opaque => External::opaque(engine, route).await,
            Kind::Answers | Kind::Dedups => {
                let (engine, provider) = (engine.clone(), provider.clone());
                let questions = Questions { kind: terms.kind, engine: engine.clone(), provider };
                External::asking(&engine, route, questions).await
            }
        };
        let external = external.map_err(|fault| other(fault.to_string()))?;
        Ok(Desk { external, engine: engine.clone(), provider, kind: terms.kind })
    }

    async fn pay(&self, caller: &Caller, request: Request, payment: NewPayment) -> Response {
        let (engine, provider) = (self.engine.clone(), self.provider.clone());
        let org = caller.org.clone();
        let kind = self.kind;
        let call = async move |call: Call| -> Result<Outcome, BoxError> {
            Ok(match provider.pay(&payment, call.outbound_key()).await {
                Sent::Paid(id) => {
                    let paid = payment.paid(id);
                    match engine.store().keep(&org, &paid).await {
                        Ok(true) => {}
                        // The id is another payment's: what the provider says cannot be right.
                        Ok(false) => return Ok(Outcome::Unknown(Reason::FoundDifferent)),
                        // Where nobody can be asked later, the answer that came is not given up.
                        Err(_) if kind == Kind::Opaque => tracing::error!(
                            "a payment was made and could not be written into the book; it can be found at the provider"
                        ),
                        // It is asked about, and kept then.
                        Err(error) => return Err(error),
                    }
                    Outcome::finished(created(&paid)?.map(Full::new))
                }
                Sent::Refused(status) => Outcome::finished(refused(status)?.map(Full::new)),
                Sent::NotReached => {
                    Outcome::not_started(Problem::UpstreamUnreached.into_response(None))
                }
                Sent::NotNow(status) => Outcome::not_started(not_now(status)?),
                Sent::Pending => Outcome::Unknown(Reason::ServerError),
                Sent::Unclear(reason) => Outcome::Unknown(reason),
            })
        };
        self.external.run(caller, request.map(Full::new), call).await
    }
}

/// Asks the provider what became of a payment.
struct Questions<S> {
    kind: Kind,
    engine: Engine<S>,
    provider: Provider,
}

impl<S: Book> Ask for Questions<S> {
    async fn ask(&self, question: Question) -> Result<Finding, BoxError> {
        // The payment is read from what was claimed, so that the same is compared and sent.
        let Some(request) = &question.request else { return Ok(Finding::CannotTell) };
        let Ok(payment) = NewPayment::read(request.body()) else { return Ok(Finding::CannotTell) };
        let known = match self.kind {
            Kind::Answers => self.provider.look_up(&payment, question.outbound_key).await,
            Kind::Dedups => self.provider.send_again(&payment, question.outbound_key).await,
            Kind::Opaque => Known::Unclear,
        };
        Ok(match known {
            Known::Paid(id) => {
                let paid = payment.paid(id);
                if !self.engine.store().keep(&question.org, &paid).await? {
                    return Ok(Finding::Different);
                }
                Finding::Executed(Found::Answer(created(&paid)?))
            }
            Known::Refused(status) => Finding::Refused(Found::Answer(refused(status)?)),
            Known::Nothing => Finding::NotFound,
            Known::Pending => Finding::Pending,
            Known::Different => Finding::Different,
            Known::Unclear => Finding::CannotTell,
        })
    }
}

/// The answer to a payment: the same, whether it came in time or was found.
fn created(payment: &Payment) -> Result<http::Response<Bytes>, BoxError> {
    let mut answer = document(StatusCode::CREATED, payment)?;
    let location = HeaderValue::from_str(&format!("/payments/{}", payment.id))?;
    answer.headers_mut().insert(header::LOCATION, location);
    Ok(answer)
}

/// The answer to a payment that the provider refused for good.
fn refused(status: StatusCode) -> Result<http::Response<Bytes>, BoxError> {
    let sentence = match status {
        StatusCode::PAYMENT_REQUIRED => "the payment was declined".to_owned(),
        _ => format!("the provider refused this payment with status {}", status.as_u16()),
    };
    let detail = format!("{sentence}; nothing was paid, and nothing will be under this key");
    document(status, &serde_json::json!({ "detail": detail }))
}

/// The answer where the provider takes nothing for now: its 401 is about this service's credentials
/// and not about the caller's.
fn not_now(status: StatusCode) -> Result<Answer, BoxError> {
    tracing::warn!(status = status.as_u16(), "the provider takes no payments from this service");
    let (status, why) = match status {
        StatusCode::TOO_MANY_REQUESTS => {
            (StatusCode::SERVICE_UNAVAILABLE, "the provider takes no more payments for now")
        }
        _ => (StatusCode::BAD_GATEWAY, "the provider does not let this service pay for now"),
    };
    let detail = format!("{why}; nothing was paid: send the same payment with the same key later");
    let mut answer = document(status, &serde_json::json!({ "detail": detail }))?;
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(NOT_NOW_WAIT));
    Ok(answer.map(Full::new))
}

fn document(status: StatusCode, value: &impl Serialize) -> Result<http::Response<Bytes>, BoxError> {
    let mut answer = http::Response::new(Bytes::from(serde_json::to_vec(value)?));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(answer)
}
