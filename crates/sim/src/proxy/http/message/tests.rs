//! Messages end where they end, however their bytes arrive.

use super::{Message, Side, first_line};
use sha2::{Digest, Sha256};

const ANSWER: Side = Side::Answer { is_to_head: false };

/// Feeds it in parts of `size` bytes and says how many belonged to the message.
fn fed(side: Side, sent: &[u8], size: usize) -> (Message, usize) {
    let mut message = Message::of(side);
    let mut used = 0;
    for part in sent.chunks(size) {
        used += message.take(part).unwrap();
        if message.is_whole() {
            break;
        }
    }
    (message, used)
}

#[test]
fn a_request_ends_with_its_length_and_the_next_one_begins() {
    let first =
        b"POST /payments?x=1 HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 5\r\n\r\nhello";
    let sent = [&first[..], b"GET / HTTP/1.1\r\n\r\n"].concat();
    for size in [1, 7, sent.len()] {
        let (message, used) = fed(Side::Request, &sent, size);
        assert!(message.is_whole(), "in parts of {size}");
        assert_eq!(used, first.len());
        let head = message.head().unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str()), ("POST", "/payments?x=1"));
        assert_eq!(head.header("IDEMPOTENCY-KEY").as_deref(), Some("k"));
        assert_eq!(message.body().kept, b"hello");
        let sha: [u8; 32] = message.body().sha.clone().finalize().into();
        assert_eq!(sha, <[u8; 32]>::from(Sha256::digest(b"hello")));
    }
}

#[test]
fn a_chunked_body_is_read_without_its_framing() {
    let sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: t\r\n\r\nHTTP";
    for size in [1, 5, sent.len()] {
        let (message, used) = fed(ANSWER, sent, size);
        assert!(message.is_whole(), "in parts of {size}");
        assert_eq!((used, &message.body().kept[..]), (sent.len() - 4, &b"abcde"[..]));
    }
}

#[test]
fn an_answer_without_a_length_ends_with_the_connection() {
    let (message, _) = fed(ANSWER, b"HTTP/1.1 200 OK\r\n\r\nab", 3);
    assert!(!message.is_whole() && message.ends_with_connection());
    assert_eq!(message.body().bytes, 2);
}

#[test]
fn some_answers_have_no_body_whatever_they_say() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert!(fed(Side::Answer { is_to_head: true }, head, 9).0.is_whole());
    assert!(fed(ANSWER, b"HTTP/1.1 204 No Content\r\n\r\n", 9).0.is_whole());
    let (interim, _) = fed(ANSWER, b"HTTP/1.1 100 Continue\r\n\r\n", 9);
    assert!(interim.is_whole() && interim.head().unwrap().is_interim());
}

#[test]
fn lost_framing_is_an_error_and_not_a_wait() {
    for (side, sent) in [
        (Side::Request, &b"\x16\x03\x01hello\r\n\r\n"[..]),
        (Side::Request, b"POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n"),
        (Side::Request, b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        (ANSWER, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"),
    ] {
        assert!(Message::of(side).take(sent).is_err(), "{}", String::from_utf8_lossy(sent));
    }
}

#[test]
fn a_first_line_is_enough_to_know_the_target() {
    assert_eq!(first_line(b"POST /a HT"), None);
    let known = first_line(b"POST /a HTTP/1.1\r\nHo");
    assert_eq!(known, Some(("POST".to_owned(), "/a".to_owned())));
}
