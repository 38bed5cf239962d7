//! Lists payments, ledger and request log as JSON or CSV, piece by piece, so that a million lines need no memory.

use super::answer::AnswerBody;
use super::state::Shared;
use crate::payments::{Arrived, BodyHash, Effect, Entry, Fate, View, moment};
use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Either, StreamBody};
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Entries looked at under one hold of the lock.
const BATCH_ENTRIES: usize = 512;

/// What is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Payments and authorisations.
    Payments,
    /// Every effect.
    Ledger,
    /// Every request.
    Log,
}

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A JSON array.
    Json,
    /// CSV with a header line.
    Csv,
}

/// A request and how it ended, as the log shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The request.
    pub arrived: Arrived,
    /// Its status, or 0 where the caller was gone before there was one; nothing while it is open.
    pub status: Option<u16>,
    /// True where the stored answer was given again.
    pub replayed: bool,
    /// What became of the answer; nothing while the request is open.
    pub answer: Option<Fate>,
}

impl Seen {
    /// The header lines as pairs, in the order in which they were sent.
    pub fn headers(&self) -> Vec<(&str, &str)> {
        self.arrived.headers.lines().filter_map(|line| line.split_once(": ")).collect()
    }

    /// The value of the first header with this (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().into_iter().find(|(found, _)| *found == name).map(|(_, value)| value)
    }
}

/// Brings requests and their ends together. Only open requests are kept.
#[derive(Debug, Default)]
pub struct Join {
    open: HashMap<u64, Arrived>,
}

impl Join {
    /// Takes an entry; gives the request that it completes.
    pub fn take(&mut self, entry: Entry) -> Option<Seen> {
        match entry {
            Entry::Arrived(arrived) => {
                self.open.insert(arrived.request, *arrived);
                None
            }
            Entry::Answered(end) => {
                let arrived = self.open.remove(&end.request)?;
                let (status, answer) = (Some(end.status), Some(end.answer));
                Some(Seen { arrived, status, replayed: end.replayed, answer })
            }
            Entry::Effect(_) | Entry::Reset { .. } => None,
        }
    }

    /// The requests that are still open, in order.
    pub fn rest(&mut self) -> Vec<Seen> {
        let mut open: Vec<Arrived> = self.open.drain().map(|(_, arrived)| arrived).collect();
        open.sort_by_key(|arrived| arrived.request);
        let still_open = |arrived| Seen { arrived, status: None, replayed: false, answer: None };
        open.into_iter().map(still_open).collect()
    }
}

/// The list as an answer.
pub fn answer(shared: &Arc<Shared>, list: List, format: Format) -> Response<AnswerBody> {
    let writer = Writer::new(Arc::clone(shared), list, format);
    let stream = stream::unfold(Some(writer), |writer| async move {
        let mut writer = writer?;
        match writer.piece() {
            Ok(Some(piece)) => Some((Ok(Frame::data(Bytes::from(piece))), Some(writer))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut answer = Response::new(Either::Right(StreamBody::new(stream).boxed_unsync()));
    let content_type = match format {
        Format::Json => "application/json",
        Format::Csv => "text/csv; charset=utf-8",
    };
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

struct Writer {
    shared: Arc<Shared>,
    list: List,
    format: Format,
    next: u64,
    /// Where the ledger ended when the list was asked for; what comes later is not waited for.
    end: u64,
    join: Join,
    rows: u64,
    stage: Stage,
}

#[derive(PartialEq, Eq)]
enum Stage {
    Start,
    Entries,
    End,
}

impl Writer {
    fn new(shared: Arc<Shared>, list: List, format: Format) -> Self {
        let end = shared.lock().book().end();
        Self {
            shared,
            list,
            format,
            next: 0,
            end,
            join: Join::default(),
            rows: 0,
            stage: Stage::Start,
        }
    }

    /// The next piece, never empty; nothing after the last one.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        if self.stage == Stage::Start {
            match self.format {
                Format::Json => out.push(b'['),
                Format::Csv => csv_line(&mut out, columns(self.list))?,
            }
            self.stage = Stage::Entries;
        }
        while self.stage == Stage::Entries {
            let (entries, next) = self.shared.lock().book().batch(self.next, BATCH_ENTRIES)?;
            let is_over = entries.is_empty() || self.next >= self.end;
            self.next = next;
            if is_over {
                for seen in self.join.rest() {
                    self.log_row(&mut out, &seen)?;
                }
                if self.format == Format::Json {
                    out.extend_from_slice(b"]\n");
                }
                self.stage = Stage::End;
                return Ok(Some(out).filter(|out| !out.is_empty()));
            }
            for entry in entries {
                self.entry(&mut out, entry)?;
            }
            if !out.is_empty() {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    fn entry(&mut self, out: &mut Vec<u8>, entry: Entry) -> io::Result<()> {
        match (self.list, entry) {
            (List::Log, entry) => match self.join.take(entry) {
                Some(seen) => self.log_row(out, &seen),
                None => Ok(()),
            },
            (List::Payments, Entry::Effect(effect)) if !effect.effect.is_payment() => Ok(()),
            (List::Payments | List::Ledger, Entry::Effect(effect)) => self.effect_row(out, &effect),
            (
                List::Payments | List::Ledger,
                Entry::Arrived(_) | Entry::Answered(_) | Entry::Reset { .. },
            ) => Ok(()),
        }
    }

    fn effect_row(&mut self, out: &mut Vec<u8>, effect: &Effect) -> io::Result<()> {
        match self.format {
            Format::Json => self.json_row(out, &View::of(effect)),
            Format::Csv => {
                let amount = effect.amount.as_ref().map(ToString::to_string);
                let created_at = moment(effect.at_ms);
                let request = effect.request.to_string();
                csv_line(
                    out,
                    &[
                        effect.payment_id(),
                        &effect.order_id,
                        &created_at,
                        effect.effect.word(),
                        &effect.id,
                        amount.as_deref().unwrap_or_default(),
                        effect.currency.as_deref().unwrap_or_default(),
                        effect.key.as_deref().unwrap_or_default(),
                        &request,
                    ],
                )
            }
        }
    }

    fn log_row(&mut self, out: &mut Vec<u8>, seen: &Seen) -> io::Result<()> {
        let arrived = &seen.arrived;
        let at = moment(arrived.at_ms);
        let answer = seen.answer.map_or("open", Fate::word);
        match self.format {
            Format::Json => {
                let row = LogRow {
                    request: arrived.request,
                    number: arrived.number,
                    at: &at,
                    op: arrived.op.word(),
                    method: &arrived.method,
                    path: &arrived.path,
                    order_id: arrived.order_id.as_deref(),
                    idempotency_key: arrived.key.as_deref(),
                    status: seen.status,
                    answer,
                    replayed: seen.replayed,
                    rule: arrived.rule.as_deref(),
                    whole: arrived.whole,
                    connection: arrived.connection,
                    on_connection: arrived.on_connection,
                    body_bytes: arrived.body_bytes,
                    body_sha256: arrived.body_sha256,
                    headers: seen.headers(),
                };
                self.json_row(out, &row)
            }
            Format::Csv => csv_line(
                out,
                &[
                    &arrived.request.to_string(),
                    &arrived.number.to_string(),
                    &at,
                    arrived.op.word(),
                    &arrived.method,
                    &arrived.path,
                    arrived.order_id.as_deref().unwrap_or_default(),
                    arrived.key.as_deref().unwrap_or_default(),
                    &seen.status.map(|status| status.to_string()).unwrap_or_default(),
                    answer,
                    &seen.replayed.to_string(),
                    arrived.rule.as_deref().unwrap_or_default(),
                    &arrived.whole.to_string(),
                    &arrived.connection.to_string(),
                    &arrived.on_connection.to_string(),
                    &arrived.body_bytes.to_string(),
                    &arrived.body_sha256.to_string(),
                ],
            ),
        }
    }

    fn json_row(&mut self, out: &mut Vec<u8>, row: &impl Serialize) -> io::Result<()> {
        if self.rows > 0 {
            out.extend_from_slice(b",\n");
        }
        self.rows += 1;
        Ok(serde_json::to_writer(out, row)?)
    }
}

#[derive(Serialize)]
struct LogRow<'a> {
    request: u64,
    number: u64,
    at: &'a str,
    op: &'a str,
    method: &'a str,
    path: &'a str,
    order_id: Option<&'a str>,
    idempotency_key: Option<&'a str>,
    status: Option<u16>,
    answer: &'a str,
    replayed: bool,
    rule: Option<&'a str>,
    whole: bool,
    connection: u64,
    on_connection: u64,
    body_bytes: u64,
    body_sha256: BodyHash,
    headers: Vec<(&'a str, &'a str)>,
}

fn columns(list: List) -> &'static [&'static str] {
    match list {
        List::Payments | List::Ledger => &[
            "payment_id",
            "order_id",
            "created_at",
            "effect",
            "id",
            "amount",
            "currency",
            "idempotency_key",
            "request",
        ],
        List::Log => &[
            "request",
            "number",
            "at",
            "op",
            "method",
            "path",
            "order_id",
            "idempotency_key",
            "status",
            "answer",
            "replayed",
            "rule",
            "whole",
            "connection",
            "on_connection",
            "body_bytes",
            "body_sha256",
        ],
    }
}

fn csv_line(out: &mut Vec<u8>, fields: &[&str]) -> io::Result<()> {
    let mut writer = csv::WriterBuilder::new().from_writer(out);
    writer.write_record(fields)?;
    writer.flush()
}
