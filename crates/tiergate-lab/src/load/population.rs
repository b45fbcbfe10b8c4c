//! A population of clients: who asks for what, how often, and how it behaves.

use super::schedule::{Arrivals, Step};
use super::trace::Trace;
use crate::units;
use http::{HeaderName, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// Steps that a population may have.
const STEPS_MAX: usize = 1000;
/// Paths that a population may ask for.
const PATHS_MAX: usize = 100_000;
/// Requests a second of one step.
const RATE_MAX: f64 = 1e6;
/// Connections of a population: about as many as there are ports.
pub(super) const CONNECTIONS_MAX: usize = 60_000;
/// Requests of a session.
const REQUESTS_MAX: u32 = 10_000;
/// Attempts at a request.
const ATTEMPTS_MAX: u32 = 100;
/// Size of an upload.
const UPLOAD_BYTES_MAX: u64 = 1 << 30;
/// Any time of a plan, and the whole of it.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Clients that behave alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Population {
    /// What reports call it.
    pub(crate) name: String,
    /// What it does; with an upload, GET stands for POST.
    pub(crate) method: String,
    /// What it asks for, most popular first.
    pub(crate) paths: Vec<String>,
    /// Exponent of the popularity of paths: the path of rank `r` is asked for in proportion to
    /// `1 / r^zipf`. 0: all alike; web traffic: 0.6 to 1 (Breslau et al., INFOCOM 1999).
    pub(crate) zipf: f64,
    /// What it adds to each request. `Host` replaces that of the target.
    pub(crate) headers: Vec<(String, String)>,
    /// How often it asks (begins a session), one step after another.
    pub(crate) steps: Vec<Step>,
    /// How its requests (sessions) are spread.
    pub(crate) arrivals: Arrivals,
    /// How long a client waits for the whole answer to an attempt before it gives up and closes.
    #[serde(with = "units::text")]
    pub(crate) patience: Duration,
    /// Connections open at once; a request (session) that finds none free waits for one.
    pub(crate) connections_max: usize,
    /// Whether connections are used again; if not, each request has its own, and says so.
    pub(crate) keep_alive: bool,
    /// Addresses that new connections come from, in turn; none: the kernel chooses.
    pub(crate) addresses: Vec<IpAddr>,
    /// What one arrival is: a session, or (`None`) a single request.
    pub(crate) session: Option<Session>,
    /// What a client does about a request that was refused, broke or took too long.
    pub(crate) retry: Option<Retry>,
    /// What it sends with each request.
    pub(crate) upload: Option<Upload>,
    /// How the rate changes within and across steps; `None`: it does not.
    pub(crate) trace: Option<Trace>,
    /// How fast it reads answers at most; `None`: as they come.
    pub(crate) read_bytes_per_second: Option<u64>,
}

/// Requests of one client one after another, on a connection of its own. The first that does not
/// end well ends the session, uncompleted; one without a number of requests goes on all the same, until the
/// last step ends. Cookies that are set come back with its later requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    /// How many; `None`: as many as it gets answered until the last step ends, so that what it gets is measured by time.
    pub(crate) requests: Option<u32>,
    /// Mean of the exponentially distributed time from an answer to the next request.
    #[serde(default, with = "units::text")]
    pub(crate) think: Duration,
    /// A cookie that its later requests carry, as if the application had set it then.
    pub(crate) marked: Option<Marked>,
}

/// A cookie from some request on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marked {
    /// `name=value`.
    pub(crate) cookie: String,
    /// The first request that carries it; 0: all.
    pub(crate) from: u32,
}

/// Asking again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    /// Attempts at a request in all.
    pub(crate) attempts: u32,
    /// Mean time before asking again; each time is drawn from half to one and a half of it.
    #[serde(default, with = "units::text")]
    pub(crate) pause: Duration,
}

/// The body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upload {
    /// Its size.
    pub(crate) bytes: u64,
    /// How fast it is sent; 0: as fast as it is taken.
    pub(crate) bytes_per_second: u64,
}

impl Default for Population {
    fn default() -> Self {
        Self {
            name: "clients".into(),
            method: "GET".into(),
            paths: vec!["/".into()],
            zipf: 0.0,
            headers: Vec::new(),
            steps: Vec::new(),
            arrivals: Arrivals::Poisson,
            patience: Duration::from_secs(1),
            connections_max: 1024,
            keep_alive: true,
            addresses: Vec::new(),
            session: None,
            retry: None,
            upload: None,
            trace: None,
            read_bytes_per_second: None,
        }
    }
}

impl Population {
    /// From the beginning to the end of the last step.
    pub(crate) fn lasting(&self) -> Duration {
        self.steps.iter().map(|step| step.lasting).sum()
    }

    /// Whether it can be run; an error says what cannot.
    pub(crate) fn check(&self) -> Result<(), String> {
        let check = |holds: bool, what: &str| {
            holds.then_some(()).ok_or_else(|| format!("population {:?}: {what}", self.name))
        };
        check((1..=STEPS_MAX).contains(&self.steps.len()), "steps: 1 to 1000 are needed")?;
        for step in &self.steps {
            check(step.lasting <= TIME_MAX, "steps: at most a day in all")?;
            check((0.0..=RATE_MAX).contains(&step.rate), "rate: from 0 to 1000000 a second")?;
        }
        check(self.lasting() <= TIME_MAX, "steps: at most a day in all")?;
        check(Method::from_bytes(self.method.as_bytes()).is_ok(), "method: not a method")?;
        check((1..=PATHS_MAX).contains(&self.paths.len()), "paths: 1 to 100000 are needed")?;
        for path in &self.paths {
            check(is_path(path), &format!("paths: expected a path such as /buy, got {path:?}"))?;
        }
        for (name, value) in &self.headers {
            let expected = "a name and a value that do not frame the message";
            let wrong = format!("headers: expected {expected}, got {name:?}: {value:?}");
            check(is_header(name, value), &wrong)?;
        }
        check((0.0..=10.0).contains(&self.zipf), "zipf: from 0 to 10")?;
        let patience = !self.patience.is_zero() && self.patience <= TIME_MAX;
        check(patience, "patience: more than none, at most a day")?;
        let connections = (1..=CONNECTIONS_MAX).contains(&self.connections_max);
        check(connections, "connections_max: from 1 to 60000")?;
        check(self.read_bytes_per_second != Some(0), "read_bytes_per_second: at least 1")?;
        if let Some(session) = &self.session {
            let requests = session.requests.is_none_or(|it| (1..=REQUESTS_MAX).contains(&it));
            check(requests, "session.requests: from 1 to 10000")?;
            check(session.think <= TIME_MAX, "session.think: at most a day")?;
            let cookie = session.marked.as_ref().map_or("a=b", |marked| &marked.cookie);
            let is_cookie = cookie.contains('=') && is_header("Cookie", cookie);
            check(is_cookie, "session.marked.cookie: expected name=value")?;
        }
        if let Some(retry) = self.retry {
            check((1..=ATTEMPTS_MAX).contains(&retry.attempts), "retry.attempts: from 1 to 100")?;
            check(retry.pause <= TIME_MAX, "retry.pause: at most a day")?;
        }
        let bytes = self.upload.map_or(0, |upload| upload.bytes);
        check(bytes <= UPLOAD_BYTES_MAX, "upload.bytes: at most 1 GiB")?;
        self.trace.as_ref().map_or(Ok(()), Trace::check).or_else(|what| check(false, what))
    }
}

/// Whether it can stand in a request line as it is.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Whether it is a field that is not about the connection or the body, which are ours.
fn is_header(name: &str, value: &str) -> bool {
    const OURS: [&str; 3] = ["connection", "content-length", "transfer-encoding"];
    HeaderName::from_bytes(name.as_bytes()).is_ok_and(|name| !OURS.contains(&name.as_str()))
        && HeaderValue::from_str(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Population {
        let steps = vec![Step { rate: 0.0, lasting: Duration::from_secs(1) }];
        Population { steps, ..Population::default() }
    }

    #[test]
    fn a_pause_is_a_sound_population() {
        assert_eq!(sound().check(), Ok(()));
        let steps = vec![sound().steps[0]; STEPS_MAX];
        assert_eq!(Population { steps, ..sound() }.check(), Ok(()));
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let step = |rate, lasting| vec![Step { rate, lasting }];
        let second = Duration::from_secs(1);
        let header = |name: &str, value: &str| vec![(name.into(), value.into())];
        for (wrong, what) in [
            (Population { steps: vec![], ..sound() }, "steps"),
            (Population { steps: vec![sound().steps[0]; STEPS_MAX + 1], ..sound() }, "steps"),
            (Population { steps: step(1.0, Duration::MAX), ..sound() }, "steps"),
            (Population { steps: step(f64::NAN, second), ..sound() }, "rate"),
            (Population { steps: step(-1.0, second), ..sound() }, "rate"),
            (Population { method: "GE T".into(), ..sound() }, "method"),
            (Population { paths: vec![], ..sound() }, "paths"),
            (Population { paths: vec!["/a b".into()], ..sound() }, "paths"),
            (Population { paths: vec!["buy".into()], ..sound() }, "paths"),
            (Population { zipf: f64::INFINITY, ..sound() }, "zipf"),
            (Population { headers: header("Content-Length", "1"), ..sound() }, "headers"),
            (Population { headers: header("A", "b\r\nc: d"), ..sound() }, "headers"),
            (Population { patience: Duration::ZERO, ..sound() }, "patience"),
            (Population { connections_max: 0, ..sound() }, "connections_max"),
            (Population { read_bytes_per_second: Some(0), ..sound() }, "read_bytes"),
        ] {
            let error = wrong.check().unwrap_err();
            assert!(error.contains(what), "{what}: {error}");
        }
    }
}
