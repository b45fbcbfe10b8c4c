//! What the lab is doing, for people: a line that changes on a terminal, a line a run elsewhere.

use super::Settings;
use super::contender::Contender;
use super::experiment::Experiment;
use super::result::Round;
use crate::text::{Palette, Tone};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Starting and stopping a run, about.
const AROUND: Duration = Duration::from_secs(2);

/// Which run of how many, and how long the rest will take.
pub(super) struct Progress {
    palette: Palette,
    terminal: bool,
    runs: usize,
    done: usize,
    /// Of the runs that are not done, in order.
    left: VecDeque<Duration>,
}

impl Progress {
    /// For these experiments.
    pub(super) fn new(experiments: &[Experiment], settings: &Settings) -> Self {
        let only = &settings.contenders;
        let left: VecDeque<Duration> = experiments
            .iter()
            .flat_map(|experiment| {
                let wanted = |c: &Contender| only.is_empty() || only.contains(c);
                let contenders: Vec<Contender> =
                    experiment.contenders().into_iter().filter(wanted).collect();
                let searches = !settings.check && contenders.contains(&Contender::Haproxy);
                let tried = if searches { experiment.search.len() } else { 0 };
                let runs = contenders.len() * settings.rounds as usize + tried;
                std::iter::repeat_n(experiment.lasting() + AROUND, runs)
            })
            .collect();
        let (palette, terminal) = (Palette::of_stdout(), std::io::stdout().is_terminal());
        Self { palette, terminal, runs: left.len(), done: 0, left }
    }

    /// A new experiment begins.
    pub(super) fn experiment(&self, title: &str) {
        println!("\n  {}", self.palette.paint(Tone::Strong, title));
    }

    /// Shows a run while it lasts.
    pub(super) async fn during<T>(
        &self,
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
                    self.clear();
                    return result;
                }
                () = second => self.show(what, begun.elapsed(), lasting),
            }
        }
    }

    fn show(&self, what: &str, elapsed: Duration, lasting: Duration) {
        if !self.terminal {
            return;
        }
        let left = self.left.iter().sum::<Duration>().saturating_sub(elapsed);
        let line = format!(
            "  {}/{}  {what}: {:.0} of {:.0} s; {:.0} min left in all",
            self.done + 1,
            self.runs,
            elapsed.as_secs_f64(),
            lasting.as_secs_f64(),
            left.as_secs_f64() / 60.0
        );
        print!("\r\x1b[2K{}", self.palette.paint(Tone::Faint, &line));
        let _ = std::io::stdout().flush();
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[2K");
        }
    }

    /// A run has ended, or was found among those that are kept.
    pub(super) fn ended(
        &mut self,
        experiment: &Experiment,
        contender: Contender,
        seed: u64,
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
            line = self.palette.paint(Tone::Bad, why);
        }
        let note = if fresh { "" } else { " (kept)" };
        println!("  {:<9} {seed}  {line}{note}", contender.name());
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
        println!("  {}", self.palette.paint(Tone::Bad, &line));
    }
}
