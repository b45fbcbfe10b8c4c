//! `[tracing]`: traces of requests.

use super::kind::{Choice, Parsed, Text};
use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{SHARE, TEXT, time_up_to, whole};
use http::Uri;
use serde_json::json;
use std::time::Duration;
use tiergate_core::trace::{Continues, Sampling};

/// `http://host:port/path`.
const ENDPOINT: Text<Collector> = Text {
    expected: "the address of a collector such as \"http://127.0.0.1:4318/v1/traces\"",
    schema: || json!({ "pattern": "^http://", "examples": ["http://127.0.0.1:4318/v1/traces"] }),
    parse: collector,
};

section! {
    /// Traces of requests: W3C `traceparent` is continued, and spans go to a collector by OTLP over HTTP.
    pub(super) struct TracingKeys {
        /// Where spans are sent: the URL of a collector that takes OTLP by HTTP, in protobuf. Without a path: `/v1/traces`.
        endpoint: Option<Collector> =
            ENDPOINT.required("write endpoint = \"http://127.0.0.1:4318/v1/traces\"");
        /// The name of this gateway in traces, `service.name`.
        service: String = TEXT.or("tiergate");
        /// The share of requests whose spans are exported, where no trusted peer has decided. Others carry `traceparent`, too, and say that
        /// they are not sampled.
        /// Why: enough to see where time goes, at a hundredth of the cost.
        sample: f64 = SHARE.or("1%");
        /// Whose traces are continued: `"trusted"`: those of peers in `trusted`, whose decision to sample holds; requests of others begin a new
        /// trace. `"all"`: everyone's; of those that are not trusted, `sample` is exported all the same.
        /// Why: any client can send the header, and a trace that anyone can write to shows little.
        continues: Continues = Choice(&[
            ("trusted", Continues::Trusted),
            ("all", Continues::All),
        ]).or("trusted");
        /// How many requests' spans wait to be sent; further ones are dropped, and counted.
        /// Why: a few seconds of a busy gateway's sampled requests, at most some MB.
        queue: usize = whole(1..=100_000).or(2048);
        /// How often spans are sent; sooner if 512 requests' have come.
        interval: Duration = time_up_to(60).or("1s");
        /// How long the collector may take. What it has not taken by then is dropped.
        timeout: Duration = time_up_to(60).or("10s");
    }
}

/// Where spans are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Host and port.
    pub authority: String,
    /// The path.
    pub path: String,
}

/// How requests are traced.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// Where spans are sent.
    pub collector: Collector,
    /// The name of this gateway.
    pub service: String,
    /// Which requests are sampled.
    pub sampling: Sampling,
    /// Requests whose spans wait to be sent, at most.
    pub queue_len_max: usize,
    /// How often spans are sent.
    pub interval: Duration,
    /// How long the collector may take.
    pub timeout: Duration,
}

/// How requests are traced.
pub(super) fn traces(At { value: raw, place }: At<TracingKeys>) -> Option<Tracing> {
    if raw.service.is_empty() || raw.service.len() > SERVICE_LEN_MAX {
        place.fault_at("service", format!("must have 1 to {SERVICE_LEN_MAX} bytes"));
    }
    Some(Tracing {
        collector: raw.endpoint?,
        service: raw.service,
        sampling: Sampling { share: raw.sample, continues: raw.continues },
        queue_len_max: raw.queue,
        interval: raw.interval,
        timeout: raw.timeout,
    })
}

/// Longest name of a gateway in traces.
const SERVICE_LEN_MAX: usize = 128;

fn collector(text: &str) -> Parsed<Collector> {
    let uri: Uri = text.parse().map_err(|_| None)?;
    if uri.scheme_str() == Some("https") {
        let why = "must begin with http://: run a collector beside the gateway, which sends them on by TLS";
        return Err(Some(why.to_owned()));
    }
    if uri.scheme_str() != Some("http") || uri.query().is_some() {
        return Err(None);
    }
    let authority = uri.authority().filter(|it| !it.as_str().contains('@')).ok_or(None)?;
    let port = match authority.as_str().strip_prefix(authority.host()) {
        Some("") => 4318,
        // What is no number, `http` takes for no port.
        Some(rest) => {
            let port = rest.strip_prefix(':').and_then(|port| port.parse().ok());
            port.filter(|port: &u16| *port > 0).ok_or(None)?
        }
        None => return Err(None),
    };
    let path = match uri.path() {
        "" | "/" => "/v1/traces",
        path => path,
    };
    let authority = format!("{}:{port}", authority.host());
    Ok(Collector { authority, path: path.to_owned() })
}

impl Tracing {
    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        let Collector { authority, path } = &self.collector;
        let whose = match self.sampling.continues {
            Continues::Trusted => "trusted peers' traces are continued",
            Continues::All => "everyone's traces are continued",
        };
        format!(
            "{}% to http://{authority}{path} as {}, every {}; {whose}",
            (self.sampling.share * 1e6).round() / 1e4,
            self.service,
            show::time(self.interval),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_plain_http_and_have_their_port_and_path() {
        let read = |text: &str| collector(text).map(|it| format!("{} {}", it.authority, it.path));
        assert_eq!(read("http://127.0.0.1:9/x"), Ok("127.0.0.1:9 /x".to_owned()));
        assert_eq!(read("http://otel.internal"), Ok("otel.internal:4318 /v1/traces".to_owned()));
        assert_eq!(read("http://[::1]:4318/"), Ok("[::1]:4318 /v1/traces".to_owned()));
        for wrong in [
            "127.0.0.1:4318",
            "grpc://a:4317",
            "http://",
            "http://a:b",
            "http://u@a/",
            "http://a/?b",
            "http://a:0/",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("https://a").is_err_and(|why| why.is_some_and(|it| it.contains("beside"))));
    }
}
