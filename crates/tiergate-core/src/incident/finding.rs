//! One thing that stands out, and its words.

use std::fmt;

/// Names of a list that are said; of the others, how many.
const NAMED_MAX: usize = 3;

/// How soon somebody has to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing to do.
    #[default]
    Calm,
    /// Tiergate copes, or something is about to be short.
    Watch,
    /// Requests fail that must not.
    Act,
}

impl Urgency {
    /// Its name in the JSON form.
    pub const fn name(self) -> &'static str {
        match self {
            Urgency::Calm => "calm",
            Urgency::Watch => "watch",
            Urgency::Act => "act",
        }
    }
}

/// What stands out. Shares are 0.0 to 1.0. A pool's name is empty for the default one.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It does not listen yet.
    Starting,
    /// It will soon take no new requests.
    Leaving,
    /// It takes no new requests, and so many are in progress.
    Draining(u64),
    /// The policy is not carried out.
    ObservesOnly,
    /// No server of the pool is usable.
    OriginDown(String),
    /// Of so many servers of a pool, some get no requests.
    ServersDown {
        /// The pool.
        pool: String,
        /// Servers that get no requests.
        down: Vec<String>,
        /// How many servers there are.
        of: u32,
    },
    /// Requests of the pool end without an answer, or by an error.
    Failing {
        /// The pool.
        pool: String,
        /// The part of the requests that had a slot.
        share: f64,
    },
    /// All slots of the pool are in use, and requests wait or are refused for it.
    Saturated(String),
    /// Requests are refused for want of capacity: classes with the part of their requests.
    Shedding(Vec<(String, f64)>),
    /// Policers refuse requests, or their clients are blocked: classes with the part of their requests.
    Policing(Vec<(String, f64)>),
    /// Clients leave the queue: classes with the part of their requests.
    LeavingQueue(Vec<(String, f64)>),
    /// The link carries no more.
    LinkFull(f64),
    /// One client gets most of the refusals.
    Flood {
        /// Its address.
        client: String,
        /// Its part of the refusals.
        share: f64,
    },
    /// Client connections come to their bound.
    Connections(f64),
    /// File descriptors come to their bound.
    Descriptors(f64),
    /// Sensors say nothing.
    SilentSensors(Vec<String>),
    /// The last reload was rejected.
    ReloadRejected,
    /// A certificate expires in so many seconds, or has expired.
    Certificate(i64),
    /// How the most important class with requests fares.
    Served {
        /// The class.
        class: String,
        /// The part of its requests that were served.
        share: f64,
    },
    /// So many requests are in progress, and none has ended lately.
    NoneEnded(u64),
    /// Nothing stands out.
    Healthy,
    /// No request came.
    Idle,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Starting => f.write_str("starting, not listening yet"),
            Finding::Leaving => f.write_str("leaving: will soon take no new requests"),
            Finding::Draining(0) => f.write_str("draining: takes no new requests"),
            Finding::Draining(left) => {
                write!(f, "draining: takes no new requests, {left} in progress")
            }
            Finding::ObservesOnly => f.write_str("observing only, nothing is refused"),
            Finding::OriginDown(pool) => write!(f, "{} down, no server is usable", origin(pool)),
            Finding::ServersDown { pool, down, of } => {
                write!(f, "{} of {of} servers", down.len())?;
                if !pool.is_empty() {
                    write!(f, " of pool {pool}")?;
                }
                write!(f, " down ({})", listed(down.iter().cloned()))
            }
            Finding::Failing { pool, share } => {
                write!(f, "{} fails {} of requests", origin(pool), percent(*share))
            }
            Finding::Saturated(pool) => write!(f, "{} saturated", origin(pool)),
            Finding::Shedding(classes) => write!(f, "shedding {}", parts(classes)),
            Finding::Policing(classes) => write!(f, "policers refuse {}", parts(classes)),
            Finding::LeavingQueue(classes) => {
                write!(f, "clients of {} leave the queue", parts(classes))
            }
            Finding::LinkFull(share) => write!(f, "link full ({})", percent(*share)),
            Finding::Flood { client, share } => {
                write!(f, "{} of refusals are of client {client}", percent(*share))
            }
            Finding::Connections(share) => {
                write!(f, "{} of client connections in use", percent(*share))
            }
            Finding::Descriptors(share) => {
                write!(f, "{} of file descriptors in use", percent(*share))
            }
            Finding::SilentSensors(names) if names.len() == 1 => {
                write!(f, "sensor {} is silent", names[0])
            }
            Finding::SilentSensors(names) => {
                write!(f, "sensors {} are silent", listed(names.iter().cloned()))
            }
            Finding::ReloadRejected => f.write_str("the last reload was rejected"),
            Finding::Certificate(seconds) if *seconds <= 0 => {
                f.write_str("a certificate has expired")
            }
            Finding::Certificate(seconds) => {
                write!(f, "a certificate expires in {}", time(*seconds))
            }
            Finding::Served { class, share } => write!(f, "{class} {} served", percent(*share)),
            Finding::NoneEnded(pending) => {
                write!(f, "no request has ended lately, {pending} in progress")
            }
            Finding::Healthy => f.write_str("healthy"),
            Finding::Idle => f.write_str("no requests"),
        }
    }
}

fn origin(pool: &str) -> String {
    match pool {
        "" => "origin".to_owned(),
        pool => format!("pool {pool}"),
    }
}

/// `98 % of prefetch, 40 % of browse and 2 more`.
fn parts(classes: &[(String, f64)]) -> String {
    listed(classes.iter().map(|(class, share)| format!("{} of {class}", percent(*share))))
}

/// The first names, and how many more there are.
fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let len = names.len();
    let named: Vec<String> = names.take(NAMED_MAX).collect();
    match (len - named.len(), named.as_slice()) {
        (0, [all @ .., last]) if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        (0, all) => all.join(", "),
        (more, all) => format!("{} and {more} more", all.join(", ")),
    }
}

/// A share as a percentage that is 0 or 100 only if the share is nothing or all.
fn percent(share: f64) -> String {
    let percent = share.clamp(0.0, 1.0) * 100.0;
    match percent {
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 1.0 => "under 1 %".to_owned(),
        p if p >= 100.0 => "100 %".to_owned(),
        p if p >= 99.0 => format!("{:.1} %", p.min(99.9)),
        p => format!("{p:.0} %"),
    }
}

/// A time ahead, in hours or days, rounded down.
fn time(seconds: i64) -> String {
    match seconds / 3_600 {
        0 => "less than an hour".to_owned(),
        1 => "1 hour".to_owned(),
        hours if hours < 48 => format!("{hours} hours"),
        hours => format!("{} days", hours / 24),
    }
}
