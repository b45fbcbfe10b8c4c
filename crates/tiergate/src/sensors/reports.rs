//! What origin servers report of their load (ORCA), from the request path to a sensor.
//!
//! Each sensor has a table with a place for every server of its pool. Who answers a request notes there what the answer reports: a
//! store and an addition, no lock. Once a period the sensor takes what was noted since.
//!
//! | what | written by | read by |
//! |---|---|---|
//! | `Place::last` | each thread, at an answer with a report | the sensor |
//! | `Place::count`, `answers`, `bad` | the same | the sensor, which sets it to 0 |
//! | `refused` | each thread | status and metrics |
//!
//! The reading of a share is the mean over the servers, weighted by how many answers each reported with: what a request met on average.
//! The reading of a queue or a rate is the sum: what there is of it in the pool.

use super::probe::{Idle, LASTING, Probe};
use crate::config::meant::{OrcaSensor, Unit};
use crate::orca::{self, Unreadable};
use crate::tally::Tally;
use anyhow::{Result, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tiergate_core::names::PoolId;
use tiergate_core::origin::SERVERS_MAX;
use tiergate_core::sense::Quantity;
use tiergate_wire::http1::LoadReport;

/// Largest share that is believed, and read as all in use: servers may report more than 1 above a soft limit of theirs. What is beyond
/// is most likely a percentage.
const SHARE_MAX: f64 = 4.0;
/// Largest number of any other kind.
const NUMBER_MAX: f64 = 1e12;
/// So many periods in a row may be without a report before it is said: as long as a reading holds.
const MISSED_MAX: u32 = LASTING;
/// How often it is logged at most that some reports are refused while others are good.
const COMPLAINT: Duration = Duration::from_secs(60);

/// The reports that the sensors of a configuration ask for.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<Arc<Table>>);

/// The reports that one sensor asks for.
#[derive(Debug)]
pub(super) struct Table {
    of: OrcaSensor,
    /// By the server's place in the pool.
    servers: Box<[Place]>,
    /// Answers of the pool, with a report or without.
    answers: AtomicU32,
    /// Of them, those whose report was refused; and why the last one was.
    bad: AtomicU32,
    why: AtomicU8,
    /// Reports that were refused, since the sensor was configured.
    pub(super) refused: Tally,
}

/// What a server has reported lately.
#[derive(Debug, Default)]
struct Place {
    /// The last number.
    last: AtomicU64,
    /// Answers that reported one, since the sensor last looked.
    count: AtomicU32,
}

/// Why a report is refused: as number in [`Table::why`], the first of them those of [`Unreadable`], and in words.
const REFUSED: [&str; 6] = [
    Unreadable::TooLong.words(),
    Unreadable::Malformed.words(),
    Unreadable::NoNumber.words(),
    Unreadable::Ambiguous.words(),
    "is below 0",
    "is too large; a share is 0 to 1",
];
const NEGATIVE: u8 = 4;
const TOO_LARGE: u8 = 5;

impl Reports {
    /// For the sensors that ask for reports.
    pub(super) fn new(tables: Vec<Arc<Table>>) -> Self {
        Reports(tables)
    }

    /// Whether no sensor asks for any.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The server at that place of a pool has answered, with this report. Costs a pass over the report for each sensor of the pool.
    pub(crate) fn answered(&self, pool: PoolId, server: usize, report: LoadReport<'_>) {
        for table in self.0.iter().filter(|table| table.of.pool == pool) {
            table.answered(server, report);
        }
    }
}

impl Table {
    pub(super) fn new(of: OrcaSensor) -> Self {
        Table {
            of,
            servers: (0..SERVERS_MAX).map(|_| Place::default()).collect(),
            answers: AtomicU32::new(0),
            bad: AtomicU32::new(0),
            why: AtomicU8::new(0),
            refused: Tally::default(),
        }
    }

    fn answered(&self, server: usize, report: LoadReport<'_>) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        match orca::value(report, &self.of.metric) {
            Ok(None) => {}
            Ok(Some(number)) => match self.possible(number) {
                Ok(number) => {
                    let Some(place) = self.servers.get(server) else { return };
                    place.last.store(number.to_bits(), Ordering::Relaxed);
                    // The number first: who sees the count sees it.
                    place.count.fetch_add(1, Ordering::Release);
                }
                Err(why) => self.refuse(why),
            },
            Err(why) => self.refuse(why as u8),
        }
    }

    /// The number, if it can be.
    fn possible(&self, number: f64) -> Result<f64, u8> {
        match self.of.unit {
            Unit::Level if number.abs() <= NUMBER_MAX => Ok(number),
            Unit::Level => Err(TOO_LARGE),
            _ if number < 0.0 => Err(NEGATIVE),
            Unit::Utilization if number <= SHARE_MAX => Ok(number.min(1.0)),
            Unit::Rate | Unit::QueueLen if number <= NUMBER_MAX => Ok(number),
            _ => Err(TOO_LARGE),
        }
    }

    #[cold]
    fn refuse(&self, why: u8) {
        self.why.store(why, Ordering::Relaxed);
        self.bad.fetch_add(1, Ordering::Relaxed);
        self.refused.one();
    }

    fn why(&self) -> &'static str {
        REFUSED[usize::from(self.why.load(Ordering::Relaxed)).min(REFUSED.len() - 1)]
    }

    /// Takes what was noted since the last time.
    fn take(&self) -> Taken {
        let (mut sum, mut weighted, mut count) = (0.0, 0.0, 0.0);
        for place in &self.servers {
            let answers = f64::from(place.count.swap(0, Ordering::Acquire));
            if answers > 0.0 {
                let number = f64::from_bits(place.last.load(Ordering::Relaxed));
                (sum, weighted, count) =
                    (sum + number, weighted + answers * number, count + answers);
            }
        }
        let number = match self.of.unit {
            Unit::Utilization | Unit::Level => weighted / count,
            Unit::QueueLen | Unit::Rate => sum,
        };
        Taken {
            number: (count > 0.0).then_some(number),
            answers: self.answers.swap(0, Ordering::Relaxed),
            bad: self.bad.swap(0, Ordering::Relaxed),
        }
    }
}

/// What was noted in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Taken {
    /// What the servers reported; `None`: nothing.
    number: Option<f64>,
    answers: u32,
    bad: u32,
}

/// Reads the reports of one sensor.
pub(super) struct Orca {
    name: String,
    table: Arc<Table>,
    /// Periods in a row without a report, and answers in them.
    missed: u32,
    answers: u32,
    complained: Option<Instant>,
}

impl Orca {
    pub(super) fn new(name: &str, table: Arc<Table>) -> Self {
        Orca { name: name.to_owned(), table, missed: 0, answers: 0, complained: None }
    }
}

impl Probe for Orca {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let Taken { number, answers, bad } = self.table.take();
        let metric = &self.table.of.metric;
        if let Some(number) = number {
            (self.missed, self.answers) = (0, 0);
            let is_due = self.complained.is_none_or(|last| at.duration_since(last) >= COMPLAINT);
            if bad > 0 && is_due {
                self.complained = Some(at);
                let (name, why) = (&self.name, self.table.why());
                tracing::warn!(
                    "sensor {name}: {bad} of {answers} answers have a report that is refused: {metric} {why}"
                );
            }
            return match self.table.of.unit.quantity(number) {
                Some(quantity) => Ok(Some(quantity)),
                None => bail!("the servers report {number} as {metric}, which is no length"),
            };
        }
        if bad > 0 {
            bail!("the servers' reports are refused: {metric} {}", self.table.why());
        }
        self.missed = self.missed.saturating_add(1);
        self.answers = self.answers.saturating_add(answers);
        match (self.missed > MISSED_MAX, self.answers) {
            (false, _) => Ok(None),
            // A site without requests is no fault.
            (true, 0) => bail!(Idle("no answer has come that could report it")),
            (true, _) => bail!("no answer reports {metric} in endpoint-load-metrics"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orca::Metric;

    fn table(metric: &str, unit: Unit) -> Arc<Table> {
        let (metric, pool) = (Metric::called(metric).expect("a metric"), PoolId::DEFAULT);
        Arc::new(Table::new(OrcaSensor { metric, pool, pool_name: "default".to_owned(), unit }))
    }

    fn report(table: &Table, server: usize, text: &str) {
        table.answered(server, LoadReport::Text(text.as_bytes()));
    }

    #[test]
    fn why_a_report_cannot_be_read_is_said_in_its_words() {
        use Unreadable::{Ambiguous, Malformed, NoNumber, TooLong};
        for why in [TooLong, Malformed, NoNumber, Ambiguous] {
            assert_eq!(REFUSED[why as usize], why.words());
        }
    }

    #[test]
    fn a_share_is_the_mean_by_answers_and_a_queue_the_sum() {
        let cpu = table("cpu_utilization", Unit::Utilization);
        report(&cpu, 0, "cpu_utilization=0.9");
        report(&cpu, 0, "cpu_utilization=1.7");
        report(&cpu, 0, "cpu_utilization=1.5");
        report(&cpu, 63, "cpu_utilization=0.2");
        report(&cpu, 64, "cpu_utilization=0.2");
        let all = Taken { number: Some((3.0 * 1.0 + 0.2) / 4.0), answers: 5, bad: 0 };
        assert_eq!(cpu.take(), all);
        assert_eq!(cpu.take(), Taken { number: None, answers: 0, bad: 0 }, "each counts once");

        let queue = table("named_metrics.queue", Unit::QueueLen);
        for (server, len) in [(0, 7), (0, 3), (1, 9)] {
            report(&queue, server, &format!("named_metrics.queue={len}"));
        }
        assert_eq!(queue.take().number, Some(12.0));
    }

    #[test]
    fn absurd_numbers_are_refused_and_counted() {
        let cpu = table("cpu_utilization", Unit::Utilization);
        let absurd = ["-0.1", "4.1", "85", "NaN", "inf", "1e300", "x", ""];
        for number in absurd {
            report(&cpu, 0, &format!("cpu_utilization={number}"));
        }
        assert_eq!(cpu.take(), Taken { number: None, answers: 8, bad: 8 });
        assert_eq!(cpu.refused.total(), 8);
        let queue = table("named_metrics.q", Unit::QueueLen);
        report(&queue, 0, "named_metrics.q=5e11");
        let mut probe = Orca::new("q", queue);
        let fault = probe.take(Instant::now()).expect_err("no queue is that long").to_string();
        assert!(fault.contains("which is no length"), "{fault}");
        let level = table("named_metrics.t", Unit::Level);
        report(&level, 0, "named_metrics.t=-7");
        assert_eq!(level.take().number, Some(-7.0));
    }

    #[test]
    fn silence_has_a_reason_and_an_idle_site_is_no_fault() {
        let table = table("cpu_utilization", Unit::Utilization);
        let mut probe = Orca::new("cpu", table.clone());
        let mut take = || probe.take(Instant::now());
        for _ in 0..MISSED_MAX {
            assert!(take().expect("it may yet come").is_none());
        }
        assert!(take().expect_err("nothing comes").is::<Idle>());
        report(&table, 0, "mem_utilization=0.5");
        let fault = take().expect_err("it is not reported");
        assert!(fault.to_string().contains("no answer reports cpu_utilization"), "{fault}");
        assert!(!fault.is::<Idle>());
        report(&table, 0, "cpu_utilization=0.5");
        report(&table, 0, "cpu_utilization=x");
        assert_eq!(take().expect("it is"), Some(Quantity::Utilization(0.5)));
        report(&table, 0, "cpu_utilization=x");
        let fault = take().expect_err("it is no number").to_string();
        assert!(
            fault.contains("cpu_utilization has something else than a finite number"),
            "{fault}"
        );
    }
}
