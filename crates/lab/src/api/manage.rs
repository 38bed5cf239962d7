//! Management: what tests and people use to look at the API and to steer it. No fault ever touches it.

use super::answer::{self, AnswerBody};
use super::export::{self, Format, List};
use super::service::plain;
use super::state::Shared;
use crate::faults::{AnswerPlan, Plan};
use crate::payments::Reply;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The largest fault plan that is taken over HTTP.
const PLAN_BYTES_MAX: usize = 1024 * 1024;
/// A body must be whole after this time.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Copy)]
enum Call {
    Health,
    Show(List, Format),
    Counts,
    ShowPlan,
    SetPlan,
    Reset,
    Release,
    Repair,
}

/// True where a request is management, not business.
pub fn is_management(request: &Request<Incoming>) -> bool {
    call_of(request).is_some()
}

fn call_of(request: &Request<Incoming>) -> Option<Call> {
    match (request.method().as_str(), request.uri().path()) {
        // By far the most frequent request is none of these.
        ("POST", "/payments") => None,
        ("GET", "/health") => Some(Call::Health),
        ("GET", "/payments") => Some(Call::Show(List::Payments, Format::Json)),
        ("GET", "/payments.csv") => Some(Call::Show(List::Payments, Format::Csv)),
        ("GET", "/ledger") => Some(Call::Show(List::Ledger, Format::Json)),
        ("GET", "/ledger.csv") => Some(Call::Show(List::Ledger, Format::Csv)),
        ("GET", "/log") => Some(Call::Show(List::Log, Format::Json)),
        ("GET", "/log.csv") => Some(Call::Show(List::Log, Format::Csv)),
        ("GET", "/counts") => Some(Call::Counts),
        ("GET", "/faults") => Some(Call::ShowPlan),
        ("POST", "/faults") => Some(Call::SetPlan),
        ("POST", "/reset") => Some(Call::Reset),
        ("POST", "/release") => Some(Call::Release),
        ("POST", "/repair") => Some(Call::Repair),
        _ => None,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repair {
    order_id: String,
}

/// Answers a management request.
pub async fn serve(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<AnswerBody> {
    let Some(call) = call_of(&request) else {
        return plain(404, "not_found", "there is nothing at this address");
    };
    let body = Limited::new(request.into_body(), PLAN_BYTES_MAX).collect();
    let body = match timeout(BODY_TIME_MAX, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) => return plain(400, "body_not_read", &error.to_string()),
        Err(_) => return plain(408, "body_too_slow", "the body was not whole in time"),
    };
    match call {
        Call::Health => json_answer(&json!({ "status": "ok" })),
        Call::Show(list, format) => export::answer(shared, list, format),
        Call::Counts => json_answer(&shared.counts()),
        Call::ShowPlan => {
            let (plan, applied) = shared.plan();
            json_answer(&json!({ "plan": plan, "applied": applied }))
        }
        Call::SetPlan => {
            let plan = Plan::from_json("the fault plan", &body);
            match plan.and_then(|plan| shared.set_plan(plan)) {
                Ok(()) => json_answer(&json!({ "status": "ok" })),
                Err(error) => plain(400, "plan_not_understood", &error.to_string()),
            }
        }
        Call::Reset => match shared.reset() {
            Ok(()) => json_answer(&json!({ "status": "ok" })),
            Err(error) => plain(507, "ledger", &error.to_string()),
        },
        Call::Release => {
            shared.release();
            json_answer(&json!({ "status": "ok" }))
        }
        Call::Repair => match serde_json::from_slice::<Repair>(&body) {
            Ok(repair) => {
                shared.lock().repair(&repair.order_id);
                json_answer(&json!({ "status": "ok" }))
            }
            Err(_) => plain(400, "order_missing", "expected a body like {\"order_id\":\"ORD-1\"}"),
        },
    }
}

fn json_answer(body: &impl Serialize) -> Response<AnswerBody> {
    answer::build(&AnswerPlan::default(), Some(Reply::json(200, body)), None, 0, 0)
}
