//! The sensors of a configuration, and what is wrong with them.

use super::probe::Idle;
use super::reports::{Reports, Table};
use crate::config::meant::{Measure, Sensor};
use anyhow::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a sensor is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Why it has no reading now; `None`: it has one, or will with the next.
    pub fault: Option<String>,
    /// Readings that failed, since the sensor was configured.
    pub failures: u64,
    /// Reports of servers that were refused, since then; `None`: it does not go by reports.
    pub refused: Option<u64>,
    /// Whether the log has the fault.
    is_logged: bool,
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

    /// A reading was taken (whether it is one), or it was not. Logs when a sensor fails, and when it is back.
    pub(super) fn took(&self, place: usize, taken: Result<bool>) {
        let mut states = self.lock();
        let (state, name) = (&mut states[place], &self.settings[place].name);
        match taken {
            Ok(true) => {
                state.fault = None;
                if std::mem::take(&mut state.is_logged) {
                    tracing::info!("sensor {name}: measures again");
                }
            }
            Ok(false) => {}
            Err(idle) if idle.is::<Idle>() => state.fault = Some(idle.to_string()),
            Err(fault) => {
                state.failures += 1;
                let fault = format!("{fault:#}");
                if state.fault.as_ref() != Some(&fault) {
                    state.is_logged = true;
                    tracing::warn!(
                        "sensor {name}: {fault}; it is tried again, and all else goes on"
                    );
                }
                state.fault = Some(fault);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
