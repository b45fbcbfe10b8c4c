//! A client that speaks HTTP/3, by quinn and h3.

#![allow(unreachable_pub)]

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use h3_quinn::{BidiStream, OpenStreams};
use http::{HeaderMap, Request, Response};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// A stream of a request.
pub type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

/// A client, and one connection of it.
pub struct Http3 {
    pub endpoint: Endpoint,
    pub quic: Connection,
    pub send: SendRequest<OpenStreams, Bytes>,
    driver: tokio::task::JoinHandle<()>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: HeaderMap,
    pub body: Vec<u8>,
    pub trailers: Option<HeaderMap>,
}

/// TLS that trusts one certificate, in a PEM file.
pub fn trusting(certificate: &str, alpn: &str) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(certificate).expect("a certificate");
    roots.add(certificate).expect("a good one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    tls.enable_early_data = true;
    ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).expect("TLS 1.3")))
}

/// Where clients come from. Not the gateways' address: their ports are reserved for TCP only, so that a client's socket might
/// have the one that a gateway is to take for UDP.
pub const CLIENTS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A client's socket.
pub fn endpoint() -> Endpoint {
    Endpoint::client(SocketAddr::from((CLIENTS, 0))).expect("a free port")
}

/// A connection of QUIC alone.
pub async fn quic(endpoint: &Endpoint, to: SocketAddr, config: ClientConfig) -> Connection {
    try_quic(endpoint, to, config).await.expect("the gateway takes it")
}

pub async fn try_quic(
    endpoint: &Endpoint,
    to: SocketAddr,
    config: ClientConfig,
) -> Result<Connection, quinn::ConnectionError> {
    endpoint.connect_with(config, to, "example.test").expect("a good name").await
}

impl Http3 {
    pub async fn connect(to: SocketAddr, certificate: &str) -> Self {
        Self::connect_with(to, trusting(certificate, "h3")).await
    }

    pub async fn connect_with(to: SocketAddr, config: ClientConfig) -> Self {
        let endpoint = endpoint();
        let quic = quic(&endpoint, to, config).await;
        let mut builder = h3::client::builder();
        builder.max_field_section_size(100_000);
        let (mut connection, send) =
            builder.build(h3_quinn::Connection::new(quic.clone())).await.expect("HTTP/3");
        let driver = tokio::spawn(async move {
            connection.wait_idle().await;
        });
        Http3 { endpoint, quic, send, driver }
    }

    /// Closes the connection, and waits until that has been said.
    pub async fn leave(self) {
        self.quic.close(0x100_u32.into(), b"");
        self.endpoint.wait_idle().await;
    }

    /// Begins a request without a body; more may follow.
    pub async fn begin(&mut self, request: Request<()>) -> Result<Stream, StreamError> {
        self.send.send_request(request).await
    }

    pub async fn get(&mut self, path: &str) -> Result<Answer, StreamError> {
        let request = Request::get(format!("https://example.test{path}")).body(());
        let mut stream = self.begin(request.expect("a good one")).await?;
        stream.finish().await?;
        answer(&mut stream).await
    }

    pub async fn post(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<Answer, StreamError> {
        let mut request = Request::post(format!("https://example.test{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let stream = self.begin(request.body(()).expect("a good one")).await?;
        let (mut send, mut receive) = stream.split();
        let sent = async {
            for part in body.chunks(16 * 1024) {
                send.send_data(Bytes::copy_from_slice(part)).await?;
            }
            send.finish().await
        };
        let (_, answer) = tokio::join!(sent, answer(&mut receive));
        answer
    }
}

impl Drop for Http3 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The answer of a request that was sent.
pub async fn answer<S: h3::quic::RecvStream>(
    stream: &mut RequestStream<S, Bytes>,
) -> Result<Answer, StreamError> {
    let head: Response<()> = stream.recv_response().await?;
    let mut body = Vec::new();
    while let Some(mut part) = stream.recv_data().await? {
        body.extend_from_slice(&part.copy_to_bytes(part.remaining()));
    }
    let trailers = stream.recv_trailers().await?;
    let status = head.status().as_u16();
    Ok(Answer { status, fields: head.headers().clone(), body, trailers })
}

/// Writes these bytes to a request stream of its own, and gives what comes back; `ends`: nothing follows.
pub async fn raw(
    connection: &quinn::Connection,
    bytes: &[u8],
    ends: bool,
) -> Result<Vec<u8>, String> {
    let (mut send, mut receive) = connection.open_bi().await.map_err(|it| it.to_string())?;
    // The gateway may have had enough.
    let _ = send.write_all(bytes).await;
    if ends {
        let _ = send.finish();
    }
    receive.read_to_end(1 << 20).await.map_err(|it| format!("{it:?}"))
}

/// A frame with a header block of literal fields.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0, 0];
    for (name, value) in fields {
        // A name of three bits, then more; a value of seven (RFC 9204 §4.5.6).
        put_number(&mut block, 0x20, 3, name.len());
        block.extend_from_slice(name.as_bytes());
        put_number(&mut block, 0, 7, value.len());
        block.extend_from_slice(value.as_bytes());
    }
    frame(1, &block)
}

fn put_number(out: &mut Vec<u8>, first: u8, bits: u32, number: usize) {
    let most = (1 << bits) - 1;
    if number < most {
        return out.push(first | number as u8);
    }
    out.push(first | most as u8);
    let mut rest = number - most;
    while rest >= 128 {
        out.push(rest as u8 | 128);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A frame.
pub fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = (1 << 31 | payload.len() as u32).to_be_bytes();
    [&[kind][..], &len, payload].concat()
}

/// The pseudo-header fields of a request.
pub const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "example.test"), (":path", "/raw")];
