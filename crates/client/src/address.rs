//! Where a counterparty is, and which network addresses may be connected to.
//!
//! A name is checked as what it resolves to, each time that a connection is made, and the connection goes to
//! the very address that was checked: a name that changes its mind changes nothing.

mod reach;
mod template;

pub use reach::Reach;
pub use template::{Blank, Template};

use crate::error::Error;
use http::Uri;
use http::uri::{Authority, PathAndQuery};
use std::fmt;
use std::net::IpAddr;

/// How bytes are protected on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Not at all.
    Http,
    /// By TLS.
    Https,
}

/// The place of a counterparty: scheme, host, port, and a path that comes before every other.
#[derive(Clone, PartialEq, Eq)]
pub struct Base {
    scheme: Scheme,
    host: Box<str>,
    port: u16,
    authority: Authority,
    path: Box<str>,
}

impl Base {
    /// Reads an address such as `https://pay.example/v1`.
    ///
    /// # Errors
    /// It is no address, or has a part that has no place in it. The sentence never repeats a credential.
    pub fn parse(text: &str) -> Result<Base, Error> {
        let expected =
            || Error::config("base_url: expected an address such as https://pay.example/v1");
        if text.contains('#') {
            return Err(Error::config(
                "base_url has a fragment; expected https://HOST[:PORT][/PATH]",
            ));
        }
        let uri: Uri = text.parse().map_err(|_| expected())?;
        let scheme = match uri.scheme_str() {
            Some("https") => Scheme::Https,
            Some("http") => Scheme::Http,
            Some(_) | None => return Err(expected()),
        };
        let authority = uri.authority().ok_or_else(expected)?.clone();
        if authority.as_str().contains('@') {
            return Err(Error::config(
                "base_url carries a credential; take it out and name its source under credential",
            ));
        }
        if uri.query().is_some() {
            return Err(Error::config("base_url has a query; expected https://HOST[:PORT][/PATH]"));
        }
        let path = uri.path().trim_end_matches('/');
        check_path(path).map_err(|why| Error::config(format!("base_url: its path {why}")))?;
        let port_text = authority.as_str().get(authority.host().len()..).unwrap_or_default();
        let port = match (authority.port_u16(), port_text.is_empty(), scheme) {
            (Some(port), _, Scheme::Http | Scheme::Https) if port != 0 => port,
            (None, true, Scheme::Http) => 80,
            (None, true, Scheme::Https) => 443,
            // A port that cannot be read is not one that was left out.
            (Some(_) | None, _, Scheme::Http | Scheme::Https) => {
                return Err(Error::config(
                    "base_url has no port that can be used; expected 1 to 65535",
                ));
            }
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').into();
        Ok(Base { scheme, host, port, path: path.into(), authority })
    }

    /// How bytes are protected.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host, an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as the header `Host` names them.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The address that stands in it literally, if it is no name.
    pub fn literal(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// A path and query below this place.
    ///
    /// # Errors
    /// `target` is not one, or would lead out of this place.
    pub fn target(&self, target: &str) -> Result<PathAndQuery, Error> {
        check_target(target)?;
        format!("{}{target}", self.path).parse().map_err(|_| {
            Error::request("the path of a request has characters that need %-encoding")
        })
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base({:?} {}{})", self.scheme, self.authority, self.path)
    }
}

/// Whether a path and query stays below whatever path it is put after.
pub(crate) fn check_target(target: &str) -> Result<(), Error> {
    let refuse = |why: &str| Err(Error::request(format!("the path of a request {why}")));
    if !target.starts_with('/') || target.starts_with("//") {
        return refuse("must begin with one `/`");
    }
    if target.contains('#') {
        return refuse("has a fragment, which no counterparty would see");
    }
    let path = target.split('?').next().unwrap_or_default();
    if let Err(why) = check_path(path) {
        return refuse(&why);
    }
    match target.parse::<PathAndQuery>() {
        Ok(_) => Ok(()),
        Err(_) => refuse("has characters that need %-encoding"),
    }
}

/// Servers and proxies take `..` out of a path, each in its own way.
fn check_path(path: &str) -> Result<(), String> {
    if path.contains('\\') {
        return Err("has a backslash, which some servers take for a slash".to_owned());
    }
    let is_dots = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    };
    if path.split('/').any(is_dots) {
        return Err("has the segment `.` or `..`, which leads elsewhere".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Base, Scheme};

    #[test]
    fn a_base_is_read_or_refused_with_a_sentence() {
        let base = Base::parse("https://pay.test:8443/v1/").unwrap();
        assert_eq!((base.host(), base.port(), base.scheme()), ("pay.test", 8443, Scheme::Https));
        assert_eq!(base.target("/payments?a=1").unwrap().as_str(), "/v1/payments?a=1");
        let six = Base::parse("http://[::1]").unwrap();
        assert_eq!((six.host(), six.port()), ("::1", 80));
        assert_eq!(Base::parse("https://pay.test").unwrap().port(), 443);
        for (text, part) in [
            ("", "expected an address"),
            ("127.0.0.1:8021", "expected an address"),
            ("ftp://pay.test", "expected an address"),
            ("/payments", "expected an address"),
            ("https://me:hunter2@pay.test", "carries a credential"),
            ("https://pay.test/?a=1", "has a query"),
            ("https://pay.test/#a", "has a fragment"),
            ("https://pay.test:0", "has no port"),
            ("https://pay.test:99999", "has no port"),
            ("https://pay.test/v1/../admin", "leads elsewhere"),
        ] {
            let sentence = Base::parse(text).unwrap_err().to_string();
            assert!(sentence.contains(part), "{text}: {sentence}");
            assert!(!sentence.contains("hunter2"));
        }
    }

    #[test]
    fn t104_a_target_stays_below_its_base() {
        let base = Base::parse("https://pay.test/v1").unwrap();
        for target in [
            "payments",
            "",
            "//evil.test/payments",
            "@evil.test/payments",
            "https://evil.test/",
            "/../admin",
            "/a/%2e%2E/admin",
            "/a/./b",
            "/a\\..\\b",
            "/a#b",
            "/a b",
            "/a\r\nX: 1",
        ] {
            assert!(base.target(target).is_err(), "{target}");
        }
        assert_eq!(base.target("/a..b/c?next=../d").unwrap().as_str(), "/v1/a..b/c?next=../d");
    }
}
