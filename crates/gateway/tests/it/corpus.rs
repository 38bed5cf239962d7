//! Requests as nobody should write them: what each is answered with, and what the upstream sees of it.
//!
//! Every row is sent as it stands on a connection of its own, and the upstream is counted: one request at the
//! most for each that a reader of RFC 9112 sees in the row, and framed anew whatever its framing was.

use crate::backend::{Backend, Reply, Seen, created};
use crate::client::exchange;
use crate::world::{Kind, World};

/// A row: what it is, its bytes, the final statuses of its answers, and what the upstream sees: method,
/// target and body.
type Row<'a> = (&'a str, Vec<u8>, &'a [u16], &'a [(&'a str, &'a str, &'a str)]);

/// A request that is hidden in another one's body.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
/// The same as what follows the last chunk.
const CHUNKED_END_AND_HIDDEN: &str = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
/// What is silent here is let go soon.
const QUICK: &str = "[limits]\nheaders_time_max_ms = 700\nstall_time_max_ms = 700\nidle_time_max_ms = 400\n[default]\nbody_bytes_max = 1000\n";

/// A request with these lines behind its Host, and this body.
fn post(lines: &str, body: &str) -> Vec<u8> {
    format!("POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n{body}").into_bytes()
}

fn get(target: &str, lines: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n").into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    post("Transfer-Encoding: chunked\r\n", body)
}

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// The statuses of all answers in these bytes, but for those that only say "go on".
fn statuses(mut bytes: &[u8]) -> Vec<u16> {
    let mut found = Vec::new();
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut parsed = httparse::Response::new(&mut headers);
        let Ok(httparse::Status::Complete(head)) = parsed.parse(bytes) else { return found };
        let status = parsed.code.unwrap();
        let one = |name: &str| {
            let line = parsed.headers.iter().find(|it| it.name.eq_ignore_ascii_case(name));
            line.map(|it| std::str::from_utf8(it.value).unwrap().to_owned())
        };
        assert_eq!(one("transfer-encoding"), None, "every answer here has a length");
        let body = one("content-length").map_or(0, |length| length.parse::<usize>().unwrap());
        bytes = bytes.get(head + body..).unwrap_or_default();
        if status >= 200 {
            found.push(status);
        }
    }
}

/// What may never leave this proxy: two framings, two hosts, lines that another reader ends elsewhere.
fn is_clean(seen: &Seen) {
    let head = String::from_utf8_lossy(&seen.raw_head).into_owned();
    let bytes = &seen.raw_head;
    for (at, byte) in bytes.iter().enumerate() {
        let next = bytes.get(at + 1);
        match byte {
            b'\r' => assert_eq!(next, Some(&b'\n'), "a bare CR: {head:?}"),
            b'\n' => {
                assert_eq!(bytes.get(at - 1), Some(&b'\r'), "a bare LF: {head:?}");
                assert!(!matches!(next, Some(b' ' | b'\t')), "a folded line: {head:?}");
            }
            0 => panic!("a NUL: {head:?}"),
            _ => {}
        }
    }
    let framings = seen.all("content-length").len() + seen.all("transfer-encoding").len();
    assert!(framings <= 1, "{head}");
    assert_eq!(seen.all("host").len(), 1, "{head}");
    // The gateway says of its own connection that it is the only request's; nothing of the client's is in it.
    assert!(seen.one("connection").is_none_or(|said| said == "close"), "{head}");
    for name in ["upgrade", "te", "trailer", "expect", "http2-settings"] {
        assert_eq!(seen.one(name), None, "{name} in {head}");
    }
    for line in head.lines().skip(1) {
        let name = line.split(':').next().unwrap();
        assert!(!name.ends_with([' ', '\t']), "{head}");
    }
}

async fn hold(rows: &[Row<'_>]) {
    let world = World::with(Kind::Sqlite, Backend::creating().await, QUICK).await;
    let mut wrong = Vec::new();
    for (name, bytes, expected, expected_seen) in rows {
        let before = world.backend.effects();
        let answers = exchange(world.gateway.address, bytes).await;
        let seen = world.backend.seen().split_off(before);
        seen.iter().for_each(is_clean);
        let got: Vec<_> = seen
            .iter()
            .map(|it| {
                (
                    it.method.clone(),
                    it.target.clone(),
                    String::from_utf8_lossy(&it.body).into_owned(),
                )
            })
            .collect();
        let got: Vec<(&str, &str, &str)> =
            got.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), c.as_str())).collect();
        let told = statuses(&answers);
        if told != *expected || got != *expected_seen {
            let answers = String::from_utf8_lossy(&answers).into_owned();
            wrong.push(format!(
                "{name}\n  told {told:?}, expected {expected:?}\n  seen {got:?}, expected {expected_seen:?}\n  {answers:?}"
            ));
        }
    }
    // Nothing came later either.
    let all: usize = rows.iter().map(|row| row.3.len()).sum();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!((world.backend.effects(), world.backend.broken()), (all, 0));
}

const NONE: &[(&str, &str, &str)] = &[];
const EMPTY: &[(&str, &str, &str)] = &[("POST", "/a", "")];
const HELLO: &[(&str, &str, &str)] = &[("POST", "/a", "hello")];
const READ: &[(&str, &str, &str)] = &[("GET", "/a", "")];

#[tokio::test]
async fn t92_framings() {
    let both = format!(
        "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
        CHUNKED_END_AND_HIDDEN.len()
    );
    let both_reversed = format!(
        "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n",
        CHUNKED_END_AND_HIDDEN.len()
    );
    let hidden = HIDDEN.len();
    let te = |value: &str| post(&format!("Transfer-Encoding: {value}\r\n"), CHUNKED_END_AND_HIDDEN);
    let length = |value: &str| post(&format!("Content-Length: {value}\r\n"), "hello");
    hold(&[
        ("a length", length("5"), &[201], HELLO),
        ("chunks", chunked("5\r\nhello\r\n0\r\n\r\n"), &[201], HELLO),
        ("CL.TE", post(&both, CHUNKED_END_AND_HIDDEN), &[201], EMPTY),
        ("TE.CL", post(&both_reversed, CHUNKED_END_AND_HIDDEN), &[201], EMPTY),
        ("CL.TE that wants to go on", text(&format!("POST /a HTTP/1.1\r\nHost: a\r\n{both}\r\n{CHUNKED_END_AND_HIDDEN}")), &[201], EMPTY),
        ("TE.CL that wants to go on", text(&format!("POST /a HTTP/1.1\r\nHost: a\r\n{both_reversed}\r\n{CHUNKED_END_AND_HIDDEN}")), &[201], EMPTY),
        ("TE.TE, the last is not chunked", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", CHUNKED_END_AND_HIDDEN), &[400], NONE),
        ("TE.TE, both chunked", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKED_END_AND_HIDDEN), &[501], NONE),
        ("TE: chunked, identity", te("chunked, identity"), &[400], NONE),
        ("TE: identity, chunked", te("identity, chunked"), &[501], NONE),
        ("TE: gzip, chunked", te("gzip, chunked"), &[501], NONE),
        ("TE: xchunked", te("xchunked"), &[400], NONE),
        ("TE: CHUNKED", te("CHUNKED"), &[201], EMPTY),
        ("TE behind a tab", post("Transfer-Encoding:\tchunked\r\n", CHUNKED_END_AND_HIDDEN), &[201], EMPTY),
        ("TE behind a vertical tab", post("Transfer-Encoding: \x0bchunked\r\n", CHUNKED_END_AND_HIDDEN), &[400], NONE),
        ("TE in quotes", te("\"chunked\""), &[400], NONE),
        ("TE with a parameter", te("chunked;q=1"), &[400], NONE),
        ("TE, empty", te(""), &[400], NONE),
        ("a space before TE's colon", post("Transfer-Encoding : chunked\r\n", CHUNKED_END_AND_HIDDEN), &[400], NONE),
        ("a tab before the length's colon", post("Content-Length\t: 5\r\n", "hello"), &[400], NONE),
        ("TE on a folded line", post("X: y\r\n Transfer-Encoding: chunked\r\n", CHUNKED_END_AND_HIDDEN), &[400], NONE),
        ("TE with a bare CR before it", post("X: y\rTransfer-Encoding: chunked\r\n", CHUNKED_END_AND_HIDDEN), &[400], NONE),
        ("chunks in HTTP/1.0", text(&format!("POST /a HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{CHUNKED_END_AND_HIDDEN}")), &[400], NONE),
        ("two lengths", post(&format!("Content-Length: 0\r\nContent-Length: {hidden}\r\n"), HIDDEN), &[400], NONE),
        ("two equal lengths", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), &[201], HELLO),
        ("a list of equal lengths", length("5, 5"), &[400], NONE),
        ("a list of lengths", length("5, 0"), &[400], NONE),
        ("a length with a sign", length("+5"), &[400], NONE),
        ("a negative length", length("-1"), &[400], NONE),
        ("a length in hexadecimal", length("0x5"), &[400], NONE),
        ("a length with a space in it", length("5 5"), &[400], NONE),
        ("an empty length", length(""), &[400], NONE),
        ("a length in words", length("five"), &[400], NONE),
        ("a length beyond all numbers", length("99999999999999999999"), &[400], NONE),
        ("a length that is not a whole number", length("5.0"), &[400], NONE),
        ("no framing, so no body", post("", HIDDEN), &[201], EMPTY),
        ("a GET with a body", text("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"), &[201], &[("GET", "/a", "hello")]),
        ("more than the length, and garbage", text("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhellogarbage\r\n\r\n"), &[201, 400], HELLO),
        ("under a key less than the length", text("POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: short\r\nContent-Length: 9\r\n\r\nhello"), &[400], NONE),
    ])
    .await;
}

#[tokio::test]
async fn t92_chunks() {
    // Under a key the body is read whole before anything is sent.
    let keyed = |key: &str, body: &str| {
        post(&format!("Idempotency-Key: {key}\r\nTransfer-Encoding: chunked\r\n"), body)
    };
    let long = "x".repeat(20_000);
    let many = "1;a=b\r\nx\r\n".repeat(900);
    hold(&[
        ("with an extension", chunked("5;a=b\r\nhello\r\n0\r\n\r\n"), &[201], HELLO),
        (
            "with an extension in quotes",
            chunked("5;a=\"b;c\"\r\nhello\r\n0;x\r\n\r\n"),
            &[201],
            HELLO,
        ),
        ("with zeros in front", chunked("0005\r\nhello\r\n000\r\n\r\n"), &[201], HELLO),
        (
            "with trailers",
            chunked("5\r\nhello\r\n0\r\nIdempotency-Key: k\r\nX: y\r\n\r\n"),
            &[201],
            HELLO,
        ),
        ("no number", keyed("c1", "g\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("a sign", keyed("c2", "+5\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("a negative one", keyed("c3", "-5\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("with 0x", keyed("c4", "0x5\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        (
            "beyond all numbers",
            keyed("c5", "fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
            &[400],
            NONE,
        ),
        ("an empty one", keyed("c6", "\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("without a line end behind it", keyed("c7", "5\r\nhello0\r\n\r\n"), &[400], NONE),
        ("longer than it says", keyed("c8", "3\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("a bare LF behind the size", keyed("c9", "5\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("a bare CR in an extension", keyed("c10", "5;a\rb\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        ("a bare LF in an extension", keyed("c11", "5;a\nb\r\nhello\r\n0\r\n\r\n"), &[400], NONE),
        (
            "an extension without end",
            keyed("c12", &format!("5;{long}\r\nhello\r\n0\r\n\r\n")),
            &[400],
            NONE,
        ),
        (
            "a trailer without end",
            keyed("c13", &format!("5\r\nhello\r\n0\r\nX: {long}\r\n\r\n")),
            &[400],
            NONE,
        ),
        (
            "extensions in every chunk",
            keyed("c14", &format!("{many}0\r\n\r\n")),
            &[201],
            &[("POST", "/a", EXTENDED)],
        ),
        ("cut off", keyed("c15", "5\r\nhel"), &[400], NONE),
        ("cut off before the last one", keyed("c16", "5\r\nhello\r\n"), &[400], NONE),
        ("too large", keyed("c17", &format!("4e20\r\n{long}\r\n0\r\n\r\n")), &[413], NONE),
    ])
    .await;
}

/// The 900 bytes of [`t92_chunks`].
const EXTENDED: &str = match std::str::from_utf8(&[b'x'; 900]) {
    Ok(text) => text,
    Err(_) => "",
};

#[tokio::test]
async fn t92_t94_t97_heads() {
    let long = "x".repeat(70_000);
    hold(&[
        ("no host", text("GET /a HTTP/1.1\r\nConnection: close\r\n\r\n"), &[400], NONE),
        ("two hosts", get("/a", "Host: b\r\n"), &[400], NONE),
        ("the same host twice", get("/a", "Host: a\r\n"), &[400], NONE),
        ("no host in HTTP/1.0", text("GET /a HTTP/1.0\r\n\r\n"), &[201], READ),
        ("two hosts in HTTP/1.0", text("GET /a HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), &[400], NONE),
        ("HTTP/1.0 that goes on", text("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n"), &[201, 201], &[("GET", "/a", ""), ("GET", "/b", "")]),
        ("HTTP/1.0 that does not", text("GET /a HTTP/1.0\r\n\r\nGET /hidden HTTP/1.0\r\n\r\n"), &[201], READ),
        ("HTTP/0.9", text("GET /a\r\n"), &[400], NONE),
        ("HTTP/2.0 without its preface", text("GET /a HTTP/2.0\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("HTTP/1.2", text("GET /a HTTP/1.2\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("HTTP/11", text("GET /a HTTP/11\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("no version's number", text("GET /a HTTP/\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("two spaces", text("GET  /a HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("a tab", text("GET\t/a HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("a space in the path", text("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("a NUL in the path", text("GET /a\0 HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("a bare CR in the path", text("GET /a\r HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("no target", text("GET HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("empty lines in front", text("\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &[201], READ),
        ("bare LF throughout", text("GET /a HTTP/1.1\nHost: a\nConnection: close\n\n"), &[201], READ),
        ("a space in front of a header", get("/a", " X: y\r\n"), &[400], NONE),
        ("a folded header", get("/a", "X: y\r\n z\r\n"), &[400], NONE),
        ("a header folded with a tab", get("/a", "X: y\r\n\tz\r\n"), &[400], NONE),
        ("a header without a colon", get("/a", "X y\r\n"), &[400], NONE),
        ("a header without a name", get("/a", ": y\r\n"), &[400], NONE),
        ("a name with a space", get("/a", "X Y: z\r\n"), &[400], NONE),
        ("a name with brackets", get("/a", "X(y): z\r\n"), &[400], NONE),
        ("a NUL in a value", get("/a", "X: y\0z\r\n"), &[400], NONE),
        ("a bare CR in a value", get("/a", "X: y\rz\r\n"), &[400], NONE),
        ("an escape in a value", get("/a", "X: y\x1b[2J\r\n"), &[400], NONE),
        ("a long header", get("/a", &format!("X: {long}\r\n")), &[431], NONE),
        ("129 headers", get("/a", &"X: y\r\n".repeat(127)), &[431], NONE),
        ("a long path", get(&format!("/{long}"), ""), &[431], NONE),
        ("a target with its host", get("http://other/a?b", ""), &[201], &[("GET", "/a?b", "")]),
        ("a target with a user", get("http://user:pass@other/a", ""), &[201], READ),
        ("a target of another scheme", get("ftp://other/a", ""), &[201], READ),
        ("a target without a path", get("http://other", ""), &[201], &[("GET", "/", "")]),
        ("a target that is a host", get("other", ""), &[400], NONE),
        ("a target that is a question", get("?a", ""), &[400], NONE),
        ("two slashes", get("//other/a", ""), &[201], &[("GET", "//other/a", "")]),
        ("a fragment", get("/a#b", ""), &[201], READ),
        ("every server", text("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &[400], NONE),
        ("CONNECT", text(&format!("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n{HIDDEN}")), &[400], NONE),
        ("CONNECT with a path", text(&format!("CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n{HIDDEN}")), &[400], NONE),
        ("TRACE", text("TRACE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &[201], &[("TRACE", "/a", "")]),
        ("a method in small letters", text("get /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &[201], &[("get", "/a", "")]),
        ("a method that is none", text("G(T /a HTTP/1.1\r\nHost: a\r\n\r\n"), &[400], NONE),
        ("an upgrade", text(&format!("GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n{HIDDEN}")), &[201], READ),
        ("an upgrade to HTTP/2", text("GET /a HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\r\n"), &[201], READ),
        ("the preface of HTTP/2, and no HTTP/2", text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n"), &[], NONE),
        ("Connection takes the length away", post("Connection: content-length\r\nContent-Length: 5\r\n", "hello"), &[201], HELLO),
        ("Expect", post("Expect: 100-continue\r\nContent-Length: 5\r\n", "hello"), &[201], HELLO),
        ("Expect something else", post("Expect: a-miracle\r\nContent-Length: 5\r\n", "hello"), &[201], HELLO),
        ("three at once", text("GET /a HTTP/1.1\r\nHost: a\r\n\r\nPOST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /c HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &[201, 201, 201], &[("GET", "/a", ""), ("POST", "/a", "hello"), ("GET", "/c", "")]),
        ("one behind the last", text(&format!("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n{HIDDEN}")), &[201], READ),
    ])
    .await;
}

/// What is sent on of a key: ours, made of it, in one line; and nothing where it is no key.
#[tokio::test]
async fn t25_t26_t95_t106_keys() {
    let keyed = |key: &str| {
        let mut bytes = b"POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\nIdempotency-Key: ".to_vec();
        bytes.extend(key.chars().map(|c| u8::try_from(c).unwrap()));
        bytes.extend_from_slice(b"\r\n\r\nhello");
        bytes
    };
    let expects = post("Expect: 100-continue\r\nIdempotency-Key: a,b\r\nContent-Length: 5\r\n", "");
    hold(&[
        ("a key", keyed("k-1"), &[201], HELLO),
        ("a tab within", keyed("k\t2"), &[400], NONE),
        ("a NUL", keyed("k\0"), &[400], NONE),
        ("a bare CR", keyed("k\rX-Injected: 1"), &[400], NONE),
        ("a bare LF, which ends the line", keyed("k-3\nX-Injected: 1"), &[201], HELLO),
        ("a folded one", keyed("k\r\n X-Injected: 1"), &[400], NONE),
        ("a line behind it", keyed("k-4\r\nX-Injected: 1"), &[201], HELLO),
        ("a second one behind it", keyed("k\r\nIdempotency-Key: l"), &[400], NONE),
        ("an escape", keyed("k\x1b[2J"), &[400], NONE),
        ("a delete", keyed("k\x7f"), &[400], NONE),
        ("no ASCII", keyed("k\u{ff}"), &[400], NONE),
        ("quoted, with a line end", keyed("\"k\r\n\""), &[400], NONE),
        ("early", post("Early-Data: 1\r\nIdempotency-Key: k-5\r\nContent-Length: 5\r\n", "hello"), &[425], NONE),
        ("not early", post("Idempotency-Key: k-5\r\nContent-Length: 5\r\n", "hello"), &[201], HELLO),
        ("bad, and waits to be asked for its body", expects, &[400], NONE),
        ("named away by Connection", post("Connection: idempotency-key\r\nIdempotency-Key: k-1\r\nContent-Length: 5\r\n", "hello"), &[201], NONE),
        ("a replay, and one behind it", text("POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k-1\r\nContent-Length: 5\r\n\r\nhelloGET /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &[201, 201], &[("GET", "/b", "")]),
    ])
    .await;
}

#[tokio::test]
async fn t25_a_key_is_sent_on_in_one_line_of_our_own() {
    let backend = Backend::playing(|_, number| Reply::Bytes(created(number))).await;
    let world = World::with(Kind::Sqlite, backend, "").await;
    for key in [
        "plain",
        "\"quoted\"",
        "\"a b\"",
        "\"a\\\"b\"",
        "'; drop table x;--".trim_end_matches("--"),
        "%00",
        "../../etc",
        "<script>",
    ] {
        let key_line = format!("Idempotency-Key: {key}\r\nContent-Length: 5\r\n");
        exchange(world.gateway.address, &post(&key_line, "hello")).await;
    }
    for seen in world.backend.seen() {
        is_clean(&seen);
        let key = seen.one("idempotency-key").unwrap();
        let is_ours =
            key.len() == 36 && key.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        assert!(is_ours, "{key}");
    }
    assert!(world.backend.effects() >= 6, "{}", world.backend.effects());
}
