//! A payment provider in memory: what it executed, what it was asked, and what it does next.

use bytes::Bytes;
use http::StatusCode;
use samekey::{Ask, BoxError, Call, Finding, Found, Outcome, Question};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// What the provider does with the next call.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Executes and answers 201.
    Pay,
    /// Answers with this status, having executed or not.
    Status(u16, bool),
    /// Executes, and the answer is lost.
    LoseAnswer,
    /// Was never reached: nothing was sent.
    NotReached,
    /// The handler fails, having executed.
    Error,
    /// The handler panics, having executed.
    Panic,
    /// Executes and never answers.
    Hang,
    /// Waits for [`Provider::go`], executes, answers 201.
    Wait,
    /// Executes and answers with a body of this many bytes.
    Long(usize),
    /// Executes and breaks off in the body.
    Broken,
}

/// What it says when it is asked.
#[derive(Clone, Debug)]
pub enum Say {
    /// The truth.
    Truth,
    Pending,
    CannotTell,
    NotExecuted,
    Different,
    Refused,
    /// Executed, with this status.
    Status(u16),
    /// Only the fact.
    Fact,
    Error,
    Panic,
    Hang,
}

#[derive(Default)]
struct Inner {
    plans: VecDeque<Plan>,
    says: VecDeque<Say>,
    /// Outbound keys in the order in which they were executed.
    effects: Vec<(String, Bytes)>,
    /// Outbound keys in the order of the calls.
    calls: Vec<String>,
    questions: Vec<Question>,
}

#[derive(Clone)]
pub struct Provider {
    inner: Arc<Mutex<Inner>>,
    reached: Arc<Semaphore>,
    go: Arc<Semaphore>,
}

impl Default for Provider {
    fn default() -> Provider {
        Provider {
            inner: Arc::default(),
            reached: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
        }
    }
}

impl Provider {
    /// The next call is treated so; without a plan it pays.
    pub fn plan(&self, plan: Plan) {
        self.inner.lock().unwrap().plans.push_back(plan);
    }

    /// The next question is answered so; without one it tells the truth.
    pub fn say(&self, say: Say) {
        self.inner.lock().unwrap().says.push_back(say);
    }

    pub fn effects(&self) -> usize {
        self.inner.lock().unwrap().effects.len()
    }

    pub fn calls(&self) -> Vec<String> {
        self.inner.lock().unwrap().calls.clone()
    }

    pub fn questions(&self) -> Vec<Question> {
        self.inner.lock().unwrap().questions.clone()
    }

    /// Returns once a waiting or hanging call, or a hanging question, is there.
    pub async fn reached(&self) {
        let waited =
            tokio::time::timeout(std::time::Duration::from_secs(60), self.reached.acquire());
        waited.await.expect("nobody came").unwrap().forget();
    }

    /// Lets one waiting call go on.
    pub fn go(&self) {
        self.go.add_permits(1);
    }

    fn execute(&self, key: &str, body: &Bytes) {
        self.inner.lock().unwrap().effects.push((key.to_owned(), body.clone()));
    }

    pub async fn charge(&self, call: Call) -> Result<Outcome, BoxError> {
        let key = call.outbound_key().to_string();
        let body = call.request().body().clone();
        let plan = {
            let mut inner = self.inner.lock().unwrap();
            inner.calls.push(key.clone());
            inner.plans.pop_front().unwrap_or(Plan::Pay)
        };
        match plan {
            Plan::Pay => {
                self.execute(&key, &body);
                Ok(Outcome::finished(paid(&key)))
            }
            Plan::Status(status, executed) => {
                if executed {
                    self.execute(&key, &body);
                }
                let answer =
                    http::Response::builder().status(status).body("so be it".to_owned())?;
                Ok(Outcome::finished(answer))
            }
            Plan::LoseAnswer => {
                self.execute(&key, &body);
                Ok(Outcome::Unknown(samekey_core::record::Reason::ConnectionLost))
            }
            Plan::NotReached => {
                let answer = samekey::json(StatusCode::BAD_GATEWAY, &"not reached")?;
                Ok(Outcome::not_started(answer))
            }
            Plan::Error => {
                self.execute(&key, &body);
                Err("the handler failed".into())
            }
            Plan::Panic => {
                self.execute(&key, &body);
                panic!("planned");
            }
            Plan::Hang => {
                self.execute(&key, &body);
                self.reached.add_permits(1);
                std::future::pending().await
            }
            Plan::Wait => {
                self.reached.add_permits(1);
                self.go.acquire().await?.forget();
                self.execute(&key, &body);
                Ok(Outcome::finished(paid(&key)))
            }
            Plan::Long(bytes) => {
                self.execute(&key, &body);
                let answer = http::Response::builder()
                    .status(201)
                    .header("location", "/payments/long")
                    .body("x".repeat(bytes))?;
                Ok(Outcome::finished(answer))
            }
            Plan::Broken => {
                self.execute(&key, &body);
                let frames: [Result<_, BoxError>; 2] = [
                    Ok(hyper::body::Frame::data(Bytes::from_static(b"half"))),
                    Err("broken off".into()),
                ];
                let body = http_body_util::StreamBody::new(futures_util::stream::iter(frames));
                Ok(Outcome::finished(http::Response::new(body)))
            }
        }
    }
}

fn paid(key: &str) -> http::Response<http_body_util::Full<Bytes>> {
    http::Response::builder()
        .status(201)
        .header("location", format!("/payments/{key}"))
        .header("content-type", "application/json")
        .body(Bytes::from(format!("{{\"paid\":\"{key}\"}}")).into())
        .unwrap()
}

impl Ask for Provider {
    async fn ask(&self, question: Question) -> Result<Finding, BoxError> {
        let key = question.outbound_key.to_string();
        let say = {
            let mut inner = self.inner.lock().unwrap();
            inner.questions.push(question.clone());
            inner.says.pop_front().unwrap_or(Say::Truth)
        };
        let found = |status: u16| {
            let (mut head, _) = paid(&key).into_parts();
            head.status = StatusCode::from_u16(status).unwrap();
            let body = Bytes::from(format!("{{\"paid\":\"{key}\"}}"));
            Found::Answer(http::Response::from_parts(head, body))
        };
        Ok(match say {
            Say::Truth => {
                let inner = self.inner.lock().unwrap();
                match inner.effects.iter().find(|(executed, _)| *executed == key) {
                    None => Finding::NotFound,
                    Some((_, body)) if question.request.is_none_or(|r| r.body() == body) => {
                        Finding::Executed(found(201))
                    }
                    Some(_) => Finding::Different,
                }
            }
            Say::Pending => Finding::Pending,
            Say::CannotTell => Finding::CannotTell,
            Say::NotExecuted => Finding::NotFound,
            Say::Different => Finding::Different,
            Say::Refused => Finding::Refused(found(402)),
            Say::Status(status) => Finding::Executed(found(status)),
            Say::Fact => Finding::Executed(Found::Fact {
                status: StatusCode::CREATED,
                location: Some(format!("/payments/{key}")),
            }),
            Say::Error => return Err("the provider cannot be asked".into()),
            Say::Panic => panic!("planned"),
            Say::Hang => {
                self.reached.add_permits(1);
                std::future::pending().await
            }
        })
    }
}
