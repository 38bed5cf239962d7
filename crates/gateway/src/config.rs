//! What a gateway is told: a flag comes before its variable, that before the file, that before the default.
//!
//! Flags and variables are the command's business and come in as [`Overrides`].

mod ask;
mod check;
mod route;
mod show;
mod source;
mod tenants;
mod tls;

pub use show::{Origin, Setting, Table};

pub(crate) use route::{Mark, Outbound, RouteSettings};

use crate::ask::Asking;
use crate::error::Error;
use crate::identity::{Identity, ONLY_ORG, Way};
use crate::tls::{Protocol, ServerTls, UpstreamTls};
use http::Uri;
use samekey_core::key::Org;
use source::{Section, Source};
use std::net::SocketAddr;
use std::time::Duration;
use toml::Spanned;
use toml::de::DeTable;

/// Where a gateway listens by default.
const LISTEN_DEFAULT: &str = "127.0.0.1:8080";
/// The ledger of a gateway by default: a file beside it.
const DATABASE_DEFAULT: &str = "sqlite:samekey.db";
const HOUR_MS: u64 = 3_600_000;
/// How many routes one gateway has at the most; they are looked through one by one.
const ROUTES_MAX: usize = 1_000;

const KEYS: [&str; 17] = [
    "upstream",
    "listen",
    "admin",
    "database",
    "org",
    "org_header",
    "repeats",
    "repeats_window_ms",
    "limits",
    "default",
    "route",
    "token",
    "jwt",
    "trusted_proxies",
    "upstream_ca",
    "upstream_http",
    "tls",
];
const LIMIT_KEYS: [&str; 7] = [
    "connections_max",
    "headers_time_max_ms",
    "idle_time_max_ms",
    "stall_time_max_ms",
    "connect_time_max_ms",
    "answer_time_max_ms",
    "grace_ms",
];

/// What flags and variables say.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The upstream's address, such as `http://127.0.0.1:9000`.
    pub upstream: Option<String>,
    /// Where to listen.
    pub listen: Option<String>,
    /// Where health, readiness and metrics are.
    pub admin: Option<String>,
    /// The ledger.
    pub database: Option<String>,
}

/// How long things may take, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many connections are open at a time; further ones wait in the kernel's queue.
    pub connections_max: usize,
    /// How long a client may take for its request line and headers.
    pub headers_time_max: Duration,
    /// How long a connection without a request stays open.
    pub idle_time_max: Duration,
    /// How long a client may stand still in the middle of a body, its own or the answer's.
    pub stall_time_max: Duration,
    /// How long connecting to the upstream may take.
    pub connect_time_max: Duration,
    /// How long the upstream may take to begin the answer to a request without a key.
    pub answer_time_max: Duration,
    /// How long open requests may go on after the word to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: 4_096,
            headers_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(60),
            stall_time_max: Duration::from_secs(30),
            connect_time_max: Duration::from_secs(5),
            answer_time_max: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}

/// What to do about the same command under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnRepeat {
    Off,
    /// Count it and say so in the log.
    Observe,
    /// And in a header of the answer.
    Header,
}

/// Where commands go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port, as they stand in `Host`.
    pub(crate) authority: String,
    /// What is connected to.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whether it is `https://`.
    pub(crate) is_secure: bool,
}

impl Target {
    /// How it is spoken to.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.is_secure { "https" } else { "http" }
    }

    /// Its address as a URL.
    fn base_url(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority)
    }
}

/// Everything that a gateway is told, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) target: Target,
    pub(crate) upstream_http: Protocol,
    /// Nothing where the upstream is spoken to without TLS.
    pub(crate) upstream_tls: Option<UpstreamTls>,
    /// Nothing where clients come without TLS.
    pub(crate) tls: Option<ServerTls>,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) database: String,
    pub(crate) limits: Limits,
    pub(crate) identity: Identity,
    pub(crate) on_repeat: OnRepeat,
    pub(crate) repeats_window: Duration,
    /// In the order of the file; the default route is the last.
    pub(crate) routes: Vec<RouteSettings>,
}

impl Settings {
    /// Reads the settings from a file's name and text, if there is one, under what flags and variables say.
    ///
    /// # Errors
    /// The first thing that cannot be understood or kept, with its place and a remedy.
    pub fn read(file: Option<(&str, &str)>, overrides: &Overrides) -> Result<Settings, Error> {
        let (name, text) = file.unwrap_or_default();
        let source = Source { name, text };
        Settings::of(source, &source.parse()?, overrides)
    }

    fn of(
        source: Source<'_>,
        parsed: &Spanned<DeTable<'_>>,
        overrides: &Overrides,
    ) -> Result<Settings, Error> {
        let top = Section::new(source, "", parsed, &KEYS)?;
        let target = upstream(&top, overrides)?;
        let upstream_http = tls::protocol(&top)?;
        let identity = tenants::identity(&top)?;
        let routes = routes(&top, &target, &identity)?;
        let settings = Settings {
            upstream_tls: tls::towards_upstream(&top, &target, upstream_http)?,
            upstream_http,
            target,
            tls: tls::towards_clients(&top)?,
            listen: address(&top, "listen", overrides.listen.as_deref(), Some(LISTEN_DEFAULT))?
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
            admin: address(&top, "admin", overrides.admin.as_deref(), None)?,
            database: overrides
                .database
                .clone()
                .or(top.text("database")?.map(str::to_owned))
                .unwrap_or_else(|| DATABASE_DEFAULT.to_owned()),
            limits: limits(&top)?,
            identity,
            on_repeat: top
                .choice(
                    "repeats",
                    &[
                        ("observe", OnRepeat::Observe),
                        ("header", OnRepeat::Header),
                        ("off", OnRepeat::Off),
                    ],
                )?
                .unwrap_or(OnRepeat::Observe),
            repeats_window: Duration::from_millis(
                top.number("repeats_window_ms", 1..=HOUR_MS)?.unwrap_or(60_000),
            ),
            routes,
        };
        settings.refuse_shared_keys(&top)?;
        settings.refuse_borrowed_credentials(&top)?;
        Ok(settings)
    }

    /// Two organisations that send the same key to one upstream account would get one another's answers.
    fn refuse_shared_keys(&self, top: &Section<'_>) -> Result<(), Error> {
        let many = match self.identity.way {
            Way::One(_) => false,
            Way::Tokens(_) | Way::Jwt(_) | Way::Proxy(_) => true,
        };
        let same = self.routes.iter().find(|route| route.outbound == Outbound::Same);
        match same {
            Some(route) if many => Err(top.fault(
                "route",
                format!(
                    "route {:?} sends the caller's key on (outbound_key = \"same\"), and there is more than one organisation: two of them with the same key would meet at the upstream; leave outbound_key out",
                    route.route.name()
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Where the gateway sends its own credential, whoever reaches it acts with that.
    fn refuse_borrowed_credentials(&self, top: &Section<'_>) -> Result<(), Error> {
        let is_said = match self.identity.way {
            Way::One(_) => top.has("org"),
            Way::Tokens(_) | Way::Jwt(_) | Way::Proxy(_) => true,
        };
        let borrowing = self.routes.iter().find(|route| match route.asking {
            Asking::Again(_) => true,
            Asking::Nobody | Asking::Status(_) => false,
        });
        match borrowing {
            Some(route) if !is_said => Err(top.fault(
                "org",
                format!(
                    "is missing; commands of route {:?} are sent with the gateway's own credential, so whoever reaches the gateway acts with it: say who may by [[token]], [jwt] or trusted_proxies, or write org = \"NAME\" if everybody who reaches it may",
                    route.route.name()
                ),
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// How clients come here: `https` or `http`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Where the ledger is.
    pub fn database(&self) -> &str {
        &self.database
    }
}

fn routes(
    top: &Section<'_>,
    target: &Target,
    identity: &Identity,
) -> Result<Vec<RouteSettings>, Error> {
    let url = target.base_url();
    let upstream = route::Named {
        url: &url,
        authorities: top.text("upstream_ca")?,
        org_header: &identity.org_header,
    };
    let mut known = vec!["name", "path", "methods"];
    known.extend(route::POLICY_KEYS);
    let mut routes: Vec<RouteSettings> = Vec::new();
    for section in top.sections("route", &known)? {
        let route = RouteSettings::of(&section, &upstream)?;
        if routes.iter().any(|other| other.route.name() == route.route.name()) {
            return Err(section.fault(
                "name",
                format!("a second route is called {:?}; open keys are found by the route's name, so give each its own", route.route.name()),
            ));
        }
        routes.push(route);
    }
    if routes.len() > ROUTES_MAX {
        return Err(top.fault("route", format!("there are more than {ROUTES_MAX}; write fewer")));
    }
    routes.push(match top.section("default", &route::POLICY_KEYS)? {
        Some(section) => RouteSettings::default_of(&section, &upstream)?,
        None => RouteSettings::plain()?,
    });
    Ok(routes)
}

fn limits(top: &Section<'_>) -> Result<Limits, Error> {
    let mut limits = Limits::default();
    let Some(section) = top.section("limits", &LIMIT_KEYS)? else { return Ok(limits) };
    if let Some(connections) = section.number("connections_max", 1..=1_000_000)? {
        limits.connections_max = usize::try_from(connections).unwrap_or(usize::MAX);
    }
    for (key, place) in [
        ("headers_time_max_ms", &mut limits.headers_time_max),
        ("idle_time_max_ms", &mut limits.idle_time_max),
        ("stall_time_max_ms", &mut limits.stall_time_max),
        ("connect_time_max_ms", &mut limits.connect_time_max),
        ("answer_time_max_ms", &mut limits.answer_time_max),
        ("grace_ms", &mut limits.grace),
    ] {
        if let Some(millis) = section.number(key, 1..=HOUR_MS)? {
            *place = Duration::from_millis(millis);
        }
    }
    Ok(limits)
}

fn address(
    top: &Section<'_>,
    key: &str,
    given: Option<&str>,
    usual: Option<&str>,
) -> Result<Option<SocketAddr>, Error> {
    let sentence = |text: &str| {
        format!("found {text:?}; expected an IP address and a port, such as 127.0.0.1:8080")
    };
    if let Some(text) = given {
        let parsed = text.parse().map(Some);
        return parsed.map_err(|_| Error::settings(format!("--{key}: {}", sentence(text))));
    }
    let Some(text) = top.text(key)?.or(usual) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| top.fault(key, sentence(text)))
}

fn upstream(top: &Section<'_>, overrides: &Overrides) -> Result<Target, Error> {
    if let Some(text) = &overrides.upstream {
        return target(text).map_err(|sentence| Error::settings(format!("--upstream: {sentence}")));
    }
    match top.text("upstream")? {
        Some(text) => target(text).map_err(|sentence| top.fault("upstream", sentence)),
        None => Err(Error::settings(
            "no upstream is named; give --upstream http://HOST:PORT, set SAMEKEY_UPSTREAM, or write upstream = \"http://HOST:PORT\" in the file of --config",
        )),
    }
}

/// What is found is not repeated: it may carry a password.
fn target(text: &str) -> Result<Target, String> {
    const EXPECTED: &str = "expected http://HOST:PORT or https://HOST:PORT";
    let uri: Uri = text.parse().map_err(|_| format!("this is no address; {EXPECTED}"))?;
    let (is_secure, usual_port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        Some(_) | None => return Err(format!("the scheme is missing or unknown; {EXPECTED}")),
    };
    let authority = uri.authority().ok_or_else(|| format!("the host is missing; {EXPECTED}"))?;
    if authority.as_str().contains('@') {
        return Err(format!("a user or password stands in it, which is not sent; {EXPECTED}"));
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(format!(
            "it has a path, and the path that a client sent is sent on as it is; {EXPECTED}"
        ));
    }
    Ok(Target {
        authority: authority.as_str().to_owned(),
        host: authority.host().trim_matches(['[', ']']).to_owned(),
        port: authority.port_u16().unwrap_or(usual_port),
        is_secure,
    })
}

fn one_org(top: &Section<'_>) -> Result<Identity, Error> {
    let org = top.text("org")?.unwrap_or(ONLY_ORG);
    Ok(Identity::one(Org::new(org).map_err(|fault| top.fault("org", fault))?))
}

#[cfg(test)]
mod tests;
