//! A gateway with HTTP/3, for tests.

#![allow(unreachable_pub)]

use crate::http3_client::{Answer, Http3};
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::gateway::{Gateway, Policy, certificate};
use crate::support::origin::Origin;
use std::time::Duration;
use tempfile::TempDir;

/// A gateway with HTTP/3, and the certificate that its clients trust.
pub struct World {
    pub gateway: Gateway,
    pub certificate: String,
    pub folder: TempDir,
}

impl World {
    pub fn start(policy: Policy) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (certificate, keys) = certificate(folder.path(), "first");
        let listener = format!("{keys}\nhttp3 = true\n{}", policy.listener);
        let gateway = Gateway::start(&Policy { listener, ..policy });
        eventually("it serves HTTP/3", || gateway.log().contains("listening for HTTP/3"));
        World { gateway, certificate, folder }
    }

    pub fn before(origin: &Origin) -> Self {
        World::start(Policy::of(&[origin.server()]))
    }

    pub async fn client(&self) -> Http3 {
        Http3::connect(self.gateway.address, &self.certificate).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        let mut client = self.client().await;
        let answer = client.get(path).await.expect("an answer");
        client.leave().await;
        answer
    }

    pub fn metrics(&self) -> String {
        let answer = Client::connect(self.gateway.admin).get_local("/metrics");
        assert_eq!(answer.status, 200);
        answer.text()
    }

    /// Connections and requests that broke the protocol.
    pub fn protocol_errors(&self) -> u64 {
        let metrics = self.metrics();
        let name = "tiergate_protocol_errors_total{protocol=\"HTTP/3.0\"} ";
        let value = metrics.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(|it| it.parse().ok()).expect("a number")
    }

    pub fn running(&self) -> u64 {
        self.gateway.number("/limit/running")
    }
}

/// Waits until `holds`, while the client's connections go on.
pub async fn comes(what: &str, mut holds: impl FnMut() -> bool) {
    while !holds() {
        println!("waits until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// One slot, held by a request; the other class has no queue.
pub const CLASSES: &str = "[[class]]\nname = \"premium\"\ndeadline = \"15s\"\n\
    [[class]]\nname = \"free\"\nqueue = 0\n[[rule]]\npath = \"/premium\"\nclass = \"premium\"\n";
