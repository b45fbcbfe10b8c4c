//! A policy as written: what the keys are called, of what kind their values are, and nothing more.
//!
//! These definitions are the schema for editors too; the text above a key is what an editor shows.

use super::condition::Conditions;
use super::error::{Faults, Place};
pub(super) use super::raw_clients::{Geo, Key, Names, Session, Shedding, Token};
pub(super) use super::raw_refusal::{Block, Refusal};
pub(super) use super::raw_scheduling::{Class, Codel, Scheduling, Site, Trigger};
use super::read::{At, Named, OneOrMany, Read, read_at, table, unknown, wrong};
use super::rule_values::{FlowText, PointsNumber};
use super::values::{
    Address, AddressOrNowhere, ClientText, File, Format, Networks, PerText, RateText, ServerText,
    Share, Size, SlotsText, Time,
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
        /// Who gets the next free slot. Without this table: the most important class.
        scheduling: Scheduling,
        /// Groups of classes that are served as one, such as hosts. Without any there is one.
        site: Vec<At<Site>>,
        /// Which requests belong to which class; the first rule that matches decides.
        rule: Vec<At<Rule>>,
        /// Token buckets that rules and classes name.
        policer: Vec<At<Policer>>,
        /// The policer that every request comes under; beyond it 503.
        police: Police,
        /// The class of requests that no rule matches; by default the last, least important one.
        default_class: String,
        /// What fairness is counted by where neither rule nor class says it: "client" (the default),
        /// "client/24", "cookie:NAME", "header:NAME", "subject".
        flow: FlowText,
        /// Priorities of clients and paths, whose sum is a request's score.
        score: Score,
        /// How sessions are known again. Without this table, no request belongs to one.
        session: Session,
        /// Who is turned away under overload, and loses the connection. Without this table, nobody.
        shedding: Shedding,
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
        /// Names of clients by reverse DNS, for rules that ask for them.
        names: Names,
        /// Keys that clients present in a header, and whom they stand for.
        key: Vec<At<Key>>,
        /// Signed tokens (JWT, HS256) that clients present, and whom they name.
        token: Token,
        /// Countries and autonomous systems of addresses.
        geo: Geo,
    }
}

table! {
    /// A socket that clients connect to.
    struct Listener {
        /// Address and port.
        #[schemars(required)]
        address: Address,
        /// What rules may call it; by default only by its address.
        #[schemars(regex(pattern = "^[A-Za-z0-9_.-]{1,64}$"))]
        name: String,
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
        /// PEM file of the authorities whose client certificates are believed. By default clients
        /// are not asked for one.
        client_ca: File,
        /// PEM files of revocation lists: one of each authority that signs clients' certificates. Needs
        /// `client_ca`. By default nobody's certificate is revoked.
        client_crl: OneOrMany<File>,
        /// Whether a client must have a certificate: "optional" (the default) or "required".
        client: ClientText,
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
        /// Retries, as a share of the requests of ten seconds. Default "20%".
        retry_budget: Share,
        /// Retries a second that are allowed however few requests there are. Default 10.
        #[schemars(range(max = 1000000))]
        retry_budget_min: u64,
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
    /// All conditions given must hold; of a list, one is enough.
    #[schemars(transform = super::condition::add_schemas)]
    struct Rule {
        /// How much it matters that such a request's session is kept, 0 least to 255 most.
        #[schemars(range(max = 255))]
        importance: u64,
        /// The score, instead of that of the tables.
        score: PointsNumber,
        /// What fairness inside the class is counted by; by default as the class says.
        flow: FlowText,
        /// The class of requests that match.
        class: String,
        /// Whether requests that match are always refused. Default false.
        refuse: bool,
        /// Longest time that such a request waits for a slot; by default its class's deadline.
        deadline: Time,
        /// The policer that such requests come under: its name, or its rate and burst; beyond it 429.
        police: Police,
        /// How many slots such a request takes. Default 1.
        #[schemars(range(min = 1, max = 10_000))]
        slots: u64,
        /// Header in which a `trusted` peer says how many milliseconds such a request may wait.
        deadline_header: String,
    }
    and conditions: Conditions,
    not yet "level", "resource"
}

table! {
    /// A token bucket: so many requests in a time, and so many at once.
    struct Policer {
        /// Its name in rules and metrics.
        #[schemars(required, regex(pattern = "^[A-Za-z0-9_.-]{1,64}$"))]
        name: String,
        /// How many requests in a time, on average: "60/s", "10/m", "10 per minute".
        #[schemars(required)]
        rate: RateText,
        /// How many at once after a pause; with shares, what the overflow bucket holds. Default 20.
        #[schemars(range(max = 1_000_000))]
        burst: u64,
        /// What has a bucket of its own: "rule", all requests together (the default), or each "flow".
        per: PerText,
        /// How many flows are told apart at once, 24 bytes each. Default 100000.
        #[schemars(range(min = 1, max = 10_000_000))]
        flows_max: u64,
        /// Whether clients are told what is left, by `RateLimit`. Default: with per = "flow".
        announce: bool,
        /// Parts of the tokens that classes are sure of.
        share: Vec<At<PolicerShare>>,
    }
}

table! {
    /// A class's part of a policer's tokens.
    struct PolicerShare {
        /// The class.
        #[schemars(required)]
        class: String,
        /// Its part of the tokens.
        #[schemars(required)]
        share: Share,
        /// How many tokens it keeps. By default as many as the overflow bucket.
        #[schemars(range(max = 1_000_000))]
        burst: u64,
    }
}

table! {
    /// A policer that only one rule or class uses.
    struct OwnPolicer {
        /// How many requests in a time, on average: "60/s", "10/m", "10 per minute".
        #[schemars(required)]
        rate: RateText,
        /// How many at once after a pause. Default 20.
        #[schemars(range(min = 1, max = 1_000_000))]
        burst: u64,
        /// What has a bucket of its own: "rule", all requests together (the default), or each "flow".
        per: PerText,
        /// How many flows are told apart at once, 24 bytes each. Default 100000.
        #[schemars(range(min = 1, max = 10_000_000))]
        flows_max: u64,
        /// Whether clients are told what is left, by `RateLimit`. Default: with per = "flow".
        announce: bool,
    }
}

/// The name of a policer, or the policer itself.
#[derive(Clone, Debug, schemars::JsonSchema)]
#[schemars(untagged, inline)]
pub(super) enum Police {
    /// The name of a policer.
    Named(String),
    /// A policer of its own.
    Own(Box<OwnPolicer>),
}

impl Read for Police {
    fn read(value: &toml::de::DeValue<'_>, place: &Place, faults: &mut Faults) -> Option<Self> {
        use toml::de::DeValue;
        match value {
            DeValue::String(_) => String::read(value, place, faults).map(Police::Named),
            DeValue::Table(_) => {
                OwnPolicer::read(value, place, faults).map(|own| Police::Own(Box::new(own)))
            }
            _ => {
                wrong(value, place, "a policer's name, or { rate = \"60/s\", burst = 20 }", faults)
            }
        }
    }
}

table! {
    /// A request's score: client_factor x the client's priority + path_factor x the path's priority.
    struct Score {
        /// What the client's priority is multiplied by. Default 1.
        client_factor: PointsNumber,
        /// What the path's priority is multiplied by. Default 1.
        path_factor: PointsNumber,
        /// Priorities by host, domain, address or network of the client; the most specific counts,
        /// without a match 1.
        client: Named<PointsNumber>,
        /// Priorities by file or (with `/` at the end) directory; the most specific counts, without a
        /// match 1.
        path: Named<PointsNumber>,
        /// Classes by score, for requests that no rule gives a class.
        band: Vec<At<Band>>,
    }
}

table! {
    /// The class of requests of at least a score.
    struct Band {
        /// The least score.
        #[schemars(required)]
        from: PointsNumber,
        /// The class.
        #[schemars(required)]
        class: String,
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
