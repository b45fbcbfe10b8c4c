//! One aligned table, for pipes and for `--once`.

use super::rates::{ClassRow, ServerRow, View};
use crate::admin::status::Quantiles;
use crate::observe::words::{self, harmless, rate, span};
use std::fmt::Write;

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
        status.version,
        span(status.uptime_seconds),
        state(view),
        status.config.generation
    ));
    put(format!(
        "slots {} ({})  running {}  waiting {}  connections {}",
        limit.slots,
        if limit.adaptive { "adaptive" } else { "fixed" },
        limit.running,
        limit.waiting,
        status.clients.connections_active
    ));
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
    put(String::new());
    let head = [
        "class",
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
    ];
    let rows = view.classes.iter().map(class_cells).collect::<Vec<_>>();
    aligned(head, &rows).into_iter().for_each(&mut put);
    put(String::new());
    let head = ["server", "health", "in_progress", "requests/s", "failures/s", "reused"];
    let rows = view.servers.iter().map(server_cells).collect::<Vec<_>>();
    aligned(head, &rows).into_iter().for_each(&mut put);
    text
}

/// What the gateway is doing, in words.
pub(super) fn state(view: &View) -> String {
    let status = &view.reading.status;
    match &status.unready {
        Some(why) => why.clone(),
        None => format!("{:?}", status.phase).to_lowercase(),
    }
}

/// The last change of the limit and its cause, in words.
pub(super) fn change(view: &View) -> Option<String> {
    let change = view.reading.status.limit.last_change.as_ref()?;
    Some(format!(
        "limit set to {} {} ago: {}",
        change.slots,
        span(change.age_seconds),
        words::cause(&change.cause)
    ))
}

/// The figures of a class, as text; `-` where there is none.
pub(super) fn class_cells(row: &ClassRow) -> [String; 12] {
    let [wait_p50, wait_p99] = quantiles(&row.wait);
    let [first_p50, first_p99] = quantiles(&row.first_byte);
    [
        harmless(&row.name),
        per_second(row.arrived),
        per_second(row.admitted),
        per_second(row.served),
        per_second(row.refused),
        row.reason.as_deref().map_or(NONE.to_owned(), harmless),
        row.waiting.to_string(),
        row.running.to_string(),
        wait_p50,
        wait_p99,
        first_p50,
        first_p99,
    ]
}

/// The figures of a server, as text; `-` where there is none.
pub(super) fn server_cells(row: &ServerRow) -> [String; 6] {
    [
        harmless(&row.server.address),
        row.server.health.name().to_owned(),
        row.server.outstanding.to_string(),
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

/// Lines of a table: the first column to the left, the others to the right, two spaces between.
fn aligned<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        cells.collect::<String>()
    };
    let head = line(&mut head.into_iter());
    let rows = rows.iter().map(|row| line(&mut row.iter().map(String::as_str)));
    [head].into_iter().chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;

    #[test]
    fn the_table_is_aligned_and_has_every_column() {
        let text = table(&View::new(Some(&reading(10)), reading(11)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "tiergate 0.1.0  up 11s  serving  generation 3");
        assert_eq!(lines[1], "slots 40 (adaptive)  running 38  waiting 24  connections 310");
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

    #[test]
    fn no_earlier_reading_shows_dashes() {
        let text = table(&View::new(None, reading(10)));
        let row = text.lines().find(|line| line.starts_with("checkout")).expect("a class");
        assert_eq!(row.split_whitespace().nth(1), Some("-"));
    }
}
