//! The report for people, in a terminal.

use super::{charts, compared::Compared};
use crate::report::ClassReport;
use crate::spread::Spread;
use crate::trial::Front;
use tiergate_core::reason::Reason;
use tiergate_draw::number::{figure, percent, thousands, time_ms};
use tiergate_draw::{Cell, Paint, Table, Tone};

/// The whole report.
pub fn table(it: &Compared, paint: Paint) -> String {
    let mut text = paint.tone(Tone::Strong, &it.title) + "\n";
    for line in &it.about {
        text += &format!("  {line}\n");
    }
    let tables = Tables { it, sums: it.sums() };
    for (title, what, table) in [
        ("Good answers", "that reached a client who was still there", tables.goodput()),
        ("Wait", "until the server begins to work", tables.times(|class| &class.wait)),
        ("Answer", "from the request to its good answer", tables.times(|class| &class.total)),
        ("Refused", "requests by reason", tables.refusals()),
        ("Left or failed", "clients that left, and errors, of the offered requests", tables.lost()),
        ("The server's work", "shares of its time", tables.work()),
    ] {
        if !table.is_empty() {
            let title = paint.tone(Tone::Strong, title);
            let what = paint.tone(Tone::Faint, what);
            text += &format!("\n{title} {what}\n{}", table.render(paint));
        }
    }
    text + &charts::charts(it, paint)
}

struct Tables<'c> {
    it: &'c Compared,
    /// By front, then by class; all together last.
    sums: Vec<Vec<ClassReport>>,
}

impl Tables<'_> {
    fn goodput(&self) -> Table {
        let rate = |count: u64| figure(count as f64 / self.it.seconds());
        let offered = |class: usize| vec![rate(self.sums[0][class].arrived)];
        self.by_class(&["offered/s"], offered, &["/s", "of offered"], |of, _| {
            vec![rate(of.good), of_arrived(of, of.good)]
        })
    }

    fn times(&self, of: impl Fn(&ClassReport) -> &Spread) -> Table {
        self.by_class(
            &[],
            |_| Vec::new(),
            &["p50", "p99"],
            |class, _| {
                let spread = of(class);
                let time = |quantile| time_ms(spread.quantile_ms(quantile));
                [0.5, 0.99].map(|q| if spread.count() == 0 { "-".into() } else { time(q) }).into()
            },
        )
    }

    fn lost(&self) -> Table {
        self.by_class(
            &[],
            |_| Vec::new(),
            &["left", "failed"],
            |of, _| {
                vec![of_arrived(of, of.left_waiting + of.left_running), of_arrived(of, of.failed)]
            },
        )
    }

    fn work(&self) -> Table {
        let part = |seconds: f64, all: &ClassReport| percent(seconds / all.work_s.max(1e-9));
        let mut table =
            self.by_class(&[], |_| Vec::new(), &["share"], |of, all| vec![part(of.work_s, all)]);
        let wasted = self.sums.iter().map(|sums| &sums[self.it.classes.len()]);
        let wasted = wasted.map(|all| part(all.wasted_s, all));
        table.row(["wasted work: the client had left".to_owned()].into_iter().chain(wasted));
        table
    }

    fn refusals(&self) -> Table {
        let gateways = || self.it.reports.iter().filter(|(front, _)| *front != Front::Nothing);
        let fronts = gateways().map(|(front, _)| front.title());
        let mut table = Table::new(["<class", "reason"].into_iter().chain(fronts));
        for (class, name) in self.it.classes.iter().enumerate() {
            for reason in Reason::ALL {
                let refused =
                    |(_, sums): (_, &Vec<ClassReport>)| sums[class].refused_by[reason.index()];
                let counts: Vec<u64> = gateways().zip(&self.sums).map(refused).collect();
                if counts.iter().any(|count| *count > 0) {
                    let counts = counts.into_iter().map(|count| thousands(count).into());
                    let name = Cell(name.clone(), Tone::Series(class));
                    table.row([name, reason.name().into()].into_iter().chain(counts));
                }
            }
        }
        table
    }

    /// A table with these columns for each front: a row for each class that got requests, and one for
    /// all if there are several. `cells` is told the class behind a front, and all of that front.
    fn by_class(
        &self,
        before: &[&str],
        cells_before: impl Fn(usize) -> Vec<String>,
        each: &[&str],
        cells: impl Fn(&ClassReport, &ClassReport) -> Vec<String>,
    ) -> Table {
        let fronts = self.it.reports.len();
        let columns = ["<class"].into_iter().chain(before.iter().copied());
        let mut table = Table::new(columns.chain(each.repeat(fronts)));
        let mut above = vec![String::new(); 1 + before.len()];
        for (front, _) in &self.it.reports {
            above.resize(above.len() + each.len() - 1, String::new());
            above.push(front.title().to_owned());
        }
        table.above(above);
        let (active, all) = (self.it.active(), self.it.classes.len());
        let sum = (active.len() != 1).then_some(all);
        for class in active.into_iter().chain(sum) {
            let name = match self.it.classes.get(class) {
                Some(name) => Cell(name.clone(), Tone::Series(class)),
                None => "all".into(),
            };
            let cells = self.sums.iter().flat_map(|sums| cells(&sums[class], &sums[all]));
            let cells = cells_before(class).into_iter().chain(cells).map(Cell::from);
            table.row([name].into_iter().chain(cells));
        }
        table
    }
}

fn of_arrived(of: &ClassReport, count: u64) -> String {
    percent(count as f64 / of.arrived.max(1) as f64)
}
