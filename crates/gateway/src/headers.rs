//! Which headers travel through a proxy, and which belong to one connection (RFC 9110, section 7.6).

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, Version};
use std::net::IpAddr;

/// Headers of one connection that need not be named in `Connection`. `Expect` is among them: this proxy
/// answers it by reading the body.
const OF_ONE_CONNECTION: [HeaderName; 12] = [
    CONNECTION,
    EXPECT,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("http2-settings"),
];
/// What a client can say about how it came here. Only a proxy that the operator trusts knows.
const OF_THE_WAY: [HeaderName; 5] = [
    http::header::FORWARDED,
    FORWARDED_FOR,
    FORWARDED_HOST,
    FORWARDED_PROTO,
    HeaderName::from_static("x-real-ip"),
];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// What else is written anew for the upstream, or says how the body is to be read.
const WRITTEN_HERE: [HeaderName; 9] = [
    ACCEPT_ENCODING,
    http::header::CONTENT_ENCODING,
    CONTENT_LENGTH,
    http::header::CONTENT_TYPE,
    COOKIE,
    HOST,
    samekey::header::IDEMPOTENCY_KEY,
    samekey::header::IDEMPOTENT_REPLAYED,
    VIA,
];
/// The name of this proxy in `Via`.
const PSEUDONYM: &str = "samekey";

/// Whether this proxy takes a header away or writes it itself, so that nothing which the settings name can
/// travel in it.
pub(crate) fn is_ours(name: &HeaderName) -> bool {
    OF_ONE_CONNECTION.contains(name) || OF_THE_WAY.contains(name) || WRITTEN_HERE.contains(name)
}

/// Takes everything away that belongs to the connection on which it came, the headers that `Connection`
/// names included.
pub(crate) fn strip_connection(headers: &mut HeaderMap) {
    strip_named(headers);
    for name in &OF_ONE_CONNECTION {
        headers.remove(name);
    }
}

/// Takes away what `Connection` names, and itself.
pub(crate) fn strip_named(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        // Whoever could name these would take the command's meaning away.
        .filter(|name| *name != HOST && *name != samekey::header::IDEMPOTENCY_KEY)
        .collect();
    for name in named.iter().chain([&CONNECTION]) {
        headers.remove(name);
    }
}

/// Makes a request's headers ready for the upstream, framing left to the connection that carries it.
pub(crate) fn for_upstream(headers: &mut HeaderMap, version: Version) {
    strip_connection(headers);
    // The body knows its length; a header that a client wrote beside it is how requests are smuggled.
    headers.remove(CONTENT_LENGTH);
    remove_alike(headers, &samekey::header::IDEMPOTENT_REPLAYED);
    join_cookies(headers);
    add_via(headers, version);
}

/// Makes a command's headers ready, whose answer is going to be stored.
pub(crate) fn for_command(headers: &mut HeaderMap, version: Version, host: HeaderValue, key: &str) {
    for_upstream(headers, version);
    headers.insert(HOST, host);
    // What is stored has to be readable for whoever sends the key again.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    remove_alike(headers, &samekey::header::IDEMPOTENCY_KEY);
    if let Ok(key) = HeaderValue::from_str(key) {
        headers.insert(samekey::header::IDEMPOTENCY_KEY, key);
    }
}

/// Takes away what only a trusted proxy may say about the way of a request.
pub(crate) fn strip_way(headers: &mut HeaderMap) {
    for name in &OF_THE_WAY {
        remove_alike(headers, name);
    }
}

/// Takes a header away, however its dashes are written: an upstream behind CGI or WSGI reads `X_Org` and `X-Org`
/// as one.
pub(crate) fn remove_alike(headers: &mut HeaderMap, name: &HeaderName) {
    headers.remove(name);
    let alike: Vec<HeaderName> = headers
        .keys()
        .filter(|other| {
            other.as_str().contains('_') && other.as_str().replace('_', "-") == name.as_str()
        })
        .cloned()
        .collect();
    for name in &alike {
        headers.remove(name);
    }
}

/// Says where a request came from, behind what a trusted proxy has said already.
pub(crate) fn add_way(
    headers: &mut HeaderMap,
    peer: IpAddr,
    host: Option<&HeaderValue>,
    scheme: &'static str,
) {
    let so_far: Vec<&[u8]> =
        headers.get_all(FORWARDED_FOR).iter().map(HeaderValue::as_bytes).collect();
    let peer = peer.to_canonical().to_string();
    let all = [so_far.as_slice(), &[peer.as_bytes()]].concat().join(&b", "[..]);
    if let Ok(all) = HeaderValue::from_bytes(&all) {
        headers.insert(FORWARDED_FOR, all);
    }
    if let Some(host) = host {
        headers.entry(FORWARDED_HOST).or_insert_with(|| host.clone());
    }
    headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static(scheme));
}

/// Makes an answer's head ready for the client, whose connection has a version of its own.
pub(crate) fn for_client<B>(answer: &mut Response<B>) {
    let version = std::mem::replace(answer.version_mut(), Version::HTTP_11);
    let headers = answer.headers_mut();
    // With both, the length is not the body's.
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    strip_connection(headers);
    add_via(headers, version);
}

/// HTTP/2 may send one cookie a line; HTTP/1.1 has one line (RFC 9113, section 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if lines.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&lines.join(&b"; "[..]))
    {
        headers.insert(COOKIE, joined);
    }
}

fn add_via(headers: &mut HeaderMap, version: Version) {
    let protocol = match version {
        Version::HTTP_2 => "2.0",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{protocol} {PSEUDONYM}")) {
        headers.append(VIA, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn t89_t94_nothing_of_one_connection_travels_on() {
        let mut headers = map(&[
            ("connection", "close, X-Secret"),
            ("connection", "x-open"),
            ("x-secret", "1"),
            ("x-open", "1"),
            ("te", "trailers"),
            ("trailer", "idempotency-key"),
            ("upgrade", "foo"),
            ("expect", "100-continue"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("content-length", "5"),
            ("idempotent-replayed", "true"),
            ("x-mine", "1"),
        ]);
        for_upstream(&mut headers, Version::HTTP_11);
        assert_eq!(names(&headers), ["via", "x-mine"]);
        assert_eq!(headers["via"], "1.1 samekey");
    }

    #[test]
    fn t90_no_spelling_of_ours_is_left_to_a_client() {
        let mut headers = map(&[
            ("x_org", "beta"),
            ("x-org", "beta"),
            ("x_forwarded_for", "1.2.3.4"),
            ("idempotency_key", "other"),
            ("x_mine", "1"),
        ]);
        remove_alike(&mut headers, &HeaderName::from_static("x-org"));
        strip_way(&mut headers);
        for_command(&mut headers, Version::HTTP_11, HeaderValue::from_static("a"), "k");
        let expected = ["accept-encoding", "host", "idempotency-key", "via", "x_mine"];
        assert_eq!(names(&headers), expected);
        assert_eq!(headers["idempotency-key"], "k");
    }

    #[test]
    fn connection_cannot_name_the_key_away() {
        let mut headers = map(&[
            ("connection", "idempotency-key, host"),
            ("idempotency-key", "k"),
            ("host", "a"),
        ]);
        strip_connection(&mut headers);
        assert_eq!(names(&headers), ["host", "idempotency-key"]);
    }

    #[test]
    fn t92_an_answer_with_two_framings_keeps_neither() {
        let through = |lines: &[(&str, &str)]| {
            let mut answer = Response::new(());
            *answer.version_mut() = Version::HTTP_10;
            *answer.headers_mut() = map(lines);
            for_client(&mut answer);
            assert_eq!(answer.version(), Version::HTTP_11);
            answer.headers().clone()
        };
        let headers = through(&[("transfer-encoding", "chunked"), ("content-length", "5")]);
        assert_eq!(names(&headers), ["via"]);
        let headers = through(&[("content-length", "5"), ("via", "1.1 other")]);
        assert_eq!(headers["content-length"], "5");
        assert_eq!(headers.get_all("via").iter().collect::<Vec<_>>(), ["1.1 other", "1.0 samekey"]);
    }

    #[test]
    fn cookies_of_http_2_become_one_line() {
        let mut headers = map(&[("cookie", "a=1"), ("cookie", "b=2")]);
        for_upstream(&mut headers, Version::HTTP_2);
        assert_eq!(headers["cookie"], "a=1; b=2");
        assert_eq!(headers["via"], "2.0 samekey");
    }

    #[test]
    fn t90_a_client_says_nothing_about_its_way() {
        let mut headers = map(&[("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "1.2.3.4")]);
        strip_way(&mut headers);
        assert!(headers.is_empty());
        let host = HeaderValue::from_static("shop.example");
        add_way(&mut headers, "10.0.0.1".parse().unwrap(), Some(&host), "https");
        add_way(&mut headers, "::ffff:10.0.0.2".parse().unwrap(), None, "http");
        assert_eq!(headers["x-forwarded-for"], "10.0.0.1, 10.0.0.2");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
        assert_eq!(headers["x-forwarded-proto"], "https");
    }
}
