//! One route of the settings: where it is, what its policy is, how its key travels on.

use super::ask::{self, Around};
use super::source::Section;
use crate::ask::Asking;
use crate::error::Error;
use crate::path::Pattern;
use http::{HeaderName, Method};
use samekey::Route;
use samekey_core::fingerprint::BodyForm;
use samekey_core::policy::{
    BODY_BYTES_MAX_MAX, Choices, KeyRule, MismatchStatus, OnMismatch, OnServerError, ReplayStatus,
    Rerun,
};
use samekey_core::receipt::Keep;
use std::time::Duration;

/// The name of the route for everything that no other route covers.
pub(crate) const DEFAULT_NAME: &str = "default";
/// How long an upstream may take for its answer by default: half of the default lease.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The most that may be kept of one answer, in bytes; it lies in the database until its retention ends.
const KEPT_BYTES_MAX_MAX: u64 = 16 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);
const HOUR_MS: u64 = 3_600_000;

/// What the policy of a route may say.
pub(super) const POLICY_KEYS: [&str; 26] = [
    "key",
    "on_mismatch",
    "mismatch_status",
    "replay_status",
    "retention_days",
    "lease_ms",
    "run_max_ms",
    "timeout_ms",
    "fingerprint",
    "semantic_headers",
    "on_5xx",
    "rerun",
    "counterparty",
    "outbound_key",
    "bind_principal",
    "body_bytes_max",
    "kept_bytes_max",
    "keep_headers",
    "in_progress",
    "credential",
    "ask",
    "answer",
    "recovered",
    "key_life_s",
    "stored_refusals",
    "questions_max",
];
const MARK_KEYS: [&str; 3] = ["status", "pointer", "value"];

/// The upstream, as the settings name it.
pub(super) struct Named<'a> {
    /// Its address, with its scheme.
    pub(super) url: &'a str,
    /// The file of those who are believed about it, where that is not the system.
    pub(super) authorities: Option<&'a str>,
    /// The header in which it is told the organisation.
    pub(super) org_header: &'a HeaderName,
}

/// Under which key the upstream gets a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbound {
    /// A key made from organisation, key and route by a secret.
    Hmac,
    /// The caller's own.
    Same,
}

/// How an upstream says that a command is still at work: a status and a place in its JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) status: u16,
    /// A JSON pointer (RFC 6901).
    pub(crate) pointer: String,
    /// What stands there; nothing where anything does.
    pub(crate) value: Option<String>,
}

/// A route as it is used.
#[derive(Clone, Debug)]
pub(crate) struct RouteSettings {
    /// What it covers; nothing for the default route, which covers the rest.
    pub(crate) pattern: Option<Pattern>,
    pub(crate) methods: Vec<Method>,
    /// Its name and policy.
    pub(crate) route: Route,
    pub(crate) outbound: Outbound,
    /// How long the upstream may take for a command's answer.
    pub(crate) timeout: Duration,
    pub(crate) in_progress: Option<Mark>,
    /// Who is asked what became of a command.
    pub(crate) asking: Asking,
}

impl RouteSettings {
    /// The default route without a word about it in the settings.
    pub(crate) fn plain() -> Result<RouteSettings, Error> {
        let choices = Choices { key: KeyRule::Optional, ..Choices::default() };
        Ok(RouteSettings {
            pattern: None,
            methods: commands(),
            route: Route::new(DEFAULT_NAME, choices)
                .map_err(|fault| Error::settings(fault.to_string()))?,
            outbound: Outbound::Hmac,
            timeout: TIMEOUT_DEFAULT,
            in_progress: None,
            asking: Asking::Nobody,
        })
    }

    /// The default route with what the settings say of it.
    pub(super) fn default_of(
        section: &Section<'_>,
        upstream: &Named<'_>,
    ) -> Result<RouteSettings, Error> {
        RouteSettings::read(section, upstream, DEFAULT_NAME, None, commands())
    }

    /// A route with a name and a path, before the upstream of this address.
    pub(super) fn of(section: &Section<'_>, upstream: &Named<'_>) -> Result<RouteSettings, Error> {
        let name = section.required("name")?;
        if name == DEFAULT_NAME {
            return Err(section.fault(
                "name",
                "\"default\" is the route for all other paths; choose another name",
            ));
        }
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Err(section.fault(
                "name",
                format!(
                    "found {name:?}; write letters, digits, '-', '_' and '.': it stands in metrics"
                ),
            ));
        }
        let pattern = Pattern::parse(section.required("path")?)
            .map_err(|sentence| section.fault("path", sentence))?;
        let methods = match section.texts("methods")? {
            None => commands(),
            Some(names) => methods(section, &names)?,
        };
        RouteSettings::read(section, upstream, name, Some(pattern), methods)
    }

    /// Whether the credential for the upstream is to be had now, so that an operator hears of it at the start
    /// and not with the first lost answer.
    pub(crate) async fn check_credential(&self) -> Result<(), Error> {
        let Some(credential) = self.asking.credential() else { return Ok(()) };
        credential
            .check()
            .await
            .map_err(|error| Error::settings(format!("route {:?}: {error}", self.route.name())))
    }

    fn read(
        section: &Section<'_>,
        upstream: &Named<'_>,
        name: &str,
        pattern: Option<Pattern>,
        methods: Vec<Method>,
    ) -> Result<RouteSettings, Error> {
        let choices = choices(section, &pattern)?;
        let timeout = section
            .number("timeout_ms", 1..=HOUR_MS)?
            .map_or(TIMEOUT_DEFAULT, Duration::from_millis);
        if choices.lease <= timeout {
            return Err(section.fault(
                if section.number("lease_ms", 0..=u64::MAX)?.is_some() { "lease_ms" } else { "timeout_ms" },
                format!(
                    "lease_ms = {} is not longer than timeout_ms = {}: a call could outlive its claim; make lease_ms longer",
                    choices.lease.as_millis(),
                    timeout.as_millis()
                ),
            ));
        }
        let route = Route::new(name, choices).map_err(|fault| {
            ask::fault(section, fault.choice, &fault.to_string())
                .unwrap_or_else(|| section.fault(key_of(fault.choice), fault))
        })?;
        let kept_bytes_max = match section.number("kept_bytes_max", 0..=KEPT_BYTES_MAX_MAX)? {
            Some(bytes) => usize::try_from(bytes).unwrap_or(usize::MAX),
            None => Keep::default().body_bytes_max(),
        };
        let extra = section.texts("keep_headers")?.unwrap_or_default();
        let keep = Keep::new(kept_bytes_max, extra)
            .map_err(|fault| section.fault("keep_headers", fault))?;
        let outbound = section
            .choice("outbound_key", &[("hmac", Outbound::Hmac), ("same", Outbound::Same)])?
            .unwrap_or(Outbound::Hmac);
        let in_progress = mark(section)?;
        let around =
            Around { pattern: pattern.as_ref(), in_progress: in_progress.as_ref(), upstream };
        let asking = ask::asking(section, &around)?;
        let route = route.keeping(keep);
        Ok(RouteSettings { pattern, methods, route, outbound, timeout, in_progress, asking })
    }
}

fn mark(section: &Section<'_>) -> Result<Option<Mark>, Error> {
    let Some(mark) = section.section("in_progress", &MARK_KEYS)? else { return Ok(None) };
    let status = mark.number("status", 400..=499)?;
    let status = status.ok_or_else(|| mark.fault("status", "is missing; write 409"))?;
    let pointer = mark.required("pointer")?;
    if !pointer.starts_with('/') {
        let sentence =
            format!("found {pointer:?}; expected a JSON pointer such as \"/error/code\"");
        return Err(mark.fault("pointer", sentence));
    }
    Ok(Some(Mark {
        status: u16::try_from(status).unwrap_or(409),
        pointer: pointer.to_owned(),
        value: mark.text("value")?.map(str::to_owned),
    }))
}

/// The methods that are commands everywhere.
fn commands() -> Vec<Method> {
    vec![Method::POST, Method::PATCH]
}

fn methods(section: &Section<'_>, names: &[&str]) -> Result<Vec<Method>, Error> {
    let known = [Method::POST, Method::PATCH, Method::PUT, Method::DELETE];
    let mut methods = Vec::new();
    for name in names {
        let Some(method) = known.iter().find(|method| method.as_str() == *name) else {
            return Err(section.fault(
                "methods",
                format!("found {name:?}; commands are POST, PATCH, PUT and DELETE"),
            ));
        };
        methods.push(method.clone());
    }
    if methods.is_empty() {
        return Err(section.fault("methods", "is an empty list; name a method, or leave it out"));
    }
    Ok(methods)
}

fn choices(section: &Section<'_>, pattern: &Option<Pattern>) -> Result<Choices, Error> {
    let mut choices = Choices::default();
    let key =
        [("required", KeyRule::Required), ("optional", KeyRule::Optional), ("off", KeyRule::Off)];
    // Only a route that somebody wrote down can turn away what has no key.
    let usual = if pattern.is_some() { KeyRule::Required } else { KeyRule::Optional };
    choices.key = section.choice("key", &key)?.unwrap_or(usual);
    if let Some(on_mismatch) = section
        .choice("on_mismatch", &[("reject", OnMismatch::Reject), ("replay", OnMismatch::Replay)])?
    {
        choices.on_mismatch = on_mismatch;
    }
    match section.number("mismatch_status", 0..=999)? {
        None | Some(422) => {}
        Some(400) => choices.mismatch_status = MismatchStatus::BadRequest,
        Some(other) => {
            return Err(
                section.fault("mismatch_status", format!("found {other}; expected 422 or 400"))
            );
        }
    }
    if let Some(status) = section.number("replay_status", 200..=299)? {
        choices.replay_status = ReplayStatus::Fixed(u16::try_from(status).unwrap_or(200));
    }
    if let Some(days) = section.number("retention_days", 1..=3_660)? {
        choices.retention = DAY.saturating_mul(u32::try_from(days).unwrap_or(u32::MAX));
    }
    if let Some(lease) = section.number("lease_ms", 1..=HOUR_MS)? {
        choices.lease = Duration::from_millis(lease);
    }
    match section.number("run_max_ms", 1..=24 * HOUR_MS)? {
        Some(run_max) => choices.run_max = Duration::from_millis(run_max),
        None => choices.run_max = choices.run_max.max(choices.lease),
    }
    if let Some(form) =
        section.choice("fingerprint", &[("json", BodyForm::Json), ("raw", BodyForm::Raw)])?
    {
        choices.fingerprint = form;
    }
    if let Some(names) = section.texts("semantic_headers")? {
        choices.semantic_headers = names.into_iter().map(str::to_ascii_lowercase).collect();
    }
    let on_5xx = [
        ("unknown", OnServerError::Unknown),
        ("store", OnServerError::Store),
        ("free", OnServerError::Free),
    ];
    if let Some(on_server_error) = section.choice("on_5xx", &on_5xx)? {
        choices.on_server_error = on_server_error;
    }
    if let Some(rerun) =
        section.choice("rerun", &[("never", Rerun::Never), ("safe", Rerun::Safe)])?
    {
        choices.rerun = rerun;
    }
    choices.counterparty = ask::counterparty(section)?;
    if let Some(questions) = section.number("questions_max", 1..=u64::from(u32::MAX))? {
        choices.questions_max = u32::try_from(questions).unwrap_or(u32::MAX);
    }
    if let Some(bind) = section.flag("bind_principal")? {
        choices.bind_principal = bind;
    }
    let most = u64::try_from(BODY_BYTES_MAX_MAX).unwrap_or(u64::MAX);
    if let Some(bytes) = section.number("body_bytes_max", 1..=most)? {
        choices.body_bytes_max = usize::try_from(bytes).unwrap_or(usize::MAX);
    }
    Ok(choices)
}

/// The setting of a choice of the policy.
fn key_of(choice: &str) -> &str {
    match choice {
        "lease" => "lease_ms",
        "run_max" => "run_max_ms",
        "retention" => "retention_days",
        other => other,
    }
}
