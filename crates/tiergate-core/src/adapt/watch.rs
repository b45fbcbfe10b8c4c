//! A reading that an adaptation goes by: what it says of how much of its resource is to be used.
//!
//! What is beyond what the server can do is not to be seen from a reading: it says that all is in use, whether a third too
//! much comes or the tenfold. So the reading is multiplied by how many requests there were to serve for each that was.
//!
//! Where an adaptation has several, each has its law and its model, and the one that asks for the largest part less decides: the paper's server, of which either the
//! end system or the network is short, uses max(a R + b W, b' W).
//!
//! Source: Abdelzaher 4.3 and 4.4; 7.2, equation 9, for two resources.

use super::law::PiLaw;
use super::level::LevelNumber;
use super::model::{Estimate, Model};
use super::settings::Watched;
use super::traffic::Traffic;
use crate::admit::inbound::Reference;
use crate::time::Moment;

/// More requests than this for each answer, and the server has more to do than it does; fewer are those that a period cuts off.
const DEMAND_MIN: f64 = 1.1;
/// Most that is believed of that.
const DEMAND_MAX: f64 = 10.0;
/// A queue that is shorter than it may be says less than one that is longer: an empty one, nothing of how much more could be
/// done.
const SHORT_QUEUE: f64 = 0.25;
/// A resource is all in use where a reading is so far from the reference to all. How much too much there is to do is not to be seen then, and at
/// least so much less of what is used is to be used.
const ALL_IN_USE: f64 = 0.8;
const FALL_ALL_IN_USE: f64 = 0.08;
/// Nearer above a level than this, a step is no smaller for it; and where something was learned, nearer than this.
const FRACTION_MIN: f64 = 0.01;
const NEAR: f64 = 0.1;
/// Least part of the most that a level may take that is believed to be what it takes: what is learned lags behind, and readings that are late make it
/// less.
const LEARNED_MIN: f64 = 0.25;
/// Less use than that says nothing of a proportion.
const USED_MIN: f64 = 0.01;
/// By how many standard errors more than what was learned a level is believed to take while that is not known well.
const DOUBT: f64 = 2.0;

/// One reading of an adaptation.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) watched: Watched,
    law: PiLaw,
    pub(crate) model: Model,
    /// The latest reading; `None`: there is none that holds.
    pub(crate) reading: Option<f64>,
    /// When that came.
    read: Option<Moment>,
    /// What it said last.
    said: Option<Said>,
}

/// What a reading says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Said {
    /// By how much more of the resource is to be used.
    pub(crate) by: f64,
    /// How much of it would be used if all requests were served.
    pub(crate) used: f64,
    /// The reference, less that.
    pub(crate) error: f64,
}

impl Watch {
    pub(crate) fn new(watched: Watched) -> Self {
        Watch {
            watched,
            law: PiLaw::default(),
            model: Model::new(),
            reading: None,
            read: None,
            said: None,
        }
    }

    /// Takes in what holds now: a reading, and when it came. Returns whether it is a new one.
    pub(crate) fn read(&mut self, now: Option<(f64, Moment)>) -> bool {
        self.reading = now.map(|(reading, _)| reading);
        now.is_some_and(|(_, at)| self.read.replace(at) != Some(at))
    }

    /// There is no reading: the next one is compared with none.
    pub(crate) fn is_blind(&mut self) {
        self.law.is_blind();
        self.said = None;
    }

    /// What was learned is of something else now.
    pub(crate) fn forget_costs(&mut self) {
        self.model = Model::new();
    }

    /// Whether the reading is higher than it should be.
    pub(crate) fn is_beyond(&self) -> bool {
        self.reading.is_some_and(|reading| reading > self.watched.reference.value())
    }

    fn is_of_share(&self) -> bool {
        matches!(self.watched.reference, Reference::Utilization(_))
    }

    /// The reference as a share: half, where it is a queue's.
    fn reference_share(&self) -> f64 {
        match self.watched.reference {
            Reference::Utilization(_) => self.watched.reference.value(),
            Reference::QueueLen(_) => 0.5,
        }
    }

    /// What a new reading says, which is of so many seconds in which that was served.
    pub(crate) fn say(
        &mut self,
        reading: f64,
        traffic: &Traffic,
        seconds: f64,
        gain_margin: f64,
    ) -> Said {
        let demand = traffic.demand();
        let demand = if demand < DEMAND_MIN { 1.0 } else { demand.min(DEMAND_MAX) };
        let reference = self.watched.reference.value();
        let (used, error) = match self.watched.reference {
            Reference::Utilization(_) => {
                self.model.learn(&traffic.rates(seconds), reading);
                (reading * demand, reference - reading * demand)
            }
            Reference::QueueLen(_) => {
                // 1/2 at the reference, and never all. What is refused for want of capacity would be in the queue: refusals keep it short.
                let fill = (reading / (reading + reference)).max(1.0 - 0.5 / demand);
                let error = 0.5 - fill;
                (0.5, if error > 0.0 { error * SHORT_QUEUE } else { error })
            }
        };
        let mut by = self.law.next(gain_margin, error);
        if self.is_of_share() && reading >= reference + ALL_IN_USE * (1.0 - reference) {
            by = by.min(-FALL_ALL_IN_USE * used);
        }
        let said = Said { by, used, error };
        self.said = Some(said);
        said
    }

    /// What it says while its reading is not new: nothing but whether more may be used.
    pub(crate) fn repeat(&self) -> Option<Said> {
        self.said
            .map(|said| Said { by: if said.error > 0.0 { f64::INFINITY } else { 0.0 }, ..said })
    }

    /// How large a part of what may be used it asks for.
    pub(crate) fn part(&self, said: &Said) -> f64 {
        said.by / self.reference_share()
    }

    /// The ratio of its use to that of the resource whose reading said `other`.
    pub(crate) fn part_used(&self, other: &Said) -> f64 {
        let part = self.said.map_or(1.0, |said| said.used / other.used.max(USED_MIN));
        part.clamp(USED_MIN, 1.0 / USED_MIN)
    }

    /// By how much its use changes if a class, whose part of the requests that is and whose set point is so far above a level, gets the next one.
    pub(crate) fn gain(
        &self,
        said: &Said,
        traffic: &Traffic,
        (rate, part): (f64, f64),
        (set_point, level): (f64, LevelNumber),
    ) -> f64 {
        // Where next to nothing is used, that does not say that a rise would take nothing.
        let used = if said.by > 0.0 { said.used.max(self.reference_share()) } else { said.used };
        let own = used * part;
        let fraction = set_point - f64::from(level);
        // All that is used, if only this part of the requests uses it. Where level 0 is the other, so it is: refusals cost next to
        // nothing.
        let most = own / fraction.clamp(FRACTION_MIN, 1.0);
        if level == 0 || !self.is_of_share() {
            return most;
        }
        let least = LEARNED_MIN * own / fraction.clamp(NEAR, 1.0);
        let learned = self.model.change(&traffic.raised(rate, level));
        let errors = if learned.is_known() { 1.0 } else { DOUBT };
        (learned.value + errors * learned.error).clamp(least, most)
    }

    /// Share of it that a request a second takes, by level up to the highest, apart from its bytes; at level 0, a refusal.
    pub(crate) fn costs(&self, highest: LevelNumber) -> Vec<Estimate> {
        (0..=highest).map(|level| self.model.request(level)).collect()
    }
}
