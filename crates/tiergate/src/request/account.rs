//! Accounting: every request is counted, and logged, once, at its end.

use super::facts::RequestFacts;
use super::limits;
use super::meter;
use super::quality::Quality;
use super::record::Record;
use crate::client::seam::Client;
use crate::clock;
use crate::observe::access_log::{Buffer as LogBuffer, Entry, Log, Verdict};
use crate::observe::refusals::Refusal;
use crate::observed::{ObservedRequest, ObservedVerdict};
use crate::shared::{Config, Shared};
use crate::trace::ids::RequestIds;
use crate::trace::span::{Course, spans};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tiergate_core::gate::Arrival;
use tiergate_core::names::PoolId;
use tiergate_core::plan::RuleLabel;
use tiergate_core::reason::Reason;
use tiergate_core::request::Field;
use tiergate_core::stored::Instead;
use tiergate_core::time::Moment;
use tiergate_wire::http1::{FieldTable, Parsed, RequestHead, is_alike};

/// What the log says of the request itself.
struct LogFields<'a> {
    head: &'a RequestHead<'a>,
    fields: &'a [Field<'a>],
    received_bytes: u64,
    /// `None`: not measured.
    cpu: Option<Duration>,
    observed: Option<ObservedVerdict<'a>>,
}

impl LogFields<'_> {
    /// The value of a header field; empty: it is not there.
    fn value(&self, name: &[u8]) -> &[u8] {
        let field = self.fields.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map_or(&b""[..], |field| field.value)
    }

    /// The same, or the value of a field that a program behind CGI takes for it.
    fn value_alike(&self, name: &[u8]) -> &[u8] {
        let alike = || {
            self.fields.iter().find(|field| is_alike(field.name, name) && !field.value.is_empty())
        };
        match self.value(name) {
            b"" => alike().map_or(&b""[..], |field| field.value),
            value => value,
        }
    }
}

/// Counts a request; keeps it to be shown if it was refused, and logs it if there is a log.
pub(super) fn request<C: Client>(
    shared: &Shared,
    config: &Config,
    client: &C,
    facts: &RequestFacts,
    record: &Record,
) {
    let tally = shared.tally();
    tally.request(facts.protocol);
    if record.status > 0 {
        tally.response(record.status);
    }
    let took = record.reason.is_none().then(|| clock::now().since(record.arrived));
    tally.answers.count(facts.arrival.class, record.status, took);
    let received_bytes = client.received_len(facts);
    tally.sent_bytes.add(record.sent.bytes);
    tally.received_bytes.add(received_bytes);
    let cpu = meter::so_far();
    cpu.into_iter().for_each(|it| shared.counters.cpu.add(facts.arrival.class, it));
    let observed = facts.observed.as_deref();
    observed.into_iter().for_each(|it| it.ended(record));
    if let Some(reason) = record.reason {
        remember(shared, config, facts, client.request_line(), reason);
    }
    let trace = facts.ids.as_ref().and_then(|ids| ids.sampled());
    let traced = trace.zip(config.tracer.as_deref());
    let is_logged = shared.log.load().is_some();
    if !is_logged && traced.is_none() {
        return;
    }
    // The head is parsed again: only who logs or traces pays for it.
    let mut table = FieldTable::new();
    let limits = limits::of_request_heads(&config.policy.limits);
    if let Ok(Parsed::Complete(head)) = client.head(&limits, &mut table) {
        let (fields, observed) = (table.fields(), observed.map(ObservedRequest::verdict));
        let fields = LogFields { head: &head, fields, received_bytes, cpu, observed };
        with_entry(shared, config, facts, &fields, record, |entry| {
            if let Some((trace, tracer)) = traced {
                let is_secure = client.peer().secure;
                tracer.send(spans(entry, trace, course(record, is_secure)));
            }
            if is_logged {
                line(shared, entry);
            }
        });
    }
}

/// Keeps a refusal to be shown.
fn remember(
    shared: &Shared,
    config: &Config,
    facts: &RequestFacts,
    (method, target): (&[u8], &[u8]),
    reason: Reason,
) {
    shared.refusals.record(&Refusal {
        at: SystemTime::now(),
        class: class_name(config, &facts.arrival),
        rule: rule_label(config, &facts.arrival),
        reason,
        client: facts.client,
        method,
        path: &target[..memchr::memchr(b'?', target).unwrap_or(target.len())],
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

/// When the parts of a request were.
fn course(record: &Record, is_secure: bool) -> Course {
    let after = |moment: Option<Moment>| moment.map(|it| it.since(record.arrived));
    let (granted, origin_done) = (after(record.slot_since), after(record.origin_done));
    Course { granted, origin_done, origin_status: record.origin_status, is_secure }
}

/// Writes a line of the access log.
pub(super) fn line(shared: &Shared, entry: &Entry<'_>) {
    with_lines(shared, |lines| lines.record(entry));
}

/// Makes what the log and a trace say of a request.
fn with_entry(
    shared: &Shared,
    config: &Config,
    facts: &RequestFacts,
    fields: &LogFields<'_>,
    record: &Record,
    act: impl FnOnce(&Entry<'_>),
) {
    let (pool, plan) = (facts.arrival.pool, &config.policy.plan);
    let (ids, told) = (facts.ids.as_deref(), facts.told_id(&config.policy));
    let policer = record.policer.and_then(|id| plan.policer(id));
    let duration = clock::now().since(record.arrived);
    let level = Quality::of(plan, &facts.arrival).and_then(|it| it.text());
    let entry = Entry {
        time: SystemTime::now() - duration,
        client: facts.client,
        method: fields.head.method,
        target: fields.head.target,
        protocol: Some(facts.protocol),
        host: fields.head.host,
        status: record.status,
        sent_bytes: record.sent.bytes,
        body_bytes: record.sent.body,
        received_bytes: fields.received_bytes,
        duration,
        waited: record.waited,
        first_byte: record.first_byte,
        cpu: fields.cpu,
        class: Some(class_name(config, &facts.arrival)),
        resource: facts
            .arrival
            .resource
            .and_then(|id| plan.resource(id))
            .map(|it| it.name.as_str()),
        pool: if pool == PoolId::DEFAULT { None } else { plan.pool_name(pool) },
        level: level.as_deref(),
        observed: fields.observed,
        rule: rule_label(config, &facts.arrival),
        stored: record.stored,
        verdict: match (record.reason, record.waited) {
            _ if matches!(record.stored, Some(Instead::Wait | Instead::Refusal)) => Verdict::Stored,
            (Some(_), _) => Verdict::Refused,
            (None, Some(waited)) if !waited.is_zero() => Verdict::Queued,
            (None, Some(_)) => Verdict::Admitted,
            // Its body was not good, or did not come: it asked for no slot.
            (None, None) => Verdict::Bad,
        },
        reason: record.reason,
        policer: policer.map(|policer| policer.name.as_str()),
        end: record.end,
        server: record.server,
        cause: record.cause,
        slots: shared.door.slots(pool),
        user_agent: fields.value(b"user-agent"),
        referer: fields.value(b"referer"),
        request_id: told.map_or_else(|| fields.value(b"x-request-id"), |told| told.id),
        client_request_id: told
            .filter(|_| ids.is_some_and(RequestIds::is_replaced))
            .map_or(&[], |told| fields.value_alike(told.field().name)),
        traceparent: match ids.map_or(&[][..], RequestIds::traceparent) {
            [] => fields.value(b"traceparent"),
            ours => ours,
        },
    };
    act(&entry);
}

/// Hands this thread's lines on when they are old enough. Called at every timer tick.
pub(crate) fn tick(shared: &Shared) {
    with_lines(shared, |lines| lines.tick(Instant::now()));
}

/// Hands this thread's lines on; at the thread's end.
pub(crate) fn flush(shared: &Shared) {
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
