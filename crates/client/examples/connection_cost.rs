//! What a connection of its own costs a request, on loopback: `cargo run -p samekey-client --example
//! connection_cost`. It prints ratios of one run, without and with TLS: requests on connections of their own
//! to requests on one that is kept.
//!
//! Loopback has no distance. On a real way a fresh connection adds one round trip, and TLS another one.

// What measures may panic as tests do.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use samekey_client::address::{Base, Reach};
use samekey_client::transport::{
    Exchange, Outgoing, Protocol, Resolver, Transport, TransportOptions, Trust,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const REQUESTS: u32 = 500;
const BODY: &str = r#"{"order_id":"ORD-1","amount":1200,"currency":"EUR"}"#;
const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::main]
async fn main() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["pay.test".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();

    let plain = serve(None).await;
    let secure = serve(Some(TlsAcceptor::from(Arc::new(server)))).await;
    let transport = Transport::new(TransportOptions {
        protocol: Protocol::Http1,
        reach: Reach::PUBLIC.and_loopback().and_plain_http(),
        trust: Trust::Only(authority.pem().into_bytes()),
        resolver: Resolver::new(|_| Box::pin(async { Ok(vec![IpAddr::from([127, 0, 0, 1])]) })),
        ..TransportOptions::default()
    })
    .unwrap();

    let own = fresh(&transport, &format!("http://pay.test:{}", plain.port())).await;
    let kept = keep(TcpStream::connect(plain).await.unwrap()).await;
    println!("plain: own / kept = {:.1}", own.as_secs_f64() / kept.as_secs_f64());

    let own = fresh(&transport, &format!("https://pay.test:{}", secure.port())).await;
    let connector = TlsConnector::from(Arc::new(client));
    let stream = TcpStream::connect(secure).await.unwrap();
    let name = ServerName::try_from("pay.test").unwrap();
    let kept = keep(connector.connect(name, stream).await.unwrap()).await;
    println!("TLS: own / kept = {:.1}", own.as_secs_f64() / kept.as_secs_f64());
}

async fn fresh(transport: &Transport, url: &str) -> Duration {
    let base = Base::parse(url).unwrap();
    let began = Instant::now();
    for _ in 0..REQUESTS {
        let outgoing = Outgoing {
            method: http::Method::POST,
            target: base.target("/payments").unwrap(),
            headers: http::HeaderMap::new(),
            body: BODY.into(),
        };
        let exchange = transport.exchange(&base, outgoing, Duration::from_secs(5)).await;
        let Exchange::Answered(answer) = exchange else { panic!("{exchange:?}") };
        assert_eq!(answer.status, 201);
    }
    began.elapsed()
}

async fn keep(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Duration {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let began = Instant::now();
    for _ in 0..REQUESTS {
        let request = http::Request::post("/payments")
            .header("host", "pay.test")
            .body(Full::<bytes::Bytes>::from(BODY))
            .unwrap();
        sender.ready().await.unwrap();
        let answer = sender.send_request(request).await.unwrap();
        assert_eq!(answer.status(), 201);
        answer.into_body().collect().await.unwrap();
    }
    began.elapsed()
}

/// Answers every request that comes whole in one read, on as many connections as are made.
async fn serve(tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                match tls {
                    None => answer(stream).await,
                    Some(tls) => answer(tls.accept(stream).await.unwrap()).await,
                }
            });
        }
    });
    addr
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        bytes.extend_from_slice(&piece[..read]);
        if bytes.ends_with(BODY.as_bytes()) {
            bytes.clear();
            stream.write_all(ANSWER).await.unwrap();
        }
    }
}
