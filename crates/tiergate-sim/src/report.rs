//! What came out of a simulation.

use crate::scenario::Expectation;
use crate::series::Series;
use crate::spread::Spread;
use tiergate_core::reason::Reason;
use tiergate_draw::{Paint, Table};

/// One class in one phase.
#[derive(Clone, Debug, Default)]
pub struct ClassReport {
    /// Requests that came in.
    pub arrived: u64,
    /// Answers that reached a client that was still there.
    pub good: u64,
    /// Refusals: full queue, deadline, or the server's own.
    pub refused: u64,
    /// Clients that left while their request waited.
    pub left_waiting: u64,
    /// Clients that left while the server worked for them.
    pub left_running: u64,
    /// 5xx, refused connections, time-outs of the gateway.
    pub failed: u64,
    /// Sessions begun: their first request came in.
    pub sessions: u64,
    /// Sessions begun whose first request was answered well, and that have ended.
    pub started: u64,
    /// Those of them that came to their end.
    pub completed: u64,
    /// From a session's first request to its last answer, of the completed ones.
    pub session: Spread,
    /// From arrival to answer, of the good ones.
    pub total: Spread,
    /// From the grant of the slot to the answer, of the good ones.
    pub service: Spread,
    /// From arrival until the server began to work, of all that it began with.
    pub wait: Spread,
    /// Refusals by [`Reason::index`].
    pub refused_by: [u64; Reason::COUNT],
    /// Time that the server spent on them, in seconds: of a worker, or from the first moment to the
    /// last at cores that are shared.
    pub work_s: f64,
    /// Of that, for clients who had left.
    pub wasted_s: f64,
}

impl ClassReport {
    /// Share of the requests that ended well; 1 if none ended.
    pub fn good_share(&self) -> f64 {
        let lost = self.refused + self.left_waiting + self.left_running + self.failed;
        match self.good + lost {
            0 => 1.0,
            ended => self.good as f64 / ended as f64,
        }
    }

    /// Share of the started sessions that came to their end; 1 if none was started.
    pub fn completed_share(&self) -> f64 {
        match self.started {
            0 => 1.0,
            started => self.completed as f64 / started as f64,
        }
    }

    /// The counts of all of these together.
    pub fn sum<'r>(reports: impl IntoIterator<Item = &'r ClassReport>) -> ClassReport {
        let mut sum = ClassReport::default();
        reports.into_iter().for_each(|report| sum.add(report));
        sum
    }

    /// Adds another's counts.
    fn add(&mut self, other: &ClassReport) {
        self.arrived += other.arrived;
        self.good += other.good;
        self.refused += other.refused;
        self.left_waiting += other.left_waiting;
        self.left_running += other.left_running;
        self.failed += other.failed;
        self.sessions += other.sessions;
        self.started += other.started;
        self.completed += other.completed;
        self.session.merge(&other.session);
        self.total.merge(&other.total);
        self.service.merge(&other.service);
        self.wait.merge(&other.wait);
        for (sum, more) in self.refused_by.iter_mut().zip(other.refused_by) {
            *sum += more;
        }
        self.work_s += other.work_s;
        self.wasted_s += other.wasted_s;
    }
}

/// One phase of a run.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Beginning, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// By class, most important first.
    pub classes: Vec<ClassReport>,
    /// The sessions of each population: the same counts, where several share a class.
    pub populations: Vec<ClassReport>,
    /// Slots times seconds, of all gateways together.
    pub slot_seconds: f64,
    /// By gateway.
    pub gateways: Vec<GatewayReport>,
}

/// One of the gateways in one phase.
#[derive(Clone, Debug, Default)]
pub struct GatewayReport {
    /// Slots times seconds.
    pub slot_seconds: f64,
    /// Requests in progress times seconds.
    pub busy_seconds: f64,
    /// Answers that reached a client that was still there.
    pub good: u64,
}

impl Phase {
    /// All classes together.
    pub fn all(&self) -> ClassReport {
        ClassReport::sum(&self.classes)
    }

    /// Good answers a second, all classes.
    pub fn goodput(&self) -> f64 {
        let good: u64 = self.classes.iter().map(|class| class.good).sum();
        good as f64 / self.seconds()
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_s - self.from_s
    }

    /// Mean number of slots.
    pub fn slots(&self) -> f64 {
        self.slot_seconds / self.seconds()
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Requests simulated.
    pub requests: u64,
    /// The phases in order.
    pub phases: Vec<Phase>,
    /// `(second, slots)` at each change.
    pub slots: Vec<(f64, u32)>,
    /// Connections closed by importance, in each second.
    pub closed: Vec<u32>,
    /// What came out over time.
    pub series: Series,
}

impl Report {
    /// A class over the whole run.
    pub fn class(&self, class: usize) -> ClassReport {
        ClassReport::sum(self.phases.iter().map(|phase| &phase.classes[class]))
    }

    /// Length of the run in seconds.
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(Phase::seconds).sum()
    }

    /// The expectations that were not met, in words; `classes`: the classes' names.
    ///
    /// # Panics
    /// If a phase or class is expected that is not there.
    pub fn unmet(&self, classes: &[&str], expected: &[Expectation]) -> Vec<String> {
        let mut list = Vec::new();
        for expectation in expected {
            self.compare(classes, expectation, &mut list);
        }
        list
    }

    fn compare(&self, names: &[&str], expected: &Expectation, list: &mut Vec<String>) {
        let phase = &self.phases[expected.phase];
        let (name, class) = match &expected.class {
            None => ("all", phase.all()),
            Some(name) => {
                let place = names.iter().position(|other| other == name);
                let place = place.expect("checked when the scenario was read");
                (name.as_str(), phase.classes[place].clone())
            }
        };
        let goodput = class.good as f64 / phase.seconds();
        let completed = class.completed_share();
        let bounds = [
            ("goodput", goodput, expected.goodput_min, expected.goodput_max),
            ("good share", class.good_share(), expected.good_share_min, None),
            ("completed share", completed, expected.completed_min, expected.completed_max),
            ("session ms", class.session.mean_ms(), None, expected.session_ms_max),
            ("p99 ms", class.total.quantile_ms(0.99), None, expected.p99_ms_max),
            ("service ms", class.service.mean_ms(), None, expected.service_ms_max),
            ("slots", phase.slots(), expected.slots_min, expected.slots_max),
        ];
        for (what, found, low, high) in bounds {
            if low.is_some_and(|low| found < low) || high.is_some_and(|high| found > high) {
                let low = low.map_or(String::new(), |low| format!(" at least {low}"));
                let high = high.map_or(String::new(), |high| format!(" at most {high}"));
                list.push(format!(
                    "phase {}, {name}: {what} is {found:.3}, expected{low}{high}",
                    expected.phase
                ));
            }
        }
    }

    /// The report as a table; `classes`: the classes' names.
    pub fn table(&self, classes: &[&str]) -> String {
        let mut table = Table::new([
            "phase",
            "<class",
            "arrived/s",
            "goodput/s",
            "good %",
            "p50 ms",
            "p99 ms",
            "service ms",
            "refused/s",
            "left/s",
            "slots",
        ]);
        for (place, phase) in self.phases.iter().enumerate() {
            let rate = |count: u64| format!("{:.1}", count as f64 / phase.seconds());
            let millis = |ms: f64| format!("{ms:.2}");
            for (class, name) in phase.classes.iter().zip(classes) {
                table.row([
                    place.to_string(),
                    (*name).to_owned(),
                    rate(class.arrived),
                    rate(class.good),
                    format!("{:.1}", 100.0 * class.good_share()),
                    millis(class.total.quantile_ms(0.5)),
                    millis(class.total.quantile_ms(0.99)),
                    millis(class.service.mean_ms()),
                    rate(class.refused + class.failed),
                    rate(class.left_waiting + class.left_running),
                    format!("{:.1}", phase.slots()),
                ]);
            }
        }
        table.render(Paint::stdout())
    }
}
