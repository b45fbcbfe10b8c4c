//! One aligned table, for pipes and for `--once`.

use super::rates::{ClassRow, ServerRow, View};
use crate::admin::adaptation::{GuaranteeStatus, SetPointStatus};
use crate::admin::observed::ObservedClassStatus;
use crate::admin::status::{BackgroundLimit, ClassStatus, PoolStatus, Quantiles, TargetStatus};
use crate::link::{LinkCapacity, LinkPart};
use crate::observe::words::{self, harmless, rate, span};
use std::fmt::Write;
use tiergate_draw::{Paint, Table};

/// Shown for an unknown figure.
pub(super) const NONE: &str = "-";

/// The whole view as text, one thing a line.
pub(super) fn table(view: &View) -> String {
    let status = &view.reading.status;
    let limit = &status.limit;
    let mut text = String::new();
    let mut put = |line: String| {
        let _infallible = writeln!(text, "{}", line.trim_end());
    };
    put(format!(
        "tiergate {}  up {}  {}  generation {}",
        harmless(&status.version),
        span(status.uptime_seconds),
        state(view),
        status.config.generation
    ));
    view.reading.incident.iter().for_each(|it| put(harmless(&it.sentence)));
    put(format!(
        "slots {} ({})  running {}  waiting {}  connections {} of {}",
        limit.slots,
        limit.kind(),
        limit.running,
        limit.waiting,
        status.clients.connections_active,
        status.clients.connections_max
    ));
    pools(view).for_each(&mut put);
    resources(view).for_each(&mut put);
    background(view).for_each(&mut put);
    link(view).into_iter().for_each(&mut put);
    targets(view).for_each(&mut put);
    adaptations(view).for_each(&mut put);
    observed(view).into_iter().for_each(&mut put);
    stored(view).into_iter().for_each(&mut put);
    left(view).into_iter().for_each(&mut put);
    let streams: u32 = status.classes.iter().map(|class| class.streams).sum();
    if streams > 0 {
        put(format!("streams {streams}, which hold no slot"));
    }
    if let Some(change) = change(view) {
        put(change);
    }
    if let Some(shedding) = status.shedding.filter(|shedding| shedding.fraction > 0.0) {
        let percent = shedding.fraction * 100.0;
        put(format!("shed {percent:.0} % of requests, the least important first"));
    }
    let mut classes = Table::new([
        "<class",
        "arrived/s",
        "admitted/s",
        "served/s",
        "refused/s",
        "reason",
        "waiting",
        "running",
        "wait_p50",
        "wait_p99",
        "first_byte_p50",
        "first_byte_p99",
    ]);
    view.classes.iter().for_each(|row| classes.row(class_cells(row)));
    text.push('\n');
    text += &unindented(&classes);
    text.push('\n');
    let mut servers = Table::new([
        "<server",
        "health",
        "in_progress",
        "<limit",
        "requests/s",
        "failures/s",
        "reused",
    ]);
    view.servers.iter().for_each(|row| servers.row(server_cells(row)));
    text += &unindented(&servers);
    text
}

/// The pools beside the default one, a line each.
pub(super) fn pools(view: &View) -> impl Iterator<Item = String> {
    view.reading.status.pools.iter().map(|PoolStatus { name, limit, .. }| {
        format!(
            "pool {}: slots {} ({})  running {}  waiting {}",
            harmless(name),
            limit.slots,
            limit.kind(),
            limit.running,
            limit.waiting
        )
    })
}

/// What some requests need beside a slot, a line each.
pub(super) fn resources(view: &View) -> impl Iterator<Item = String> {
    view.reading.status.resources.iter().map(|it| {
        let of =
            if it.pool.is_empty() { String::new() } else { format!("{}/", harmless(&it.pool)) };
        format!(
            "resource {of}{}: slots {} ({})  running {}  waiting {}",
            harmless(&it.name),
            it.slots,
            if it.adaptive { "adaptive" } else { "fixed" },
            it.running,
            it.waiting
        )
    })
}

/// What background classes do, a line for each pool.
pub(super) fn background(view: &View) -> impl Iterator<Item = String> {
    view.reading.status.background.iter().map(|it| {
        let of = if it.pool.is_empty() { String::new() } else { format!("{} ", harmless(&it.pool)) };
        let quiet = if it.quiet { " (nobody else is there)" } else { "" };
        let by = it.bounded_by.map_or(String::new(), |by| match (by, &it.felt_most_by) {
            (BackgroundLimit::ResponseTimes, Some(by)) => {
                format!("; bounded by what {} feels", harmless(by))
            }
            (BackgroundLimit::ResponseTimes, None) => "; bounded by what others feel".to_owned(),
            (BackgroundLimit::Throughput, _) => "; more would wait for each other".to_owned(),
            (BackgroundLimit::Slowdown, _) => "; more made others far slower".to_owned(),
            (BackgroundLimit::LastingEffect, _) => "; more had a lasting effect".to_owned(),
        });
        let rests = it.rests_seconds.map_or(String::new(), |s| format!(" (rests for {s:.0} s)"));
        format!(
            "background {of}running {} of {:.1}{quiet}{rests}  each makes others {:+.1} % longer, give or take {:.1}{by}",
            it.running,
            it.most,
            it.felt * 100.0,
            it.felt_error * 100.0
        )
    })
}

/// What the link carries, where the policy does not say it, and what of it classes have reserved, in one line.
pub(super) fn link(view: &View) -> Option<String> {
    let status = &view.reading.status;
    let parts = &status.link;
    let carries = |it: &LinkCapacity| {
        let doubt = if it.fault.is_some() { ", cannot be read now" } else { "" };
        format!(
            "  carries {:.1} Mbit/s, by {}{doubt}",
            it.bits_per_second as f64 / 1e6,
            it.from.words()
        )
    };
    let carries = status.link_capacity.as_ref().map(carries);
    let part = |it: &LinkPart| {
        let most = if it.extra { "" } else { " at most" };
        format!("  {} {:.1} %{most}", harmless(&it.class), it.reserved * 100.0)
    };
    let reserved = parts.iter().filter(|it| it.reserved > 0.0);
    let reserved = (!parts.is_empty())
        .then(|| format!("  reserved:{}", reserved.map(part).collect::<String>()));
    let all = [carries, reserved].into_iter().flatten().collect::<String>();
    (!all.is_empty()).then(|| format!("link{all}"))
}

/// What decides the quality of answers, a line each.
pub(super) fn adaptations(view: &View) -> impl Iterator<Item = String> {
    view.reading.status.adaptations.iter().map(|it| {
        let point =
            |point: &SetPointStatus| format!("  {} {:.2}", harmless(&point.class), point.set_point);
        let points: String = it.set_points.iter().map(point).collect();
        let guarantee = |it: &GuaranteeStatus| format!("  {}", harmless(&it.words()));
        let mut guarantees: String = it.guarantees.iter().map(guarantee).collect();
        if let Some(kept) = it.guarantees_kept.filter(|kept| *kept < 1.0) {
            guarantees += &format!("  guarantees cut to {:.0} %", kept * 100.0);
        }
        format!(
            "adaptation {}: {}  {}  levels {}{points}{guarantees}",
            harmless(&it.name),
            harmless(&it.state),
            harmless(&it.readings()),
            it.levels
        )
    })
}

/// What a policy that is observed would have done, since the start.
pub(super) fn observed(view: &View) -> Option<String> {
    let observed = view.reading.status.observed.as_ref()?;
    let sum = |of: fn(&ObservedClassStatus) -> u64| observed.classes.iter().map(of).sum::<u64>();
    let (admit, refuse) = (sum(|it| it.both_admit), sum(|it| it.both_refuse));
    let (would_refuse, would_admit) = (sum(|it| it.would_refuse), sum(|it| it.would_admit));
    Some(format!(
        "observed {}: would refuse {would_refuse} of {} that were let through, let through {would_admit} of {} that were refused",
        harmless(&observed.policy),
        admit + would_refuse,
        refuse + would_admit
    ))
}

/// The service targets, a line each.
pub(super) fn targets(view: &View) -> impl Iterator<Item = String> {
    let status = &view.reading.status;
    let of_pool = |pool: &'_ str, classes: &[ClassStatus]| -> Vec<String> {
        classes.iter().filter_map(|class| target(pool, class)).collect()
    };
    let default = of_pool("", &status.classes);
    let others = status.pools.iter().flat_map(move |it| of_pool(&it.name, &it.classes));
    default.into_iter().chain(others)
}

fn target(pool: &str, class: &ClassStatus) -> Option<String> {
    let TargetStatus { quantile, seconds, slots, missed, answers, .. } =
        class.service_target.as_ref()?;
    let found = class.first_byte.window;
    // Others are not kept for a window.
    let found = match quantile.as_str() {
        "p50" => found.p50_seconds,
        "p99" => found.p99_seconds,
        _ => None,
    };
    let found = found.map_or(String::new(), |found| format!(", is {}", span(found)));
    let state = match (missed, slots) {
        (true, _) => "missed, fewer slots do not help".to_owned(),
        (false, Some(slots)) => format!("at most {slots} slots"),
        (false, None) if *answers == 0 => "no request yet".to_owned(),
        (false, None) => "met".to_owned(),
    };
    let of = if pool.is_empty() { String::new() } else { format!("{}/", harmless(pool)) };
    let name = harmless(&class.name);
    let quantile = harmless(quantile);
    Some(format!("target {of}{name}: {quantile} {}{found}  {state}", span(*seconds)))
}

/// What the gateway is doing, in words.
pub(super) fn state(view: &View) -> String {
    let status = &view.reading.status;
    match &status.unready {
        Some(why) => harmless(why),
        None => format!("{:?}", status.phase).to_lowercase(),
    }
}

/// The last change of the limit and its cause, in words.
pub(super) fn change(view: &View) -> Option<String> {
    let change = view.reading.status.limit.last_change.as_ref()?;
    Some(format!(
        "{} {} ago: {}",
        change.what(),
        span(change.age_seconds),
        words::cause(&change.cause)
    ))
}

/// How many requests get stored copies, while any do.
pub(super) fn stored(view: &View) -> Option<String> {
    let rate: f64 = view.classes.iter().filter_map(|it| it.stored).sum();
    let what = "requests a second get stored copies instead of a wait, a refusal or an error";
    (rate > 0.0).then(|| format!("stored {}: {what}", per_second(Some(rate))))
}

/// How many clients leave the queue, while any do: they are neither refused nor served.
pub(super) fn left(view: &View) -> Option<String> {
    let leaving = |row: &ClassRow| {
        let left = row.left.filter(|left| *left > 0.0)?;
        Some(format!("{} {}", harmless(&row.class.name), rate(left)))
    };
    let classes: Vec<String> = view.classes.iter().filter_map(leaving).collect();
    (!classes.is_empty())
        .then(|| format!("clients that leave the queue, a second: {}", classes.join(", ")))
}

/// The figures of a class, as text; `-` where there is none.
pub(super) fn class_cells(row: &ClassRow) -> [String; 12] {
    let [wait_p50, wait_p99] = quantiles(&row.class.wait.window);
    let [first_p50, first_p99] = quantiles(&row.class.first_byte.window);
    [
        harmless(&row.class.name),
        per_second(row.arrived),
        per_second(row.admitted),
        per_second(row.served),
        per_second(row.refused),
        row.reason.as_deref().map_or(NONE.to_owned(), harmless),
        row.class.waiting.to_string(),
        row.class.running.to_string(),
        wait_p50,
        wait_p99,
        first_p50,
        first_p99,
    ]
}

/// The figures of a server, as text; `-` where there is none.
pub(super) fn server_cells(row: &ServerRow) -> [String; 7] {
    [
        harmless(&row.server.address),
        row.server.health.name().to_owned(),
        row.server.in_progress(),
        row.server.limit_words().unwrap_or_else(|| NONE.to_owned()),
        per_second(row.requests),
        per_second(row.failures),
        row.reused.map_or(NONE.to_owned(), |share| format!("{:.0}%", share * 100.0)),
    ]
}

fn per_second(value: Option<f64>) -> String {
    value.map_or(NONE.to_owned(), rate)
}

fn quantiles(quantiles: &Quantiles) -> [String; 2] {
    [quantiles.p50_seconds, quantiles.p99_seconds]
        .map(|seconds| seconds.map_or(NONE.to_owned(), span))
}

/// The table's lines, without the blanks before each.
fn unindented(table: &Table) -> String {
    let lines = table.render(Paint::PLAIN);
    lines.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;
    use crate::admin::status::{BackgroundStatus, LimitStatus};
    use crate::observe::server::SlotsSource;

    #[test]
    fn the_table_is_aligned_and_has_every_column() {
        let text = table(&View::new(Some(&reading(10)), reading(11)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tiergate 0.1.0  up 11s  serving  generation 3");
        assert_eq!(
            lines[1],
            "slots 40 (adaptive)  running 38  waiting 24  connections 310 of 8000"
        );
        assert_eq!(lines[2], "limit set to 40 12s ago: more at once gives more throughput");
        let columns = lines[4].split_whitespace().count();
        assert_eq!(columns, 12);
        for line in &lines[5..7] {
            assert_eq!(line.split_whitespace().count(), columns, "{line}");
            assert_eq!(line.chars().count(), lines[4].len());
        }
        assert!(lines[6].starts_with("browse") && lines[6].contains("deadline_expired"));
        assert!(lines[9].starts_with("10.0.0.5:8080") && lines[9].ends_with("99%"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    /// The port may be another program's, as long as no gateway has it.
    #[test]
    fn nothing_that_is_answered_moves_the_cursor() {
        let mut reading = reading(11);
        let hostile = "\u{1b}]0;x\u{7}\u{9b}2J";
        reading.status.version = hostile.to_owned();
        reading.status.unready = Some(hostile.to_owned());
        reading.status.classes.iter_mut().for_each(|it| it.name = hostile.to_owned());
        reading.status.origin.iter_mut().for_each(|it| it.address = hostile.to_owned());
        reading.status.limit.last_change.iter_mut().for_each(|it| it.cause = hostile.to_owned());
        let text = table(&View::new(None, reading));
        assert!(!text.contains(|it: char| it.is_control() && it != '\n'), "{text:?}");
    }

    #[test]
    fn service_targets_have_a_line() {
        let line = |slots, missed| {
            let mut reading = reading(11);
            let target = TargetStatus {
                quantile: "p99".to_owned(),
                seconds: 0.2,
                slots,
                missed,
                answers: 100,
                late: 1,
            };
            reading.status.classes[0].service_target = Some(target);
            let text = table(&View::new(None, reading));
            text.lines().find(|line| line.starts_with("target ")).expect("a line").to_owned()
        };
        let name = reading(11).status.classes[0].name.clone();
        let found = [line(Some(40), false), line(None, false), line(Some(40), true)];
        let start = format!("target {name}: p99 200ms, is 400ms  ");
        let ends = ["at most 40 slots", "met", "missed, fewer slots do not help"];
        assert_eq!(found, ends.map(|end| format!("{start}{end}")));
    }

    #[test]
    fn the_background_has_a_line_that_names_whom_it_disturbs() {
        let line = |bounded_by, felt_most_by: Option<&str>, rests_seconds| {
            let mut reading = reading(11);
            reading.status.background.push(BackgroundStatus {
                pool: String::new(),
                most: 2.5,
                running: 2,
                quiet: false,
                felt: 0.012,
                felt_error: 0.004,
                bounded_by,
                felt_most_by: felt_most_by.map(str::to_owned),
                rests_seconds,
            });
            let text = table(&View::new(None, reading));
            text.lines().find(|line| line.starts_with("background ")).expect("a line").to_owned()
        };
        let start =
            "background running 2 of 2.5  each makes others +1.2 % longer, give or take 0.4";
        assert_eq!(line(None, None, None), start);
        let by = Some(BackgroundLimit::ResponseTimes);
        let felt = line(by, Some("checkout"), None);
        assert_eq!(felt, format!("{start}; bounded by what checkout feels"));
        let rests = line(Some(BackgroundLimit::LastingEffect), None, Some(59.7));
        assert!(rests.contains("2 of 2.5 (rests for 60 s)  each"), "{rests}");
        assert!(rests.ends_with("; more had a lasting effect"), "{rests}");
    }

    #[test]
    fn pools_have_a_line_and_their_classes_and_servers_their_name() {
        let with_pool = |second| {
            let mut reading = reading(second);
            let status = &mut reading.status;
            let limit = LimitStatus { adaptive: false, slots: 5, ..status.limit.clone() };
            let classes = vec![status.classes[1].clone()];
            let pool = PoolStatus { name: "reports".to_owned(), limit, shedding: None, classes };
            status.pools.push(pool);
            status.origin[0].slots = Some(12);
            status.origin[0].slots_from = Some(SlotsSource::Server);
            status.origin[0].slots_usable = Some(8);
            if let Some(change) = &mut status.limit.last_change {
                change.server = Some("10.0.0.5:8080".to_owned());
                change.server_slots = Some(12);
            }
            status.origin[1].pool = "reports".to_owned();
            reading
        };
        let text = table(&View::new(Some(&with_pool(10)), with_pool(11)));
        for start in [
            "pool reports: slots 5 (fixed)  running 38  waiting 24",
            "browse   ",
            "reports/browse  151",
            "10.0.0.5:8080  up  8 of 12  own number, now 8  ",
            "limit of 10.0.0.5:8080 set to 12 12s ago: more at once gives more throughput",
            "reports/10.0.0.6:8080  down",
        ] {
            let squeezed = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let wanted: Vec<_> = start.split_whitespace().collect();
            let found = squeezed.clone().any(|line| line.starts_with(&wanted));
            assert!(found, "{start}\n{text}");
        }
    }

    #[test]
    fn no_earlier_reading_shows_dashes() {
        let text = table(&View::new(None, reading(10)));
        let row = text.lines().find(|line| line.starts_with("checkout")).expect("a class");
        assert_eq!(row.split_whitespace().nth(1), Some("-"));
    }
}
