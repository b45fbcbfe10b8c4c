//! Accounting: every request is counted, and logged, once, at its end.

use crate::clock;
use crate::config::meant::Limits;
use crate::decide::Facts;
use crate::http1::{self, FieldTable, HeadLimits, Parsed, Version};
use crate::observe::access_log::{Buffer as LogBuffer, Entry, Log, Verdict};
use crate::observe::counters::Protocol;
use crate::observe::refusals::Refusal;
use crate::shared::{Config, Shared};
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::gate::Arrival;
use tiergate_core::origin::ServerId;
use tiergate_core::outcome::End;
use tiergate_core::plan::RuleLabel;
use tiergate_core::reason::Reason;
use tiergate_core::request::Field;
use tiergate_core::time::Moment;

/// What is noted about a request on its way.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// When its head was there.
    pub arrived: Moment,
    /// The status of the answer; 0 if none was sent.
    pub status: u16,
    /// Bytes of the answer's body and head, as far as they were written.
    pub sent_bytes: u64,
    /// Bytes of the request's body and head, as far as they were read.
    pub received_bytes: u64,
    /// How long it waited for its slot; `None`: it did not ask for one.
    pub waited: Option<Duration>,
    /// From the slot to the head of the answer.
    pub first_byte: Option<Duration>,
    /// How its slot ended.
    pub end: Option<End>,
    /// Why it was refused.
    pub reason: Option<Reason>,
    /// The policer that had no token for it.
    pub policer: Option<PolicerId>,
    /// The server that it was sent to.
    pub server: Option<ServerId>,
}

impl Record {
    /// Of a request whose head is there.
    pub fn new(arrived: Moment) -> Self {
        Record {
            arrived,
            status: 0,
            sent_bytes: 0,
            received_bytes: 0,
            waited: None,
            first_byte: None,
            end: None,
            reason: None,
            policer: None,
            server: None,
        }
    }
}

/// What the log says of the request itself.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The target as sent.
    pub target: &'a [u8],
    /// The host as sent.
    pub host: &'a [u8],
    /// The header fields.
    pub fields: &'a [Field<'a>],
}

/// Counts a request over HTTP/1.1 and logs it if there is a log; `bytes` begin with its head.
pub fn http1(shared: &Shared, config: &Config, facts: &Facts, bytes: &[u8], record: &Record) {
    let protocol = match facts.version {
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
    };
    count(shared, protocol, record);
    let told = Told {
        method: &bytes[facts.method.clone()],
        target: &bytes[facts.target.clone()],
        host: b"",
        fields: &[],
    };
    if record.reason.is_some() {
        remember(shared, config, facts.client, &facts.arrival, &told, record);
    }
    if shared.log.load().is_none() {
        return;
    }
    // The head is parsed again: only who logs pays for it.
    let mut table = FieldTable::new();
    let Limits { request_head_max, target_len_max, fields_max, .. } = config.policy.limits;
    let limits = HeadLimits { head_len_max: request_head_max, target_len_max, fields_max };
    if let Ok(Parsed::Complete(head)) = http1::parse_request(bytes, &mut table, &limits) {
        let told = Told { host: head.host, fields: table.fields(), ..told };
        log(shared, config, protocol, facts.client, &facts.arrival, &told, record);
    }
}

/// Counts a request.
pub fn count(shared: &Shared, protocol: Protocol, record: &Record) {
    let tally = shared.tally();
    tally.request(protocol);
    if record.status > 0 {
        tally.response(record.status);
    }
    tally.sent_bytes.add(record.sent_bytes);
    tally.received_bytes.add(record.received_bytes);
}

/// Keeps a refusal to be shown.
pub fn remember(
    shared: &Shared,
    config: &Config,
    client: IpAddr,
    arrival: &Arrival,
    told: &Told<'_>,
    record: &Record,
) {
    let Some(reason) = record.reason else { return };
    shared.refusals.record(&Refusal {
        at: SystemTime::now(),
        class: class_name(config, arrival),
        rule: rule_label(config, arrival),
        reason,
        client,
        method: told.method,
        path: told.target.split(|&byte| byte == b'?').next().unwrap_or_default(),
    });
}

fn class_name<'c>(config: &'c Config, arrival: &Arrival) -> &'c str {
    let class = config.policy.plan.class(arrival.class);
    class.map_or("", |class| &class.name)
}

/// The rule that decided a request's class, as people know it.
fn rule_label<'c>(config: &'c Config, arrival: &Arrival) -> Option<RuleLabel<'c>> {
    config.policy.plan.rule(arrival.rule?)
}

thread_local! {
    /// This thread's lines, and the log that they go to.
    static LINES: RefCell<Option<(Arc<Log>, LogBuffer)>> = const { RefCell::new(None) };
}

/// Writes a line of the access log, if there is one.
pub fn log(
    shared: &Shared,
    config: &Config,
    protocol: Protocol,
    client: IpAddr,
    arrival: &Arrival,
    told: &Told<'_>,
    record: &Record,
) {
    let value = |name: &[u8]| {
        let field = told.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map_or(&b""[..], |field| field.value)
    };
    let server = record.server.and_then(|id| config.origin.servers.get(id.index()));
    let policer = record.policer.and_then(|id| config.policy.plan.policer(id));
    let entry = Entry {
        time: SystemTime::now(),
        client,
        method: told.method,
        target: told.target,
        protocol,
        host: told.host,
        status: record.status,
        sent_bytes: record.sent_bytes,
        received_bytes: record.received_bytes,
        duration: clock::now().since(record.arrived),
        waited: record.waited,
        first_byte: record.first_byte,
        class: Some(class_name(config, arrival)),
        rule: rule_label(config, arrival),
        verdict: match (record.reason, record.waited) {
            (Some(_), _) => Verdict::Refused,
            (None, Some(waited)) if !waited.is_zero() => Verdict::Queued,
            (None, Some(_)) => Verdict::Admitted,
            // Its body was not good, or did not come: it asked for no slot.
            (None, None) => Verdict::Bad,
        },
        reason: record.reason,
        policer: policer.map(|policer| policer.name.as_str()),
        end: record.end,
        server: server.map(|server| server.name.as_str()),
        slots: shared.door.slots(),
        user_agent: value(b"user-agent"),
        referer: value(b"referer"),
        request_id: value(b"x-request-id"),
        traceparent: value(b"traceparent"),
    };
    with_lines(shared, |lines| lines.record(&entry));
}

/// Hands this thread's lines on when they are old enough. Called at every timer tick.
pub fn tick(shared: &Shared) {
    with_lines(shared, |lines| lines.tick(Instant::now()));
}

/// Hands this thread's lines on; at the thread's end.
pub fn flush(shared: &Shared) {
    with_lines(shared, LogBuffer::flush);
}

fn with_lines(shared: &Shared, act: impl FnOnce(&mut LogBuffer)) {
    LINES.with_borrow_mut(|lines| {
        let log = shared.log.load();
        let Some(log) = &*log else {
            *lines = None;
            return;
        };
        if lines.as_ref().is_none_or(|(mine, _)| !Arc::ptr_eq(mine, log)) {
            *lines = Some((Arc::clone(log), log.buffer()));
        }
        let (_, lines) = lines.as_mut().expect("just set");
        act(lines);
    });
}
