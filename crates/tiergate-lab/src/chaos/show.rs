//! What a run prints: progress, and the summary at its end.

use super::act::Stage;
use super::fault::Fault;
use super::judge::{Evidence, Verdict, last, mib};
use super::premium::Premium;
use super::samples::{Sample, course};
use super::windows::{self, Level};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use tiergate_draw::number::{percent, thousands};
use tiergate_draw::{Cell, Paint, Table, Tone, spark};

/// Width of the lines over time.
const COURSE_LEN: usize = 60;
/// Faults named in a line of progress.
const NAMED_MAX: usize = 3;

/// One line while it runs.
pub(super) fn progress(stage: &Stage, premium: &Premium, phase: &str, sample: &Sample) -> String {
    let count = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
    let now = stage.now();
    let mut names: Vec<&str> = now.iter().take(NAMED_MAX).map(|it| it.kind()).collect();
    let more = format!("+{}", now.len().saturating_sub(NAMED_MAX));
    if now.len() > NAMED_MAX {
        names.push(&more);
    }
    format!(
        "  {:>4.0} s  {phase:<9} premium {:>6} answered, {:>3} not  mixed up {}  \
         slots {:>3}  waiting {:>3}  connections {:>3}  {:>9}  fds {:>3}  {}",
        stage.timeline.now(),
        thousands(count(&premium.answered)),
        count(&premium.unanswered),
        count(&premium.mixed) + count(&stage.crowd.mixed),
        sample.slots,
        sample.waiting,
        sample.connections,
        mib(sample.memory),
        sample.descriptors,
        names.join(", "),
    )
}

/// The tables at the end.
pub(super) fn summary(evidence: &Evidence, paint: Paint) -> String {
    let mut out = format!("\n{}", premium(evidence, paint));
    out += &format!("\n{}", faults(evidence, paint));
    out += &format!("\n{}", rest(evidence, paint));
    out += &format!("\n{}", over_time(&evidence.samples));
    out
}

fn premium(evidence: &Evidence, paint: Paint) -> String {
    let windows = windows::of(&evidence.happened);
    let mut table = Table::new("<premium requests|sent|answered|share|at least".split('|'));
    for level in Level::ALL {
        let tally = evidence.tally(&windows, level);
        let (name, promise) = level.promise();
        let share = tally.answered as f64 / tally.asked.max(1) as f64;
        table.row([
            name.to_owned(),
            thousands(tally.asked),
            thousands(tally.answered),
            if tally.asked > 0 { percent(share) } else { "-".into() },
            promise.map_or("-".into(), percent),
        ]);
    }
    table.render(paint)
}

fn faults(evidence: &Evidence, paint: Paint) -> String {
    let mut kinds: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
    for happened in evidence.happened.iter().filter(|it| it.to.is_finite()) {
        let kind = kinds.entry(happened.fault.kind()).or_default();
        *kind = (kind.0 + 1, kind.1 + happened.to - happened.from);
    }
    let mut table = Table::new("<fault|times|seconds".split('|'));
    for (kind, (times, seconds)) in kinds {
        table.row([kind.to_owned(), times.to_string(), format!("{seconds:.1}")]);
    }
    let metrics = last(&evidence.readings);
    let of = |name| thousands(metrics.sum(name) as u64);
    table.render(paint)
        + &format!(
            "\n  requests {}, refused {}, malformed {}; connections {}, closed to make room {}\n",
            of("http_requests_total"),
            of("requests_refused_total"),
            of("bad_requests_total"),
            of("connections_accepted_total"),
            of("connections_evicted_total"),
        )
}

fn rest(evidence: &Evidence, paint: Paint) -> String {
    let mut table = Table::new("<at rest|after|memory|descriptors|requests|log lines".split('|'));
    for reading in &evidence.readings {
        table.row([
            reading.name.clone(),
            format!("{:.1} s", reading.took.as_secs_f64()),
            mib(reading.memory),
            reading.descriptors.to_string(),
            thousands(reading.metrics.sum("http_requests_total") as u64),
            thousands(reading.lines),
        ]);
    }
    table.render(paint)
}

fn over_time(samples: &[Sample]) -> String {
    let line = |name: &str, of: &dyn Fn(&Sample) -> u64, shown: &dyn Fn(u64) -> String| {
        let most = samples.iter().map(of).max().unwrap_or(0);
        let course = spark(course(samples, COURSE_LEN, of), (most as f64).max(1.0));
        format!("  {name:<12} {course}  at most {}\n", shown(most))
    };
    let number = |number: u64| thousands(number);
    line("memory", &|it| it.memory, &mib)
        + &line("descriptors", &|it| it.descriptors, &number)
        + &line("connections", &|it| it.connections, &number)
        + &line("buffered", &|it| it.buffered, &mib)
        + &line("slots", &|it| it.slots, &number)
        + &line("waiting", &|it| it.waiting, &number)
}

/// One line for each verdict.
pub(super) fn verdicts(verdicts: &[Verdict], paint: Paint) -> String {
    let mut table = Table::new(["<", "<", "<"]);
    for verdict in verdicts {
        let (word, tone) = if verdict.passed { ("ok", Tone::Good) } else { ("FAIL", Tone::Bad) };
        table.row([
            Cell(word.into(), tone),
            Cell(verdict.name.into(), Tone::Strong),
            verdict.text.clone().into(),
        ]);
    }
    table.render(paint).trim_start_matches('\n').to_owned()
}

/// The schedule, for the timeline.
pub(super) fn planned(at: f64, fault: Fault, lasting: f64) -> String {
    format!("planned: {at:>5.1} s  {fault}, for {lasting:.1} s")
}
