//! The report for people, in a terminal.

use super::Compared;
use super::chart::{Unit, chart};
use super::text::{Paint, Tone, columns, count, figure, share, time_ms};
use crate::report::ClassReport;
use crate::trial::Front;
use tiergate_core::reason::Reason;

/// The whole report.
pub fn table(it: &Compared, paint: Paint) -> String {
    let sums = it.sums();
    let mut text = paint.tone(Tone::Strong, &it.title) + "\n";
    for line in &it.about {
        text += &format!("  {line}\n");
    }
    text += &section(
        it,
        paint,
        "Good answers",
        "that reached a client who was still there",
        &goodput(it, &sums),
    );
    text += &section(
        it,
        paint,
        "Wait",
        "until the server begins to work",
        &times(it, &sums, |class| (&class.wait, class.wait.count())),
    );
    text += &section(
        it,
        paint,
        "Answer",
        "from the request to its good answer",
        &times(it, &sums, |class| (&class.total, class.total.count())),
    );
    let refused = refusals(it, &sums);
    if refused.len() > 1 {
        text += &section(it, paint, "Refused", "requests by reason", &refused);
    }
    text += &section(
        it,
        paint,
        "Left or failed",
        "clients that went away, and errors, of what was asked for",
        &lost(it, &sums),
    );
    text += &section(it, paint, "The server's work", "shares of its time", &work(it, &sums));
    text + &charts(it, paint)
}

fn name(front: Front) -> &'static str {
    match front {
        Front::Policy => "policy",
        Front::Fifo => "FIFO",
        Front::Nothing => "no gateway",
    }
}

fn section(it: &Compared, paint: Paint, title: &str, what: &str, rows: &[Vec<String>]) -> String {
    let lead = |row: usize, cell: &str| match it.classes.iter().position(|name| name == cell) {
        Some(class) if row > 0 => paint.tone(Tone::Class(class), cell),
        _ => cell.to_owned(),
    };
    let title = paint.tone(Tone::Strong, title);
    let what = paint.tone(Tone::Faint, what);
    format!("\n{title} {what}\n{}", columns(rows, &lead))
}

/// A row for each class that anybody asked for, and one for all if there are several.
fn rows(
    it: &Compared,
    sums: &[Vec<ClassReport>],
    heads: Vec<Vec<String>>,
    row: impl Fn(usize) -> Vec<String>,
) -> Vec<Vec<String>> {
    let asked: Vec<usize> = (0..it.classes.len())
        .filter(|class| sums.iter().any(|of| of[*class].arrived > 0))
        .collect();
    let mut rows = heads;
    let all = (asked.len() != 1).then_some(it.classes.len());
    for class in asked.into_iter().chain(all) {
        let name = it.classes.get(class).map_or("all", String::as_str);
        rows.push([vec![name.to_owned()], row(class)].concat());
    }
    rows
}

/// The heads of the columns: whose they are, and what they are.
fn heads(it: &Compared, before: &[&str], each: &[&str]) -> Vec<Vec<String>> {
    let owned = |cell: &str| cell.to_owned();
    let mut first: Vec<String> = before.iter().map(|_| String::new()).collect();
    let mut second: Vec<String> = before.iter().map(|cell| owned(cell)).collect();
    for (front, _) in &it.reports {
        first.extend(each.iter().skip(1).map(|_| String::new()));
        first.push(owned(name(*front)));
        second.extend(each.iter().map(|cell| owned(cell)));
    }
    vec![first, second]
}

fn goodput(it: &Compared, sums: &[Vec<ClassReport>]) -> Vec<Vec<String>> {
    let seconds = it.policy().seconds();
    rows(it, sums, heads(it, &["class", "asked/s"], &["/s", "of asked"]), |class| {
        let mut row = vec![figure(sums[0][class].arrived as f64 / seconds)];
        for of in sums {
            row.push(figure(of[class].good as f64 / seconds));
            row.push(share(of[class].good as f64 / of[class].arrived.max(1) as f64));
        }
        row
    })
}

fn times(
    it: &Compared,
    sums: &[Vec<ClassReport>],
    of: impl Fn(&ClassReport) -> (&crate::spread::Spread, u64),
) -> Vec<Vec<String>> {
    rows(it, sums, heads(it, &["class"], &["p50", "p99"]), |class| {
        let cells = sums.iter().flat_map(|sums| match of(&sums[class]) {
            (_, 0) => ["-".to_owned(), "-".to_owned()],
            (spread, _) => [0.5, 0.99].map(|quantile| time_ms(spread.quantile_ms(quantile))),
        });
        cells.collect()
    })
}

fn refusals(it: &Compared, sums: &[Vec<ClassReport>]) -> Vec<Vec<String>> {
    let gateways = it.reports.iter().take_while(|(front, _)| *front != Front::Nothing).count();
    let mut rows = vec![vec!["class".to_owned(), "reason".to_owned()]];
    for (front, _) in &it.reports[..gateways] {
        rows[0].push(name(*front).to_owned());
    }
    for (class, name) in it.classes.iter().enumerate() {
        for reason in Reason::ALL {
            let counts: Vec<u64> = sums[..gateways]
                .iter()
                .map(|sums| sums[class].refused_by[reason.index()])
                .collect();
            if counts.iter().any(|count| *count > 0) {
                let row = vec![name.clone(), reason.name().to_owned()];
                rows.push([row, counts.into_iter().map(count).collect()].concat());
            }
        }
    }
    rows
}

fn lost(it: &Compared, sums: &[Vec<ClassReport>]) -> Vec<Vec<String>> {
    rows(it, sums, heads(it, &["class"], &["left", "failed"]), |class| {
        let cells = sums.iter().flat_map(|sums| {
            let of = &sums[class];
            let of_arrived = |count: u64| share(count as f64 / of.arrived.max(1) as f64);
            [of_arrived(of.left_waiting + of.left_running), of_arrived(of.failed)]
        });
        cells.collect()
    })
}

fn work(it: &Compared, sums: &[Vec<ClassReport>]) -> Vec<Vec<String>> {
    let all = it.classes.len();
    let mut rows = rows(it, sums, heads(it, &["class"], &["share"]), |class| {
        let part = |sums: &Vec<ClassReport>| sums[class].work_s / sums[all].work_s.max(1e-9);
        sums.iter().map(|sums| share(part(sums))).collect()
    });
    let wasted = sums.iter().map(|sums| share(sums[all].wasted_s / sums[all].work_s.max(1e-9)));
    rows.push([vec!["for nobody: its client had left".to_owned()], wasted.collect()].concat());
    rows
}

/// Goodput and waits over time, by class, behind the policy and behind a plain queue.
fn charts(it: &Compared, paint: Paint) -> String {
    let mut text = String::new();
    let classes = 0..it.classes.len();
    for (front, report) in &it.reports {
        if *front == Front::Nothing {
            continue;
        }
        // Fewer points than dots, or a line would be a thicket.
        let series = report.series.coarser(3);
        let goodput = |class| series.goodput(class).into_iter().map(Some).collect();
        let asked = |class: &usize| report.class(*class).arrived > 0;
        let empty = |class: usize, values: Vec<Option<f64>>| match asked(&class) {
            true => values,
            false => Vec::new(),
        };
        let goodput: Vec<_> = classes.clone().map(|class| empty(class, goodput(class))).collect();
        let wait: Vec<_> =
            classes.clone().map(|class| empty(class, series.wait_p99_ms(class))).collect();
        for (what, values, unit) in [
            ("good answers a second", goodput, Unit::Rate),
            ("99th percentile of the wait", wait, Unit::Millis),
        ] {
            let title = paint.tone(Tone::Strong, name(*front));
            let names: Vec<String> = classes
                .clone()
                .filter(asked)
                .map(|class| paint.tone(Tone::Class(class), &format!("━ {}", it.classes[class])))
                .collect();
            let what = paint.tone(Tone::Faint, what);
            text += &format!("\n{title} {what}  {}\n", names.join("  "));
            text += &chart(&values, report.seconds(), unit, paint);
        }
    }
    text
}
