//! A policy as written: what the keys are called, of what kind their values are, and nothing more.
//!
//! These definitions are the schema for editors too; the text above a key is what an editor shows.

use super::error::{Faults, Place};
use super::read::{At, Named, OneOrMany, Read, read_at, table, unknown, wrong};
use super::values::{
    Address, AddressOrNowhere, Connection, File, Format, HostText, MethodText, Network, Networks,
    PathText, ServerText, Share, Size, SlotsText, Time, Values,
};

table! {
    /// A policy of Tiergate: what is in front of which server, which requests matter most.
    struct Root {
        /// Where clients connect. Without any: 127.0.0.1:8080.
        listener: Vec<At<Listener>>,
        /// The server behind.
        #[schemars(required)]
        origin: Origin,
        /// Tiers of service, most important first. Without any there is one, called "default".
        class: Vec<At<Class>>,
        /// Which requests belong to which class; the first rule that matches decides.
        rule: Vec<At<Rule>>,
        /// The class of requests that no rule matches; by default the last, least important one.
        default_class: String,
        /// How sessions are known again. Without this table, no request belongs to one.
        session: Session,
        /// How a refusal looks.
        refusal: Refusal,
        /// Bounds on sizes and numbers.
        limits: Limits,
        /// Bounds on time.
        timeouts: Timeouts,
        /// Where requests are logged; without this table, nowhere.
        access_log: AccessLog,
        /// Address of metrics and status, or false for none. Default "127.0.0.1:9090".
        admin: AddressOrNowhere,
        /// Peers whose X-Forwarded-For, Forwarded and PROXY headers are believed. Default: none.
        trusted: Networks,
        /// Threads that serve requests. By default one for each processor.
        #[schemars(range(min = 1, max = 1024))]
        threads: u64,
        /// How requests and answers are passed on.
        forwarding: Forwarding,
    }
}

table! {
    /// A socket that clients connect to.
    struct Listener {
        /// Address and port.
        #[schemars(required)]
        address: Address,
        /// Certificates, for HTTPS.
        tls: Tls,
        /// Whether connections begin with a PROXY protocol header (v1 or v2). Needs `trusted`.
        /// Default false.
        proxy_protocol: bool,
        /// Whether HTTP/2 is offered. Default true.
        http2: bool,
    }
}

table! {
    /// Certificates: one by `certificate` and `key`, or several by `certificates`.
    struct Tls {
        /// PEM file of the certificate and its chain.
        certificate: File,
        /// PEM file of the private key.
        key: File,
        /// Several certificates, chosen by the name that the client asks for; the first is the default.
        certificates: Vec<At<Certificate>>,
    }
}

table! {
    /// A certificate and its key.
    struct Certificate {
        /// PEM file of the certificate and its chain.
        #[schemars(required)]
        certificate: File,
        /// PEM file of the private key.
        #[schemars(required)]
        key: File,
    }
}

table! {
    /// The server behind: one or several addresses that answer alike.
    struct Origin {
        /// Where the servers listen.
        #[schemars(required, length(min = 1, max = 64))]
        servers: Vec<At<ServerText>>,
        /// How many requests the origin works on at once: "adaptive" (the default) or a number.
        slots: SlotsText,
        /// Active health checks. Without this table, only failures of requests count.
        health: Health,
        /// Failures in a row after which a server is left out. Default 3.
        #[schemars(range(min = 1, max = 1000))]
        failures_max: u64,
        /// How long a failed server is left out before one request tries it again. Default "1s".
        retry_after: Time,
        /// Idle connections kept to each server, by each thread. Default 64.
        #[schemars(range(max = 65536))]
        idle_connections_max: u64,
    }
}

table! {
    /// How servers are asked whether they are well.
    struct Health {
        /// The path asked for by GET; 2xx and 3xx are healthy.
        #[schemars(required)]
        path: String,
        /// Time between two checks. Default "2s".
        interval: Time,
        /// Longest time that a check may take. Default "1s".
        timeout: Time,
        /// Failures in a row that make a server unhealthy. Default 3.
        #[schemars(range(min = 1, max = 1000))]
        fall: u64,
        /// Successes in a row that make it healthy again. Default 2.
        #[schemars(range(min = 1, max = 1000))]
        rise: u64,
    }
}

table! {
    /// A tier of service.
    struct Class {
        /// Its name in rules, logs and metrics.
        #[schemars(required, regex(pattern = "^[A-Za-z0-9_.-]{1,64}$"))]
        name: String,
        /// Longest time that a request waits for a slot; then it is refused. Default "2s".
        deadline: Time,
        /// Share of the slots that the class is sure of while it has requests waiting. Default "0%".
        minimum: Share,
        /// How many requests may wait at once; more are refused at once. Default 10000.
        #[schemars(range(max = 1_000_000))]
        queue: u64,
    }
}

table! {
    /// All conditions given must hold; of a list, one is enough.
    struct Rule {
        /// The path, without query, normalised. `*` is anything but `/` (at the end: anything),
        /// `**` anything, `?` one character.
        path: OneOrMany<PathText>,
        /// The host, without port: `example.com`, `*.example.com`.
        host: OneOrMany<HostText>,
        /// The method. Case matters.
        method: OneOrMany<MethodText>,
        /// Header fields by name: a pattern for the value, a list of patterns, or true for "present".
        header: Named<Values>,
        /// Cookies by name: a pattern for the value, a list of patterns, or true for "present".
        cookie: Named<Values>,
        /// The client's address or network.
        client: OneOrMany<Network>,
        /// The class of requests that match.
        class: String,
        /// Whether requests that match are always refused. Default false.
        refuse: bool,
        /// Longest time that such a request waits for a slot; by default its class's deadline.
        deadline: Time,
    }
}

table! {
    /// How sessions are known again: by the application's cookie or by a signed one of our own.
    struct Session {
        /// Name of the application's cookie, such as "JSESSIONID". Case matters.
        cookie: String,
        /// Whether Tiergate sets a cookie of its own, "tiergate_session". Default false.
        own: bool,
        /// File of the secrets that sign our own cookie, one a line, the one in force first; the same
        /// for all gateways of a site. Without it, sessions end with the process.
        secret: File,
        /// Without a request for so long, a session is over. Default "30m".
        idle: Time,
        /// After so long, a session is over in any case. Default "12h".
        lifetime: Time,
        /// Sessions that are kept; one more, and the one idle longest must go. Default 100000.
        #[schemars(range(min = 1, max = 10_000_000))]
        sessions_max: u64,
        /// Requests of one session at once that go before others. Default 32.
        #[schemars(range(min = 1, max = 1000))]
        at_once_max: u64,
    }
}

table! {
    /// How a refusal looks.
    struct Refusal {
        /// What is done with the connection: "keep" (the default), "close", or "reset" without an answer.
        connection: Connection,
        /// Time in `Retry-After`. Default "1s".
        retry_after: Time,
        /// Name of a response header that carries the reason. By default there is none.
        reason_header: String,
        /// HTML file shown instead of the built-in page.
        page_html: File,
    }
}

table! {
    /// Bounds on sizes and numbers.
    struct Limits {
        /// Bytes of a request's head. Default "32KiB".
        request_head_max: Size,
        /// Bytes of a request's target. Default "8KiB".
        target_len_max: Size,
        /// Header fields of a message. Default 100.
        #[schemars(range(min = 1, max = 1000))]
        fields_max: u64,
        /// Bytes of the head of an origin's answer. Default "64KiB".
        response_head_max: Size,
        /// Bytes of a request's body; 0, the default: no bound.
        request_body_max: Size,
        /// Client connections at once. Default 8000.
        #[schemars(range(min = 1, max = 10_000_000))]
        connections_max: u64,
        /// Streams at once on an HTTP/2 connection. Default 100.
        #[schemars(range(min = 1, max = 10_000))]
        http2_streams_max: u64,
        /// Upgraded connections (WebSocket) at once. Default 4000.
        #[schemars(range(max = 10_000_000))]
        tunnels_max: u64,
        /// Memory for slow clients, all together. Default "256MiB".
        buffers_max: Size,
    }
}

table! {
    /// Bounds on time.
    struct Timeouts {
        /// From a request's first byte to the end of its head. Default "10s".
        request_head: Time,
        /// Between two reads of a request's body. Default "30s".
        request_body: Time,
        /// A kept-alive client connection without a request. Default "60s".
        idle: Time,
        /// The handshake of TLS and the PROXY header. Default "10s".
        handshake: Time,
        /// Connecting to an origin server. Default "3s".
        connect: Time,
        /// From the whole request sent to the head of the answer. Default "60s".
        response_head: Time,
        /// Between two reads of an answer's body. Default "60s".
        response_body: Time,
        /// A write that the client does not take. Default "30s".
        write: Time,
        /// An idle connection kept to an origin server. Default "4s".
        origin_idle: Time,
        /// A tunnel on which nothing moves. Default "1h".
        tunnel_idle: Time,
        /// From SIGTERM to the end, at most. Default "30s".
        drain: Time,
    }
}

table! {
    /// The access log.
    struct AccessLog {
        /// The file; without it, standard output.
        path: File,
        /// "json" (the default) or "combined".
        format: Format,
    }
}

table! {
    /// How requests and answers are passed on.
    struct Forwarding {
        /// `X-Forwarded-For`, `-Proto`, `-Host`. Default true.
        x_forwarded: bool,
        /// `Forwarded` (RFC 7239). Default false.
        forwarded: bool,
        /// `Via`, in requests and answers. Default false.
        via: bool,
        /// Bytes of a body that are read before the request asks for its slot; 0: none. Default
        /// "64KiB".
        buffer_request: Size,
        /// Bytes of an answer that are read ahead of a slow client; 0: none. Default "256KiB".
        buffer_response: Size,
    }
}
