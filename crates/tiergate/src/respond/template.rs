//! One refusal, made once per configuration but for its numbers.

use crate::config::meant::{Policy, Refusal};
use crate::rate_limit::RateLimit;
use crate::trace::ids::ToldId;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use std::sync::Arc;
use tiergate_core::admit::retry;
use tiergate_core::gate::Refused;
use tiergate_wire::http1::put_decimal;

/// When a call that was refused may be tried again.
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// A refusal for one reason in one format: everything but the numbers of the one request.
#[derive(Debug)]
pub struct Template {
    /// The status.
    pub status: u16,
    /// The first line.
    pub(super) start: Vec<u8>,
    /// Whether a rule says what the client is told: then it is told, even where others are reset.
    pub is_said: bool,
    /// Whether the client may come again, after some seconds.
    pub(super) retries: bool,
    /// Whether that is said as gRPC does, too.
    pub(super) is_call: bool,
    /// The lines that never change.
    pub(super) lines: Vec<u8>,
    /// The same for HTTP/2.
    pub(super) fields: HeaderMap,
    pub(super) body: Body,
}

/// A body, and where in it the seconds stand.
#[derive(Debug)]
pub(super) enum Body {
    /// Nowhere: the operator's page.
    Fixed(Arc<str>),
    /// Between these two.
    Around(String, String),
}

/// What a refusal says of the one request.
#[derive(Clone, Copy, Debug)]
pub struct Advice<'c> {
    /// Seconds after which the client may come again.
    pub seconds: u64,
    /// The policer, if clients are told of it.
    pub limit: Option<RateLimit<'c>>,
    /// What the request is known by.
    pub id: Option<ToldId<'c>>,
}

impl<'c> Advice<'c> {
    /// What the client is told of this refusal; the seconds differ from client to client.
    pub fn of(policy: &'c Policy, refused: &Refused) -> Self {
        let Refusal { retry_after: min, retry_after_max: max, .. } = policy.refusal;
        let limit = RateLimit::of(policy, refused.policer.as_ref());
        // Two fields that a client reads say the same.
        let seconds = limit.as_ref().and_then(RateLimit::seconds_to_wait).map_or_else(
            || retry::seconds(refused.wait, retry::Bounds { min, max }, fastrand::u64(..)),
            |seconds| seconds.max(retry::rounded_up(min)),
        );
        Advice { seconds, limit, id: None }
    }
}

impl Template {
    /// Appends the answer as HTTP/1.1 has it, for a connection that stays open or one that closes. What
    /// is returned of the body is still to be sent behind it: a page of the operator's, which may be
    /// long, is not copied.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        told: &Advice<'_>,
        keep: bool,
        head_only: bool,
    ) -> &[u8] {
        out.extend_from_slice(&self.start);
        if self.retries {
            out.extend_from_slice(b"retry-after: ");
            put_decimal(out, told.seconds);
            out.extend_from_slice(b"\r\n");
            if self.is_call {
                out.extend_from_slice(b"grpc-retry-pushback-ms: ");
                put_decimal(out, told.seconds * 1000);
                out.extend_from_slice(b"\r\n");
            }
        }
        out.extend_from_slice(&self.lines);
        if let Some(limit) = &told.limit {
            out.extend_from_slice(b"ratelimit-policy: ");
            limit.put_policy(out);
            out.extend_from_slice(b"\r\nratelimit: ");
            limit.put_state(out);
            out.extend_from_slice(b"\r\n");
        }
        told.id.iter().for_each(|id| id.put_line(out));
        let len = self.body_len(told);
        out.extend_from_slice(b"content-length: ");
        put_decimal(out, len as u64);
        out.extend_from_slice(if keep { b"\r\n\r\n" } else { b"\r\nconnection: close\r\n\r\n" });
        if let Body::Around(before, after) = &self.body
            && !head_only
        {
            out.extend_from_slice(before.as_bytes());
            put_decimal(out, told.seconds);
            out.extend_from_slice(after.as_bytes());
        }
        self.uncopied_body(head_only)
    }

    /// Bytes of the body, as it is sent to who does not ask for the head only.
    pub fn body_len(&self, told: &Advice<'_>) -> usize {
        match &self.body {
            Body::Fixed(page) => page.len(),
            Body::Around(before, after) => {
                let digits = told.seconds.checked_ilog10().unwrap_or(0) as usize + 1;
                before.len() + digits + after.len()
            }
        }
    }

    /// What [`Template::write`] leaves to be sent behind it.
    pub fn uncopied_body(&self, head_only: bool) -> &[u8] {
        match &self.body {
            Body::Fixed(page) if !head_only => page.as_bytes(),
            _ => b"",
        }
    }

    /// The fields and the body, for HTTP/2.
    pub fn parts(&self, told: &Advice<'_>) -> (HeaderMap, Arc<str>) {
        let body = match &self.body {
            Body::Fixed(page) => page.clone(),
            Body::Around(before, after) => format!("{before}{}{after}", told.seconds).into(),
        };
        let mut fields = self.fields.clone();
        if self.retries {
            fields.insert(RETRY_AFTER, HeaderValue::from(told.seconds));
            if self.is_call {
                fields.insert(GRPC_PUSHBACK, HeaderValue::from(told.seconds * 1000));
            }
        }
        if !self.is_call {
            fields.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        if let Some(limit) = &told.limit {
            limit.append_to(&mut fields);
        }
        told.id.iter().for_each(|id| id.put_in(&mut fields));
        (fields, body)
    }
}
