//! What the lab is doing, for people: a line that changes on a terminal, a line a run elsewhere.

use super::experiment::Experiment;
use super::result::Round;
use super::settings::Settings;
use crate::contender::Contender;
use std::collections::VecDeque;
use std::future::Future;
use std::time::{Duration, Instant};
use tiergate_draw::{Block, Paint, Tone};

/// Starting and stopping a run, about.
const AROUND: Duration = Duration::from_secs(2);

/// Which run of how many, and how long the rest will take.
pub(super) struct Progress {
    paint: Paint,
    block: Block,
    runs: usize,
    done: usize,
    /// Of the runs that are not done, in order.
    left: VecDeque<Duration>,
}

impl Progress {
    /// For these experiments.
    pub(super) fn new(experiments: &[Experiment], settings: &Settings) -> Self {
        let runs = |experiment: &Experiment| {
            let contenders = experiment.contenders(settings);
            let searched = experiment.searched(&contenders).filter(|_| !settings.check);
            let tried = searched.map_or(0, |_| experiment.searched_max());
            let runs = contenders.len() * settings.rounds as usize + tried;
            let (twice, one) = experiment.runs_beside(settings).unzip();
            let one = one.map_or(Duration::ZERO, |one| one.lasting() + AROUND);
            std::iter::repeat_n(experiment.lasting() + AROUND, runs)
                .chain(std::iter::repeat_n(one, twice.unwrap_or(0)))
        };
        let left: VecDeque<Duration> = experiments.iter().flat_map(runs).collect();
        let (paint, block) = (Paint::stdout(), Block::stdout());
        Self { paint, block, runs: left.len(), done: 0, left }
    }

    /// A new experiment begins.
    pub(super) fn experiment(&self, title: &str) {
        println!("\n  {}", self.paint.tone(Tone::Strong, title));
    }

    /// Shows a run while it lasts.
    pub(super) async fn during<T>(
        &mut self,
        what: &str,
        lasting: Duration,
        run: impl Future<Output = T>,
    ) -> T {
        let begun = Instant::now();
        let mut run = std::pin::pin!(run);
        loop {
            let second = tokio::time::sleep(Duration::from_secs(1));
            tokio::select! {
                result = &mut run => {
                    self.block.clear();
                    return result;
                }
                () = second => self.show(what, begun.elapsed(), lasting),
            }
        }
    }

    fn show(&mut self, what: &str, elapsed: Duration, lasting: Duration) {
        let left = self.left.iter().sum::<Duration>().saturating_sub(elapsed);
        let [elapsed, lasting, left] = [elapsed, lasting, left / 60].map(|time| time.as_secs_f64());
        let run = format!("{}/{}", self.done + 1, self.runs);
        let times = format!("{elapsed:.0} of {lasting:.0} s; {left:.0} min left in all");
        let line = format!("  {run}  {what}: {times}");
        self.block.draw(&self.paint.tone(Tone::Faint, &line));
    }

    /// A run has ended, or was found among those that are kept.
    pub(super) fn ended(
        &mut self,
        experiment: &Experiment,
        contender: Contender,
        round: &Round,
        fresh: bool,
    ) {
        self.skipped();
        let values = experiment.measure.iter().zip(&round.values).map(|(measure, value)| {
            let unit = measure.measure().unit;
            format!("{} {}", measure.name, super::page::words::quantity(*value, unit))
        });
        let mut line = values.collect::<Vec<_>>().join("; ");
        if let Some(why) = &round.void {
            line = self.paint.tone(Tone::Bad, why);
        }
        let note = if fresh { "" } else { " (kept)" };
        println!("  {:<9} {}  {line}{note}", contender.name(), round.seed);
    }

    /// A run that will not be done.
    pub(super) fn skipped(&mut self) {
        self.left.pop_front();
        self.done += 1;
    }

    /// A contender could not take part.
    pub(super) fn failed(&mut self, contender: Contender, why: &str) {
        self.skipped();
        let line = format!("{} is left out: {why}", contender.name());
        println!("  {}", self.paint.tone(Tone::Bad, &line));
    }
}
