//! TLS: what fails before the first byte of a request, and what is agreed on.

use crate::support::{ATTEMPT, DAY, QUICK, attempt, class, counterparty_with};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use samekey_client::address::Reach;
use samekey_client::retrying::{End, RetryingClient, RetryingOptions};
use samekey_client::transport::{Resolver, Trust};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

/// A server with a certificate for this name, and the authority behind it.
struct Secure {
    addr: SocketAddr,
    authority_pem: String,
    requests: Arc<AtomicUsize>,
    over_http2: Arc<AtomicUsize>,
}

async fn secure(name: &str, alpn: &[&str]) -> Secure {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let over_http2 = Arc::new(AtomicUsize::new(0));
    let (count, count_http2) = (Arc::clone(&requests), Arc::clone(&over_http2));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, count) = (acceptor.clone(), Arc::clone(&count));
            let count_http2 = Arc::clone(&count_http2);
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                    count_http2.fetch_add(1, Ordering::SeqCst);
                    return answer_http2(stream, &count).await;
                }
                let Ok(read) = stream.read(&mut [0; 16 * 1024]).await else { return };
                if read > 0 {
                    count.fetch_add(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
                    stream.write_all(answer).await.unwrap();
                    let _ = stream.shutdown().await;
                }
            });
        }
    });
    Secure { addr, authority_pem: authority.pem(), requests, over_http2 }
}

async fn answer_http2(
    stream: tokio_rustls::server::TlsStream<tokio::net::TcpStream>,
    count: &AtomicUsize,
) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        count.fetch_add(1, Ordering::SeqCst);
        let answer = http::Response::builder().status(201).body(()).unwrap();
        respond.send_response(answer, true).unwrap();
    }
}

/// A counterparty of that name on loopback, which trusts this authority.
fn trusting(secure: &Secure, host: &str, authority_pem: &str) -> samekey_client::HttpCounterparty {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority_pem).unwrap();
    let config = format!(
        "allow_networks = [\"127.0.0.0/8\"]\ntrust_file = {:?}",
        file.path().to_str().unwrap()
    );
    let resolver = Resolver::new(|_| Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }));
    let url = format!("https://{host}:{}", secure.addr.port());
    counterparty_with(&url, &config, resolver).unwrap()
}

#[tokio::test]
async fn a_valid_certificate_is_taken_over_both_protocols() {
    for alpn in [&["h2", "http/1.1"][..], &["http/1.1"], &[]] {
        let secure = secure("pay.test", alpn).await;
        let counterparty = trusting(&secure, "pay.test", &secure.authority_pem);
        assert_eq!(attempt(&counterparty, ATTEMPT).await, "done", "{alpn:?}");
        assert_eq!(secure.requests.load(Ordering::SeqCst), 1);
        let over_http2 = secure.over_http2.load(Ordering::SeqCst);
        assert_eq!(over_http2, usize::from(alpn.contains(&"h2")), "{alpn:?}");
    }
}

#[tokio::test]
async fn an_invalid_certificate_is_not_accepted_and_nothing_is_sent() {
    let secure_one = secure("pay.test", &[]).await;
    let stranger = secure("pay.test", &[]).await;
    for (host, authority) in
        [("other.test", &secure_one.authority_pem), ("pay.test", &stranger.authority_pem)]
    {
        let counterparty = trusting(&secure_one, host, authority);
        assert_eq!(attempt(&counterparty, ATTEMPT).await, "not accepted: not-accepted", "{host}");
    }
    assert_eq!(secure_one.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn the_retrying_client_tells_certificates_apart_too() {
    let secure = secure("localhost", &["h2", "http/1.1"]).await;
    let url = format!("https://localhost:{}/payments", secure.addr.port());
    let call = async |trust| {
        let options = RetryingOptions {
            limits: QUICK,
            key_life: DAY,
            trust,
            reach: Reach::PUBLIC.and_loopback(),
            ..RetryingOptions::default()
        };
        let client = RetryingClient::new(options).unwrap();
        client.execute(client.post(&url).body("{}").build().unwrap()).await.unwrap()
    };
    let called = call(Trust::Only(secure.authority_pem.clone().into_bytes())).await;
    assert!(matches!(called.end, End::Succeeded(_)), "{called}");
    let called = call(Trust::System).await;
    assert_eq!(class(&called.attempts[0].told.what), "not accepted: not-accepted");
    assert!(matches!(called.end, End::Failed(_)), "{called}");
    assert_eq!(secure.requests.load(Ordering::SeqCst), 1);
}

/// A peer that speaks no TLS, and one that says nothing.
#[tokio::test]
async fn tls_that_fails_or_hangs_was_not_sent() {
    let plain = crate::support::lab("{}").await;
    let silent = crate::support::lab(r#"{"connections":{"mode":"silent"}}"#).await;
    for addr in [plain.addr(), silent.addr()] {
        let resolver =
            Resolver::new(|_| Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) }));
        let config = "allow_networks = [\"127.0.0.0/8\"]\nconnect_time_max_ms = 300";
        let url = format!("https://pay.test:{}", addr.port());
        let counterparty = counterparty_with(&url, config, resolver).unwrap();
        let began = Instant::now();
        assert_eq!(attempt(&counterparty, ATTEMPT).await, "not sent");
        assert!(began.elapsed() < ATTEMPT / 2, "the handshake belongs to the connection's limit");
    }
}
