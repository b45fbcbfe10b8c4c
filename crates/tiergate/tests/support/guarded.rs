//! A gateway whose rules lead to one class, `high`, and a count of who got there.

use super::answer::Answer;
use super::client::Client;
use super::gateway::{Gateway, Policy};
use super::origin::Origin;

/// A gateway with one rule. A request that it matches has class, importance and score.
#[derive(Debug)]
pub struct Guarded {
    pub gateway: Gateway,
    _origin: Origin,
}

impl Guarded {
    /// `conditions`: of the rule. `policy`: whatever else it needs.
    pub fn by(conditions: &str, policy: Policy) -> Self {
        let rule =
            format!("[[rule]]\n{conditions}\nclass = \"high\"\nimportance = 255\nscore = 1000\n");
        Self::with(&rule, policy)
    }

    /// The same with any tables.
    pub fn with(tables: &str, policy: Policy) -> Self {
        let origin = Origin::echo();
        let gateway = Gateway::start(&Policy {
            servers: vec![origin.server()],
            origin: "slots = 1000".into(),
            tables: format!(
                "[[class]]\nname = \"high\"\n[[class]]\nname = \"low\"\n{}\n{tables}",
                policy.tables
            ),
            ..policy
        });
        Guarded { gateway, _origin: origin }
    }

    /// Requests of class `high` so far.
    pub fn high(&self) -> u64 {
        self.gateway.number("/classes/0/arrived")
    }

    /// Sends these bytes on a connection of their own: how they were answered, `None` if not at all.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> Option<Answer> {
        let mut client = self.gateway.client();
        client.send_anyway(bytes.as_ref());
        let answer = client.try_answer(false).ok()?;
        if answer.closes() {
            // What came behind is not served any more; had it been, it would be counted by now.
            client.rest();
        }
        Some(answer)
    }

    /// Asserts that the request has what the rule asks for.
    pub fn good(&self, request: impl AsRef<[u8]>) {
        let (before, request) = (self.high(), request.as_ref());
        let status = self.send(request).map(|answer| answer.status);
        let text = request.escape_ascii();
        assert_eq!(status, Some(200), "{text}");
        assert_eq!(self.high(), before + 1, "it has what the rule asks for: {text}");
    }

    /// Asserts that the request, served or not, has not.
    pub fn forged(&self, request: impl AsRef<[u8]>) {
        let (before, request) = (self.high(), request.as_ref());
        let answer = self.send(request);
        let text = request.escape_ascii();
        assert_eq!(self.high(), before, "forged: {text}");
        let status = answer.map(|answer| answer.status);
        assert!(matches!(status, None | Some(200 | 400 | 501)), "{status:?}: {text}");
    }
}

/// A GET of a target, with further lines, each ending in CRLF.
pub fn get(target: &str, lines: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n")
}

/// A POST with a body and its length.
pub fn post(target: &str, lines: &str, body: &str) -> String {
    let len = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len}\r\n{lines}\r\n{body}")
}

/// Sends requests at once on one connection: the statuses of their answers.
pub fn connection(client: &mut Client, requests: &[String]) -> Vec<u16> {
    client.send(requests.concat());
    requests.iter().map(|_| client.answer().status).collect()
}
