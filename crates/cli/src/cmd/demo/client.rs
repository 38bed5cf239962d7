//! Two clients that pay the same orders: one takes a lost answer for a payment that did not happen, one asks
//! again under the same key.

use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use samekey_client::core::backoff::{Backoff, Chance};
use serde::Serialize;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How often the naive client tries: far more often than answers are lost here.
const TRIES_MAX: u32 = 10;
/// After which time even the safe client gives up, so that the demonstration ends.
const TIME_MAX: Duration = Duration::from_secs(60);
/// What every order costs.
const AMOUNT: u32 = 1_200;

/// How quick everything is.
#[derive(Clone, Copy)]
pub struct Pace {
    /// How late the API's late answers come.
    pub late: Duration,
    /// How long a client waits for an answer.
    pub patience: Duration,
    /// How long the safe client rests before it comes again.
    pub backoff: Backoff,
}

impl Pace {
    /// As slow as in earnest.
    pub const USUAL: Pace = Pace {
        late: Duration::from_secs(6),
        patience: Duration::from_secs(2),
        backoff: Backoff { base: Duration::from_secs(2), cap: Duration::from_secs(4) },
    };
    /// Four times as quick.
    pub const FAST: Pace = Pace {
        late: Duration::from_millis(1_500),
        patience: Duration::from_millis(500),
        backoff: Backoff { base: Duration::from_millis(500), cap: Duration::from_secs(1) },
    };
}

/// What a client sees of one order, as it happens.
#[derive(Clone, Copy, Debug)]
pub enum Seen {
    /// It has sent the order, for the so many-th time.
    Sent(u32),
    /// No answer came within its patience; so long it rests before it comes again.
    NoAnswer { patience: Duration, rest: Duration },
    /// It was told to come back after this time.
    ComesBack { status: u16, wait: Duration },
    /// It has its answer.
    Paid { status: u16, tries: u32, replayed: bool },
    /// It will never know.
    GaveUp { status: Option<u16>, tries: u32 },
}

/// What a client came to.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Came {
    /// Requests that it sent.
    pub requests_sent: u64,
    /// Requests for which it got no answer in time.
    pub answers_lost: u64,
    /// Orders of which it believes that they are paid.
    pub orders_believed_paid: u64,
}

/// A client of the demonstration.
pub struct Client {
    http: Http<HttpConnector, Full<Bytes>>,
    url: String,
    pace: Pace,
    came: Came,
}

/// An answer, as far as a client looks at it.
struct Answer {
    status: StatusCode,
    retry_after: Option<Duration>,
    replayed: bool,
}

impl Client {
    /// A client that pays at this URL.
    pub fn new(url: String, pace: Pace) -> Client {
        // Below a client that retries, nothing else may.
        let http = Http::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .retry_canceled_requests(false)
            .build_http();
        Client { http, url, pace, came: Came::default() }
    }

    /// What it came to.
    pub fn came(&self) -> Came {
        self.came
    }

    /// Pays an order without a key, and again where no answer comes.
    pub async fn pay_naively(&mut self, order: &str, tell: impl Fn(Seen)) {
        for tries in 1..=TRIES_MAX {
            tell(Seen::Sent(tries));
            match self.send(order, None).await {
                Some(Answer { status, replayed, .. }) if status.is_success() => {
                    return self.paid(status, tries, replayed, tell);
                }
                Some(Answer { status, .. }) => {
                    return tell(Seen::GaveUp { status: Some(status.as_u16()), tries });
                }
                None => {
                    tell(Seen::NoAnswer { patience: self.pace.patience, rest: Duration::ZERO });
                }
            }
        }
        tell(Seen::GaveUp { status: None, tries: TRIES_MAX });
    }

    /// Pays an order under one key: whatever becomes of an attempt, the next one carries the same.
    pub async fn pay_safely(&mut self, order: &str, tell: impl Fn(Seen)) {
        let key = Uuid::new_v4();
        let ends = Instant::now() + TIME_MAX;
        for tries in 1.. {
            tell(Seen::Sent(tries));
            let (status, retry_after) = match self.send(order, Some(key)).await {
                Some(Answer { status, replayed, .. }) if status.is_success() => {
                    return self.paid(status, tries, replayed, tell);
                }
                Some(Answer { status, retry_after, .. }) => (Some(status.as_u16()), retry_after),
                None => (None, None),
            };
            let wait = self.pace.backoff.wait(tries, retry_after, chance());
            let seen = match (status, retry_after) {
                _ if Instant::now() + wait >= ends => Seen::GaveUp { status, tries },
                (None, _) => Seen::NoAnswer { patience: self.pace.patience, rest: wait },
                (Some(status), Some(_)) => Seen::ComesBack { status, wait },
                // Without a Retry-After there is nothing to come back for.
                (Some(_), None) => Seen::GaveUp { status, tries },
            };
            tell(seen);
            if matches!(seen, Seen::GaveUp { .. }) {
                return;
            }
            sleep(wait).await;
        }
    }

    fn paid(&mut self, status: StatusCode, tries: u32, replayed: bool, tell: impl Fn(Seen)) {
        self.came.orders_believed_paid += 1;
        tell(Seen::Paid { status: status.as_u16(), tries, replayed });
    }

    /// One attempt; nothing where no whole answer came within the patience.
    async fn send(&mut self, order: &str, key: Option<Uuid>) -> Option<Answer> {
        self.came.requests_sent += 1;
        let answer = timeout(self.pace.patience, self.exchange(order, key)).await;
        let answer = answer.ok().flatten();
        if answer.is_none() {
            self.came.answers_lost += 1;
        }
        answer
    }

    async fn exchange(&self, order: &str, key: Option<Uuid>) -> Option<Answer> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(&self.url)
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", format!("\"{key}\""));
        }
        let body = format!("{{\"order_id\":\"{order}\",\"amount\":{AMOUNT}}}");
        let request = request.body(Full::new(Bytes::from(body))).ok()?;
        let (head, body) = self.http.request(request).await.ok()?.into_parts();
        body.collect().await.ok()?;
        let text = |name: &str| head.headers.get(name)?.to_str().ok();
        let seconds = text("retry-after").and_then(|text| text.parse().ok());
        Some(Answer {
            status: head.status,
            retry_after: seconds.map(Duration::from_secs),
            replayed: text("idempotent-replayed") == Some("true"),
        })
    }
}

/// Bits by chance, which spread those who were told to come again at one moment.
fn chance() -> Chance {
    let (high, _, _, _) = Uuid::new_v4().as_fields();
    let [first, second, _, _] = high.to_be_bytes();
    Chance::new(u16::from_be_bytes([first, second]))
}
