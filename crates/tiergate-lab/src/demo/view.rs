//! The demonstration while it runs: a block redrawn each second on a terminal, a line every two
//! seconds elsewhere.

use super::scenario::{CLASSES, STAGES};
use super::status::Status;
use super::verdict::percent;
use crate::load::{Plan, Started, Tally};
use std::collections::VecDeque;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tiergate_draw::number::{milliseconds, thousands};
use tiergate_draw::{Block, Cell, Paint, Table, Tone, bar, spark};

/// Seconds of history in the spark lines.
const COURSE_LEN: usize = 60;

/// What is shown about one pass.
pub(super) struct View<'a> {
    title: &'a str,
    plan: &'a Plan,
    capacity: f64,
    admin: Option<SocketAddr>,
    paint: Paint,
    block: Block,
    begun: Instant,
    goodput: VecDeque<f64>,
    slots: VecDeque<f64>,
}

impl<'a> View<'a> {
    /// A view of a pass that begins now; `admin`: where the gateway tells its part.
    pub(super) fn new(
        title: &'a str,
        plan: &'a Plan,
        capacity: f64,
        admin: Option<SocketAddr>,
    ) -> Self {
        Self {
            title,
            plan,
            capacity,
            admin,
            paint: Paint::stdout(),
            block: Block::stdout(),
            begun: Instant::now(),
            goodput: VecDeque::new(),
            slots: VecDeque::new(),
        }
    }

    /// Shows the run until dropped. Cancel safe.
    pub(super) async fn follow(&mut self, run: &crate::load::Live) {
        let interval = Duration::from_secs(if self.block.is_terminal() { 1 } else { 2 });
        let mut ticks = tokio::time::interval(interval);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let status = match self.admin {
                Some(admin) => Status::fetch(admin).await,
                None => None,
            };
            let recent: Vec<Tally> = (0..CLASSES.len()).map(|n| run.recent(n)).collect();
            let moment = Moment { recent, status, seconds: interval.as_secs_f64() };
            self.remember(&moment);
            if self.block.is_terminal() {
                self.block.draw(&self.picture(&moment));
            } else {
                // A closed pipe must not end the experiment.
                let _ = writeln!(std::io::stdout(), "{}", self.line(&moment));
            }
        }
    }

    fn remember(&mut self, moment: &Moment) {
        let slots = moment.status.as_ref().and_then(|status| status.slots);
        for (course, value) in [
            (&mut self.goodput, Some(moment.goodput())),
            (&mut self.slots, slots.map(|n| n as f64)),
        ] {
            course.extend(value);
            if course.len() > COURSE_LEN {
                course.pop_front();
            }
        }
    }

    /// Seconds since the beginning, seconds in all, and the stage's number.
    fn progress(&self) -> (f64, f64, usize) {
        let population = &self.plan.populations[0];
        let (steps, total) = (&population.steps, population.lasting().as_secs_f64());
        let now = self.begun.elapsed().as_secs_f64().min(total);
        let stage = (now / steps[0].lasting.as_secs_f64()) as usize;
        (now, total, stage.min(steps.len() - 1))
    }

    fn picture(&self, moment: &Moment) -> String {
        let (now, total, stage) = self.progress();
        let title = self.paint.tone(Tone::Strong, self.title);
        let stage = STAGES[stage];
        let mut out = format!(
            "\n  {title}   {} of the origin's capacity offered   {now:.0} s of {total:.0} s {}\n\n",
            percent(stage.load),
            bar(now / total, 20),
        );
        let mut table = Table::new(
            "<class|offered/s|goodput/s|refused/s|timed out/s|p99 ms|wait p99|waiting|running"
                .split('|'),
        );
        for (name, tally) in CLASSES.iter().zip(&moment.recent) {
            let counts = tally.counts;
            let rate = |n: u64| thousands((n as f64 / moment.seconds).round() as u64);
            let shown = |n| Cell(rate(n), if n == 0 { Tone::Faint } else { Tone::Plain });
            let gone = if counts.timed_out > 0 { Tone::Bad } else { Tone::Faint };
            let gate = moment.status.as_ref().and_then(|status| status.class(name));
            let of_gate = |n: Option<u64>| n.map_or("-".into(), thousands);
            let wait = gate.and_then(|class| class.wait_p99);
            table.row([
                (*name).into(),
                rate(counts.sent).into(),
                Cell(rate(counts.ok), Tone::Good),
                shown(counts.refused),
                Cell(rate(counts.timed_out), gone),
                milliseconds(tally.quantile(0.99)).into(),
                milliseconds(wait).into(),
                of_gate(gate.map(|class| class.waiting)).into(),
                of_gate(gate.map(|class| class.running)).into(),
            ]);
        }
        out += &table.render(self.paint);
        let (goodput, capacity) = (moment.goodput(), self.capacity);
        let course = spark(self.goodput.iter().copied(), capacity);
        out += &format!("\n  goodput {goodput:>5.0} of {capacity:.0}/s  {course}\n");
        if let Some(slots) = self.slots.back() {
            let most = self.slots.iter().copied().fold(1.0, f64::max);
            let course = spark(self.slots.iter().copied(), most);
            out += &format!("  slots   {slots:>5.0} found    {course}\n");
        }
        out
    }

    fn line(&self, moment: &Moment) -> String {
        let (now, _, stage) = self.progress();
        let mut out = format!("  {} {now:>3.0} s  {:<10}", self.title, STAGES[stage].name);
        for (name, tally) in CLASSES.iter().zip(&moment.recent) {
            let rate = |n: u64| (n as f64 / moment.seconds).round();
            let counts = tally.counts;
            out += &format!(
                "  {name} {:>4} of {:>4}/s p99 {:>4} ms refused {:>4} timed out {:>4}",
                rate(counts.ok),
                rate(counts.sent),
                milliseconds(tally.quantile(0.99)),
                rate(counts.refused),
                rate(counts.timed_out),
            );
        }
        if let Some(slots) = moment.status.as_ref().and_then(|status| status.slots) {
            out += &format!("  slots {slots}");
        }
        out
    }
}

/// What happened in the last interval.
struct Moment {
    /// By population.
    recent: Vec<Tally>,
    status: Option<Status>,
    /// Length of the interval.
    seconds: f64,
}

impl Moment {
    fn goodput(&self) -> f64 {
        self.recent.iter().map(|tally| tally.counts.ok).sum::<u64>() as f64 / self.seconds
    }
}

/// Shows the run until it ends, and returns its report.
pub(super) async fn watch(
    mut view: View<'_>,
    mut run: Started,
) -> anyhow::Result<crate::load::Report> {
    let live = std::sync::Arc::clone(&run.live);
    let report = tokio::select! {
        report = run.report() => report,
        () = view.follow(&live) => unreachable!("a view is shown until it is dropped"),
    };
    view.block.clear();
    report
}
