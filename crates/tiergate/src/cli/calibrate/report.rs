//! What came out, for people: a table of steps, and what follows from it.

use super::result::{Measured, Results};
use std::time::Duration;
use tiergate_core::adapt::Estimate;
use tiergate_core::calibrate::{Bottleneck, End, Resource, SATURATED, Step, Usage};
use tiergate_draw::number::{figure, percent, thousands};
use tiergate_draw::{Cell, Paint, Table, Tone};

/// The machine is idle while less of it is in use.
const IDLE: f64 = 0.25;
/// Answers that are under way for such a part of their time come through something narrow, or are sent slowly.
const TRANSFER: f64 = 0.7;
/// A load generator that uses such a part of the processors in use takes them from the origin.
const TAKEN: f64 = 0.2;

/// The columns that are shares, with their headings.
const SHARES: [(Resource, &str); 7] = [
    (Resource::Machine, "cpu"),
    (Resource::Origin, "origin"),
    (Resource::Thread, "thread"),
    (Resource::Link, "link"),
    (Resource::Disk, "disk"),
    (Resource::Memory, "memory"),
    (Resource::Generator, "client"),
];

/// The shares that were measured, by name.
pub(super) fn shares(usage: &Usage) -> Vec<(&'static str, String)> {
    let known = SHARES.iter().filter_map(|(it, name)| Some((*name, percent(usage.of(*it)?))));
    known.collect()
}

/// Everything, with colours if they are shown.
pub(super) fn text(results: &Results, paint: Paint) -> String {
    let mut text = String::new();
    for measured in &results.all {
        let title =
            format!("{}, {} B an answer", measured.target, thousands(measured.answer.bytes));
        text += &format!("\n{}\n{}", paint.tone(Tone::Strong, &title), table(measured, paint));
    }
    text += "\n";
    for line in lines(results) {
        let (head, rest) = line.split_once(": ").unwrap_or(("", &line));
        let tone = if head == "bottleneck" || head.starts_with("capacity") {
            Tone::Good
        } else {
            Tone::Plain
        };
        text += &match head.starts_with("warning") {
            true => format!("{}\n", paint.tone(Tone::Bad, &line)),
            false => format!("{}: {}\n", paint.tone(Tone::Strong, head), paint.tone(tone, rest)),
        };
    }
    text
}

fn table(measured: &Measured, paint: Paint) -> String {
    let steps = measured.ramp.steps();
    let has = |it: Resource| steps.iter().any(|step| step.used(it).is_some());
    let shown: Vec<_> = SHARES.into_iter().filter(|(it, _)| has(*it)).collect();
    let has_queue = steps.iter().any(|it| it.used(Resource::ListenQueue).unwrap_or(0.0) >= 0.5);
    let has_bad = steps.iter().any(|it| it.refused + it.failed > 0);
    let mut headings = vec!["at once", "answers/s", "±", "p50", "p99"];
    headings.extend(has_bad.then_some(["refused", "failed"]).into_iter().flatten());
    headings.extend(shown.iter().map(|it| it.1));
    headings.extend(has_queue.then_some("unaccepted"));
    let mut table = Table::new(headings);
    let knee = measured.capacity.as_ref().map(|it| it.knee.concurrency);
    for step in steps {
        let tone = if Some(step.concurrency) == knee { Tone::Good } else { Tone::Plain };
        let plain = |text: String| Cell(text, tone);
        let latency = |quantile| step.latency(quantile).map_or("-".to_owned(), milliseconds);
        let mut row = vec![
            plain(thousands(step.concurrency.into())),
            plain(figure(step.rate())),
            plain(figure(step.rate() * step.error())),
            plain(latency(0.5)),
            plain(latency(0.99)),
        ];
        if has_bad {
            row.extend([step.refused, step.failed].map(|it| plain(thousands(it))));
        }
        for (resource, _) in &shown {
            let used = step.used(*resource);
            let is_full = used >= Some(SATURATED) && *resource != Resource::Memory;
            let tone = if is_full { Tone::Bad } else { tone };
            row.push(Cell(used.map_or("-".to_owned(), percent), tone));
        }
        row.extend(
            has_queue.then(|| plain(figure(step.used(Resource::ListenQueue).unwrap_or(0.0)))),
        );
        table.row(row);
    }
    match table.is_empty() {
        true => "  no step was completed\n".to_owned(),
        false => table.render(paint),
    }
}

/// What follows, a line each, without colours: `capacity: …`.
pub(super) fn lines(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    for measured in &results.all {
        lines.push(capacity(measured, results.all.len() > 1));
        lines.extend(
            measured
                .capacity
                .is_some()
                .then(|| format!("bottleneck: {}", bottleneck(measured, results))),
        );
        lines.extend(doubts(measured));
    }
    lines.extend(costs(results));
    lines.extend(warnings(results));
    if !results.watched.missing.is_empty() {
        let missing = results.watched.missing.iter().map(|(name, why)| format!("{name} ({why})"));
        lines.push(format!("not measured: {}", missing.collect::<Vec<_>>().join("; ")));
    }
    lines
}

fn capacity(measured: &Measured, several: bool) -> String {
    let of = if several { format!(" of {}", measured.target.path) } else { String::new() };
    let Some(capacity) = &measured.capacity else {
        return format!("capacity{of}: not known");
    };
    let knee = &capacity.knee;
    let latency = |quantile| knee.latency(quantile).map_or("-".to_owned(), milliseconds);
    let rate = figure(capacity.rate.value);
    let at_knee = format!(
        "at {} at once (there p50 {}, p99 {})",
        requests(knee.concurrency),
        latency(0.5),
        latency(0.99)
    );
    match measured.is_capacity() {
        true => {
            let error = figure(2.0 * capacity.rate.error);
            format!("capacity{of}: {rate} answers/s (± {error}), {at_knee}")
        }
        false => format!("capacity{of}: at least {rate} answers/s, {at_knee}; {}", bound(measured)),
    }
}

fn requests(number: u32) -> String {
    format!("{} request{}", thousands(number.into()), if number == 1 { "" } else { "s" })
}

/// Why the capacity is not known.
fn bound(measured: &Measured) -> String {
    let last = requests(measured.ramp.concurrency().max(most(measured)));
    let failure = measured.failure.as_deref().unwrap_or("requests failed");
    if measured.finding.what == Bottleneck::Generator {
        return "the load generator could send no more".to_owned();
    }
    match measured.end {
        None => "interrupted".to_owned(),
        Some(End::Failed) => format!("with {last} at once requests failed: {failure}"),
        Some(End::Concurrency) => format!("not saturated with {last} at once (--concurrency)"),
        Some(End::Rate) => "not saturated at the highest rate (--rate)".to_owned(),
        Some(End::Requests) => {
            "not saturated by as many requests as may be sent (--requests)".to_owned()
        }
        Some(End::Time) => "not saturated in the time (--time)".to_owned(),
        Some(End::Saturated | End::Refused) => {
            let is_compared = measured.capacity.as_ref().is_some_and(|it| it.after.is_some());
            match is_compared {
                true => "the origin was not the same all the time",
                false => "no second measurement confirms it, for which a longer --time may do",
            }
            .to_owned()
        }
    }
}

fn most(measured: &Measured) -> u32 {
    measured.ramp.steps().iter().map(|it| it.concurrency).max().unwrap_or(0)
}

fn bottleneck(measured: &Measured, results: &Results) -> String {
    let usage = measured.capacity.as_ref().map_or_else(Usage::default, |it| it.usage);
    let share = |resource| usage.of(resource).map_or("-".to_owned(), percent);
    let finding = &measured.finding;
    let also = finding
        .also
        .map(|(resource, share)| format!("; {} {} too", noun(resource), percent(share)));
    let interface = results.watched.interface.as_deref().unwrap_or("?");
    let is_early = !measured.end.is_some_and(End::is_capacity);
    let is_full = finding.highest.is_some_and(|it| it.1 >= SATURATED);
    let words = match finding.what {
        what if is_early && what != Bottleneck::Generator && !is_full => match finding.highest {
            Some((resource, share)) => {
                format!("none yet; {} was used most: {}", noun(resource), percent(share))
            }
            None => "none yet".to_owned(),
        },
        Bottleneck::Processors => match usage.of(Resource::Origin) {
            Some(origin) if finding.busy_behind => format!(
                "the processors, {} in use, but only {} by {}: the rest by what it asks for on this machine (a backend, a \
                 container), or by others",
                share(Resource::Machine),
                percent(origin),
                results.watched.origin.as_deref().unwrap_or("the origin's processes")
            ),
            Some(origin) => format!(
                "the origin's processors, {} in use, {} by the origin",
                share(Resource::Machine),
                percent(origin)
            ),
            None => format!("the origin's processors, {} in use", share(Resource::Machine)),
        },
        Bottleneck::Thread => format!(
            "one thread of the origin, busy {} of the time, while all processors are {} in use: it uses one at a time",
            share(Resource::Thread),
            share(Resource::Machine)
        ),
        Bottleneck::Memory => format!(
            "memory, {} in use; {} pages/s were swapped",
            share(Resource::Memory),
            figure(usage.of(Resource::Paging).unwrap_or(0.0))
        ),
        Bottleneck::Disk => format!("a disk, busy {} of the time", share(Resource::Disk)),
        Bottleneck::Link => {
            format!(
                "the network link ({interface}), {} of its capacity in use",
                share(Resource::Link)
            )
        }
        Bottleneck::Generator => format!(
            "the load generator, which used {} of its processor; the origin can do more: use several machines",
            share(Resource::Generator)
        ),
        Bottleneck::Concurrency => own_concurrency(measured, &usage),
        Bottleneck::Unmeasured => format!(
            "not known: the origin runs on another machine, of which nothing was measured (the link: {}); run this there, or \
             with --same-machine if it is a container here",
            share(Resource::Link)
        ),
    };
    words + &also.unwrap_or_default()
}

/// Nothing that was measured is the bottleneck.
fn own_concurrency(measured: &Measured, usage: &Usage) -> String {
    let mut words = "the origin's own concurrency (workers, locks, or a backend)".to_owned();
    if let Some((resource, share)) = measured.finding.highest {
        words += &format!(
            ": nothing measured was more than {} busy ({})",
            percent(share),
            noun(resource)
        );
    }
    let waiting = usage.of(Resource::ListenQueue).unwrap_or(0.0);
    if waiting >= 0.5 {
        words += &format!("; {} connections waited to be accepted", figure(waiting));
    }
    let last = measured.ramp.steps().iter().max_by_key(|it| it.concurrency);
    if let Some(share) = last.and_then(Step::transfer_share).filter(|it| *it >= TRANSFER) {
        words += &format!(
            "; answers took {} of their time to arrive: a link narrower than its interface (--link-capacity), or an origin that \
             sends slowly",
            percent(share)
        );
    }
    words
}

const fn noun(resource: Resource) -> &'static str {
    match resource {
        Resource::Machine => "all processors",
        Resource::Origin => "the origin's processors",
        Resource::Thread => "the origin's busiest thread",
        Resource::Link => "the link",
        Resource::Disk => "a disk",
        Resource::Memory => "memory",
        Resource::Paging => "swapping",
        Resource::MemoryPressure => "memory pressure",
        Resource::ListenQueue => "the listen queue",
        Resource::Wanted => "waiting for processors",
        Resource::Generator => "the load generator",
    }
}

/// What speaks against the figures of a resource.
fn doubts(measured: &Measured) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(capacity) = &measured.capacity else { return lines };
    if measured.end == Some(End::Refused) {
        lines.push(format!(
            "refusals: the origin refuses (429, 503) more than {} at once",
            requests(capacity.knee.concurrency)
        ));
    }
    if let Some(after) = capacity.after.filter(|_| !capacity.is_steady) {
        lines.push(format!(
            "warning: not steady: back at {} at once it answered {}/s, before {}/s; it becomes slower, or others use it. Measure again",
            requests(capacity.knee.concurrency),
            figure(after),
            figure(capacity.knee.rate())
        ));
    }
    lines
}

fn costs(results: &Results) -> Vec<String> {
    let costs = results.costs();
    let mut lines = Vec::new();
    let knee = results.all.iter().filter(|it| it.is_capacity()).find_map(|it| it.capacity.as_ref());
    if let Some(fit) = &costs.origin {
        let off = percent(fit.off_max);
        lines.push(format!(
            "service time: {} a request and {} a MiB, of the whole origin; by {} sizes, the line is off by {off} at most",
            with_error(fit.request),
            with_error(fit.mebibyte),
            costs.sizes,
        ));
    } else if let (Some(capacity), None) = (knee, costs.link) {
        lines.push(format!(
            "service time: {} a request, of the whole origin",
            time(1.0 / capacity.rate.value)
        ));
    }
    if let Some(seconds) = costs.link {
        lines.push(format!("link time: {} a MiB", time(seconds)));
    }
    if let (Some(capacity), true) = (knee, costs.link.is_none()) {
        let workers = capacity.knee.concurrency;
        let each = |seconds: f64| time(seconds * f64::from(workers));
        let words = match &costs.origin {
            Some(fit) => format!(
                "--service {} --per-mib {}",
                each(fit.request.value),
                each(fit.mebibyte.value)
            ),
            None => format!("--service {}", each(1.0 / capacity.rate.value)),
        };
        lines.push(format!(
            "to simulate: tiergate simulate POLICY --log LOG --workers {workers} {words}"
        ));
    }
    lines
}

fn warnings(results: &Results) -> Vec<String> {
    let mut lines = Vec::new();
    let idle = results.idle.of(Resource::Machine).unwrap_or(0.0);
    if idle >= IDLE && results.origin.is_here {
        lines.push(format!(
            "warning: the processors were {} in use before the first request: what others use is not part of the capacity",
            percent(idle)
        ));
    }
    let disk = results.idle.of(Resource::Disk).unwrap_or(0.0);
    if disk >= SATURATED {
        lines.push(format!(
            "warning: a disk was busy {} of the time before the first request: whether it is the bottleneck cannot be told",
            percent(disk)
        ));
    }
    let busy = results.all.iter().find(|it| it.finding.busy_with_others);
    if let Some(usage) = busy.and_then(|it| it.capacity.as_ref()).map(|it| it.usage) {
        lines.push(format!(
            "warning: the processors were {} in use, but only {} by the origin: others keep them busy",
            percent(usage.of(Resource::Machine).unwrap_or(0.0)),
            percent(usage.of(Resource::Origin).unwrap_or(0.0))
        ));
    }
    let takes = |it: &Measured| {
        let Some(usage) = it.capacity.as_ref().map(|it| it.usage) else { return false };
        let of = |resource| usage.of(resource).unwrap_or(0.0);
        let generator = of(Resource::Generator) / f64::from(results.origin.processors);
        it.finding.what == Bottleneck::Processors && generator >= TAKEN * of(Resource::Machine)
    };
    if results.origin.is_here && results.all.iter().any(takes) {
        lines.push(
            "warning: the load generator took more than a fifth of the processors in use; measured from another machine, the \
             capacity is higher"
                .to_owned(),
        );
    }
    lines
}

/// A latency in the unit that reads best.
pub(super) fn milliseconds(latency: Duration) -> String {
    tiergate_draw::number::time_ms(latency.as_secs_f64() * 1e3)
}

fn with_error(estimate: Estimate) -> String {
    format!("{} (± {})", time(estimate.value), time(2.0 * estimate.error))
}

/// A time as options and policies take it, with three digits that matter: `1.6ms`.
fn time(seconds: f64) -> String {
    let ms = seconds * 1e3;
    let digits = match ms {
        ms if ms >= 100.0 => 0,
        ms if ms >= 10.0 => 1,
        ms if ms >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{ms:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_options_take_them() {
        let times = [0.001_604, 0.0645, 2.5, 0.000_1, 0.01, 0.0].map(time);
        assert_eq!(times, ["1.6ms", "64.5ms", "2500ms", "0.1ms", "10ms", "0ms"]);
        for text in &times {
            assert!(crate::config::quantities::time(text).is_some(), "{text}");
        }
    }
}
