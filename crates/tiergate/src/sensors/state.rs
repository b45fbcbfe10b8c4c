//! The sensors of a configuration, and what is wrong with them.

use super::probe::{Idle, LASTING};
use super::reports::{Reports, Table};
use crate::config::meant::{Measure, Sensor};
use anyhow::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How a sensor is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Why it has no reading now; `None`: it has one, or will with the next.
    pub fault: Option<String>,
    /// Readings that failed, since the sensor was configured.
    pub failures: u64,
    /// Reports of servers that were refused, since then; `None`: it does not go by reports.
    pub refused: Option<u64>,
    /// Turns in a row that brought nothing.
    nothing: u32,
    /// Whether the log has that it is silent.
    is_logged: bool,
    /// The last fault that the log has, and since when.
    logged: Option<(String, Instant)>,
}

/// While a sensor is silent, a fault that differs from the one in the log is logged so often at most.
const COMPLAINT: Duration = Duration::from_secs(60);

/// Said of a sensor that has had nothing to compare for longer than a reading holds.
const NOTHING: &str = "nothing to compare: the counter stands still, or is another one each time";

/// What a turn of a sensor has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Took {
    /// A reading.
    New,
    /// No new one is due: the last one still holds.
    Holds,
    /// Not yet one.
    Nothing,
}

/// Whether they are the same but for numbers.
fn is_same(one: &str, other: &str) -> bool {
    let words = |text: &str| -> String {
        text.chars().filter(|it| !it.is_ascii_digit() && !matches!(it, '.' | '-')).collect()
    };
    words(one) == words(other)
}

impl State {
    /// A turn failed at this moment; returns whether that is to be logged: at once if the sensor has just fallen silent, and then not
    /// again for the same fault, nor for another one until a while has passed.
    fn failed(&mut self, fault: String, at: Instant) -> bool {
        self.failures += 1;
        let is_known = self.logged.as_ref().is_some_and(|(known, _)| is_same(known, &fault));
        let is_due = match &self.logged {
            Some((_, last)) => at.saturating_duration_since(*last) >= COMPLAINT,
            None => true,
        };
        let has_begun = self.fault.is_none() && !is_known;
        let logs = (!self.is_logged || !is_known) && (is_due || has_begun);
        if logs {
            self.is_logged = true;
            self.logged = Some((fault.clone(), at));
        }
        self.fault = Some(fault);
        logs
    }
}

/// The sensors of a configuration.
#[derive(Debug)]
pub struct Sensors {
    settings: Vec<Sensor>,
    states: Mutex<Vec<State>>,
    /// Of each sensor that goes by reports of servers, what they report.
    tables: Vec<Option<Arc<Table>>>,
    reports: Reports,
}

impl Sensors {
    /// Sensors of which nothing is known yet.
    pub fn new(settings: Vec<Sensor>) -> Self {
        let states = Mutex::new(vec![State::default(); settings.len()]);
        let table = |it: &Sensor| match &it.measure {
            Measure::Orca(orca) => Some(Arc::new(Table::new(orca.clone()))),
            _ => None,
        };
        let tables: Vec<_> = settings.iter().map(table).collect();
        let reports = Reports::new(tables.iter().flatten().cloned().collect());
        Sensors { settings, states, tables, reports }
    }

    /// What the request path tells of servers' reports.
    pub(crate) fn reports(&self) -> &Reports {
        &self.reports
    }

    /// The reports that the sensor at that place goes by.
    pub(super) fn table(&self, place: usize) -> Option<&Arc<Table>> {
        self.tables[place].as_ref()
    }

    /// What they are to measure.
    pub fn settings(&self) -> &[Sensor] {
        &self.settings
    }

    /// How each of them is, in the order of the policy.
    pub fn states(&self) -> Vec<State> {
        let mut states = self.lock().clone();
        for (state, table) in states.iter_mut().zip(&self.tables) {
            state.refused = table.as_ref().map(|table| table.refused.total());
        }
        states
    }

    /// A sensor has had its turn. Logs when it falls silent, and when it is back.
    pub(super) fn took(&self, place: usize, taken: Result<Took>) {
        let mut states = self.lock();
        let (state, name) = (&mut states[place], &self.settings[place].name);
        let is_nothing = matches!(taken, Ok(Took::Nothing));
        state.nothing = if is_nothing { state.nothing.saturating_add(1) } else { 0 };
        let taken = match state.nothing > LASTING {
            true => Err(anyhow::anyhow!(NOTHING)),
            false => taken,
        };
        match taken {
            Ok(Took::New | Took::Holds) => {
                state.fault = None;
                if std::mem::take(&mut state.is_logged) {
                    tracing::info!("sensor {name}: measures again");
                }
            }
            Ok(Took::Nothing) => {}
            Err(idle) if idle.is::<Idle>() => state.fault = Some(idle.to_string()),
            Err(fault) => {
                let fault = format!("{fault:#}");
                if state.failed(fault.clone(), Instant::now()) {
                    tracing::warn!(
                        "sensor {name}: {fault}; it is tried again, and all else goes on"
                    );
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_a_line_a_minute_at_most_while_a_sensor_is_silent() {
        let (mut state, begun) = (State::default(), Instant::now());
        let mut failed = |fault: &str, seconds| {
            state.failed(fault.to_owned(), begun + Duration::from_secs(seconds))
        };
        assert!(failed("1.5 as utilization cannot be", 0));
        for seconds in 1..600 {
            let fault = format!("{seconds}.25 as utilization cannot be");
            assert!(!failed(&fault, seconds), "{seconds}");
        }
        assert!(failed("another", 600), "it is long since the last one");
        let said = (601..1200).filter(|it| failed(["one", "other"][*it as usize % 2], *it)).count();
        assert_eq!(said, 9);
        assert_eq!(state.failures, 1200);
        assert!(state.fault.is_some_and(|fault| fault == "other"));
    }

    #[test]
    fn a_sensor_that_comes_and_goes_is_said_once_a_minute_and_another_fault_at_once() {
        let (mut state, begun) = (State::default(), Instant::now());
        let mut said = |fault: &str, seconds| {
            (state.fault, state.is_logged) = (None, false);
            state.failed(fault.to_owned(), begun + Duration::from_secs(seconds))
        };
        assert_eq!((0..180).filter(|it| said("it is away", *it)).count(), 3);
        assert!(said("it is broken", 181));
    }

    #[test]
    fn a_sensor_that_brings_nothing_for_long_says_why() {
        let text =
            "[[sensor]]\nname = \"c\"\nmeasure = \"cpu\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n";
        let policy = crate::config::parse(text, "policy").expect("a policy");
        let sensors = Sensors::new(policy.sensors);
        let fault = || sensors.states()[0].fault.clone();
        for _ in 0..2 {
            for _ in 0..LASTING {
                sensors.took(0, Ok(Took::Nothing));
                assert_eq!(fault(), None, "it may yet come");
            }
            sensors.took(0, Ok(Took::Nothing));
            assert_eq!(fault().as_deref(), Some(NOTHING));
            sensors.took(0, Ok(Took::New));
            assert_eq!(fault(), None);
        }
        assert_eq!(sensors.states()[0].failures, 2);
    }

    #[test]
    fn a_fault_ends_when_the_last_reading_is_seen_to_hold() {
        let text = "[[sensor]]\nname = \"ram\"\nmeasure = \"memory\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n";
        let policy = crate::config::parse(text, "policy").expect("a policy");
        let sensors = Sensors::new(policy.sensors);
        let fault = || sensors.states()[0].fault.clone();
        sensors.took(0, Err(anyhow::anyhow!("no answer")));
        sensors.took(0, Ok(Took::Nothing));
        assert_eq!(fault().as_deref(), Some("no answer"));
        sensors.took(0, Ok(Took::Holds));
        assert_eq!(fault(), None);
    }
}
