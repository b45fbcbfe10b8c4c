//! What origin servers report of their load (ORCA), from the request path to a sensor.
//!
//! Each sensor has a table with a place for every server of its pool. Who answers a request notes there what the answer reports: a
//! store and an addition, no lock. Once a period the sensor takes what was noted since.
//!
//! | what | written by | read by |
//! |---|---|---|
//! | `Place::last` | each thread, at an answer with a report that is no error | the sensor |
//! | `Place::count`, `answers`, `bad` | the same | the sensor, which sets it to 0 |
//! | `refused` | each thread | status and metrics |
//!
//! The reading of a share is the mean over the servers, weighted by how many answers each reported with: what a request met on average.
//! No weight is more than twice the median of the pool's, so that a server that answers too fast does not speak for all.
//! The reading of a queue or a rate is the sum: what there is of it in the pool.
//!
//! A pool that has had nothing to do for some periods has a share or a queue of 0: what follows the sensor may have refused all
//! requests, and without a reading would refuse them for ever.

use super::probe::{Idle, LASTING, Probe};
use crate::config::meant::{OrcaSensor, Unit};
use crate::orca::{self, Unreadable};
use crate::origin::Work;
use crate::tally::Tally;
use anyhow::{Result, bail};
use arrayvec::ArrayVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tiergate_core::names::PoolId;
use tiergate_core::origin::SERVERS_MAX;
use tiergate_core::sense::Quantity;
use tiergate_wire::http1::{FieldTable, LoadReport};

/// Largest share that is believed, and read as all in use: servers may report more than 1 above a soft limit of theirs. What is beyond
/// is most likely a percentage.
const SHARE_MAX: f64 = 4.0;
/// Largest number of any other kind.
const NUMBER_MAX: f64 = 1e12;
/// So many periods in a row may be without a report before it is said: as long as a reading holds.
const MISSED_MAX: u32 = LASTING;
/// A server's weight is at most this many times the median of its pool's.
const WEIGHT_MAX: u32 = 2;
/// How often it is logged at most that some reports are refused while others are good.
const COMPLAINT: Duration = Duration::from_secs(60);

/// Tells what a pool's servers have to do now.
pub(super) type WorkOf = Box<dyn Fn(PoolId) -> Work + Send>;

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

    /// The server at that place of a pool has answered with that status and these fields. Errors of servers are not looked at: one
    /// that fails at once is quick, and what it has in use says nothing of what requests cost. Costs a search among the fields if the
    /// pool has a sensor, and a pass over the report for each.
    pub(crate) fn answered(
        &self,
        pool: PoolId,
        server: usize,
        status: u16,
        fields: &FieldTable<'_>,
    ) {
        let mut tables = self.0.iter().filter(|table| table.of.pool == pool).peekable();
        if status >= 500 || tables.peek().is_none() {
            return;
        }
        let report = fields.load_report();
        tables.for_each(|table| table.answered(server, report));
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
        let reported: ArrayVec<(u32, f64), SERVERS_MAX> = self
            .servers
            .iter()
            .map(|place| (place.count.swap(0, Ordering::Acquire), &place.last))
            .filter(|(answers, _)| *answers > 0)
            .map(|(answers, last)| (answers, f64::from_bits(last.load(Ordering::Relaxed))))
            .collect();
        let weight_max = weight_max(reported.iter().map(|(answers, _)| *answers));
        let (mut sum, mut weighted, mut count) = (0.0, 0.0, 0.0);
        for (answers, number) in reported {
            let weight = f64::from(answers.min(weight_max));
            (sum, weighted, count) = (sum + number, weighted + weight * number, count + weight);
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

/// The largest weight of a server, by the answers of each that reported. Of two the fewer count as the median.
fn weight_max(answers: impl Iterator<Item = u32>) -> u32 {
    let mut answers: ArrayVec<u32, SERVERS_MAX> = answers.collect();
    answers.sort_unstable();
    let median = answers.get(answers.len().saturating_sub(1) / 2);
    median.map_or(0, |median| median.saturating_mul(WEIGHT_MAX))
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
    /// What the pool had to do at the last look, and periods in a row in which that was nothing.
    work_of: WorkOf,
    work: Work,
    idle: u32,
    complained: Option<Instant>,
}

impl Orca {
    pub(super) fn new(name: &str, table: Arc<Table>, work_of: WorkOf) -> Self {
        let (name, work) = (name.to_owned(), Work::Busy);
        Orca { name, table, missed: 0, answers: 0, work_of, work, idle: 0, complained: None }
    }

    /// Whether the pool has had nothing to do for as long as a reading holds, with the period that ends.
    fn is_free(&mut self) -> bool {
        // A server that hangs has requests in progress, one that cannot be reached has had some sent.
        let work = (self.work_of)(self.table.of.pool);
        let is_idle = work != Work::Busy && work == std::mem::replace(&mut self.work, work);
        self.idle = if is_idle { self.idle.saturating_add(1) } else { 0 };
        self.idle > MISSED_MAX
    }
}

impl Probe for Orca {
    fn take(&mut self, at: Instant) -> Result<Option<Quantity>> {
        let is_free = self.is_free();
        let Taken { number, answers, bad } = self.table.take();
        let unit = self.table.of.unit;
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
            return match unit.quantity(number) {
                Some(quantity) => Ok(Some(quantity)),
                None => bail!("the servers report {number} as {metric}, which is no length"),
            };
        }
        if bad > 0 {
            bail!("the servers' reports are refused: {metric} {}", self.table.why());
        }
        self.missed = self.missed.saturating_add(1);
        self.answers = self.answers.saturating_add(answers);
        if is_free && matches!(unit, Unit::Utilization | Unit::QueueLen) {
            return Ok(unit.quantity(0.0));
        }
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
    use tiergate_core::names::Id;
    use tiergate_core::request::Field;

    fn table(metric: &str, unit: Unit) -> Arc<Table> {
        let (metric, pool) = (Metric::called(metric).expect("a metric"), PoolId::DEFAULT);
        Arc::new(Table::new(OrcaSensor { metric, pool, pool_name: "default".to_owned(), unit }))
    }

    fn orca(name: &str, table: Arc<Table>) -> Orca {
        Orca::new(name, table, Box::new(|_| Work::Busy))
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
        report(&cpu, 63, "cpu_utilization=0.2");
        let all = Taken { number: Some((3.0 * 1.0 + 2.0 * 0.2) / 5.0), answers: 6, bad: 0 };
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
        let mut probe = orca("q", queue);
        let fault = probe.take(Instant::now()).expect_err("no queue is that long").to_string();
        assert!(fault.contains("which is no length"), "{fault}");
        let level = table("named_metrics.t", Unit::Level);
        report(&level, 0, "named_metrics.t=-7");
        assert_eq!(level.take().number, Some(-7.0));
    }

    #[test]
    fn a_server_that_answers_too_fast_does_not_speak_for_all() {
        let cpu = table("cpu_utilization", Unit::Utilization);
        (0..100).for_each(|_| report(&cpu, 0, "cpu_utilization=0"));
        for server in [1, 2] {
            (0..10).for_each(|_| report(&cpu, server, "cpu_utilization=1"));
        }
        assert_eq!(cpu.take().number, Some(0.5));
        (0..100).for_each(|_| report(&cpu, 0, "cpu_utilization=0"));
        report(&cpu, 1, "cpu_utilization=0.9");
        let number = cpu.take().number.expect("both report");
        assert!((number - 0.3).abs() < 1e-9, "{number}");
        assert_eq!(weight_max([].into_iter()), 0);
    }

    #[test]
    fn errors_of_servers_are_not_looked_at() {
        let cpu = table("cpu_utilization", Unit::Utilization);
        let reports = Reports::new(vec![cpu.clone()]);
        let mut fields = FieldTable::new();
        let field = Field { name: b"endpoint-load-metrics", value: b"cpu_utilization=0.1" };
        fields.push(field).expect("a field");
        let answered = |pool, status| reports.answered(pool, 0, status, &fields);
        answered(PoolId::DEFAULT, 500);
        answered(PoolId::DEFAULT, 503);
        answered(PoolId::at(1), 200);
        assert_eq!(cpu.take(), Taken { number: None, answers: 0, bad: 0 });
        answered(PoolId::DEFAULT, 404);
        assert_eq!(cpu.take(), Taken { number: Some(0.1), answers: 1, bad: 0 });
    }

    #[test]
    fn a_pool_that_has_nothing_to_do_is_free_and_one_that_hangs_is_not() {
        let work = Arc::new(std::sync::Mutex::new(Work::Idle { sent: 7 }));
        let told = work.clone();
        let cpu = table("cpu_utilization", Unit::Utilization);
        let work_of = move |_| *told.lock().expect("no panic");
        let mut probe = Orca::new("cpu", cpu.clone(), Box::new(work_of));
        let mut take = || probe.take(Instant::now()).map_err(|fault| fault.to_string());
        let set = |now| *work.lock().expect("no panic") = now;
        let free = Ok(Some(Quantity::Utilization(0.0)));
        // Answers without a report, and then none at all.
        report(&cpu, 0, "mem_utilization=0.5");
        for _ in 0..=MISSED_MAX {
            assert!(take() != free);
        }
        assert_eq!(take(), free);
        assert_eq!(take(), free, "for as long as it lasts");
        // A request that is sent and fails within a period, again and again.
        for sent in 8..18 {
            set(Work::Idle { sent });
            assert!(take() != free);
        }
        (0..=MISSED_MAX).for_each(|_| drop(take()));
        assert_eq!(take(), free);
        set(Work::Busy);
        for _ in 0..10 {
            assert!(take() != free, "it may hang");
        }

        // Of a temperature, nothing is known.
        let level = table("named_metrics.t", Unit::Level);
        let mut probe = Orca::new("t", level, Box::new(|_| Work::Idle { sent: 0 }));
        let last = (0..10).map(|_| probe.take(Instant::now())).last().expect("ten");
        assert!(last.expect_err("nothing comes").is::<Idle>());
    }

    #[test]
    fn silence_has_a_reason_and_an_idle_site_is_no_fault() {
        let table = table("cpu_utilization", Unit::Utilization);
        let mut probe = orca("cpu", table.clone());
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
