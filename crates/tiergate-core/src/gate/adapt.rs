//! Adaptations: once a period, with each new reading, their laws are asked and their set points move; and each request that one
//! applies to gets its level.
//!
//! ```text
//! readings ─▶ errors ─▶ laws ─▶ more or less of what is short ─▶ model: what a level of a class takes ─▶ set points
//! ```
//!
//! Of those that were refused, only those count that were because the server has too much to do, so that no flood that a policer refuses lowers anybody's
//! quality.
//!
//! Source: Abdelzaher 4.1 to 4.4.

use super::Gate;
use super::adapting::{AdaptationState, Adapter, Adapts};
use crate::adapt::{Adapted, LevelNumber, Part, Period, Said, Watch, of_client};
use crate::admit::inbound::PERIOD;
use crate::names::{AdaptationId, ClassId};
use crate::time::Moment;

/// After so many periods in a row without a reading, clients that are refused for their level are let in again, more in each period:
/// where answers bring the readings, none would come while all requests are refused. Slots still protect the server.
const BLIND_MAX: u32 = 10;
/// By how much the set points of refused clients rise in each period then.
const BLIND_RISE: f64 = 0.05;

impl<T> Gate<T> {
    /// The level of a request's answer; `None`: the plan in force has no such adaptation that acts. `client`: [`Adaptation::client`];
    /// `is_running`: its session runs already, so that it is not refused. O(adaptations + classes).
    ///
    /// [`Adaptation::client`]: crate::adapt::Adaptation::client
    pub fn level(
        &self,
        id: AdaptationId,
        class: ClassId,
        client: u64,
        is_running: bool,
    ) -> Option<Adapted> {
        let it = self.common.adapting.list.iter().find(|it| it.id == id)?;
        let highest = it.settings.highest();
        let set_point = it.points.of_class(class).unwrap_or(f64::from(highest));
        let level = of_client(set_point, client, highest);
        Some(Adapted { adaptation: id, level: if is_running { level.max(1) } else { level } })
    }

    /// Asks the laws if that is due; returns when it will be. [`Moment::NEVER`] without any.
    pub(super) fn adapt(&mut self, now: Moment) -> Moment {
        let mut adapting = std::mem::take(&mut self.common.adapting);
        let mut due = Moment::NEVER;
        for it in &mut adapting.list {
            if now >= it.since + PERIOD {
                let mut is_new = Vec::with_capacity(it.watches.len());
                for watch in &mut it.watches {
                    let watched = &watch.watched;
                    is_new.push(watch.read(self.reading(now, &watched.source, watched.reference)));
                }
                if it.watches.iter().all(|it| it.reading.is_none()) {
                    it.is_blind(now);
                } else if is_new.contains(&true) {
                    it.step(now, &is_new);
                }
                // Until there is another reading, what comes is counted on.
            }
            due = due.min(if now < it.since + PERIOD { it.since + PERIOD } else { now + PERIOD });
        }
        self.common.adapting = adapting;
        due
    }

    /// The adaptations of the plan in force.
    pub fn adaptations(&self) -> impl Iterator<Item = AdaptationState> + '_ {
        self.common.adapting.list.iter().map(Adapter::seen)
    }
}

impl Adapter {
    /// There is no reading: all stays as it is, for [`BLIND_MAX`] periods; then refusals become fewer.
    fn is_blind(&mut self, now: Moment) {
        self.watches.iter_mut().for_each(|it| it.is_blind());
        let seconds = now.since(self.since).as_secs_f64();
        self.points.came(seconds, |class| self.traffic.of_class(class));
        self.traffic.end(seconds);
        self.begin(now);
        self.is_without(true);
    }

    /// A reading is missing in this period. `may_rise`: no other asks for less.
    fn is_without(&mut self, may_rise: bool) {
        self.blind = self.blind.saturating_add(1);
        if may_rise && self.blind > BLIND_MAX {
            self.points.let_in(BLIND_RISE);
        }
        self.state = Adapts::Blind;
    }

    /// The next period begins.
    fn begin(&mut self, now: Moment) {
        self.traffic.begin();
        self.since = now;
    }

    /// Readings came: moves the set points.
    fn step(&mut self, now: Moment, is_new: &[bool]) {
        let seconds = now.since(self.since).as_secs_f64();
        let (least, highest) = (self.least(), self.settings.highest());
        self.traffic.end(seconds);
        let Adapter { floors, watches, traffic, points, settings, .. } = self;
        // Which of them is short, and what it says.
        let mut short: Option<(f64, usize, Said)> = None;
        let mut is_blind = false;
        for (place, (watch, is_new)) in watches.iter_mut().zip(is_new).enumerate() {
            let said = match watch.reading {
                None => {
                    watch.is_blind();
                    is_blind = true;
                    continue;
                }
                Some(reading) if *is_new => {
                    Some(watch.say(reading, traffic, seconds, settings.gain_margin))
                }
                Some(_) => watch.repeat(),
            };
            if let Some(said) = said {
                let part = watch.part(&said);
                if short.is_none_or(|(least, ..)| part < least) {
                    short = Some((part, place, said));
                }
            }
        }
        points.came(seconds, |class| traffic.of_class(class));
        if let Some(costs) = settings.costs {
            let Watch { model, reading, .. } = &watches[0];
            let levels = (least, highest);
            let reading = *reading;
            floors.step(&Period { costs, levels, model, traffic, seconds, reading }, points);
        }
        self.begin(now);
        // What is beyond its reference, or says nothing new, lets nobody in.
        let may_rise = short.is_some_and(|(.., said)| said.error >= 0.0);
        if let Some((_, place, said)) = short {
            let is_full = self.points.parts().iter().all(|it| it.set_point >= f64::from(highest));
            self.short = place;
            self.move_by(place, said, is_full, is_blind);
        }
        if is_blind {
            self.is_without(may_rise);
        } else {
            self.blind = 0;
            self.state = self.what();
        }
    }

    /// Moves the set points as the reading that is short says. `is_blind`: another one is not known, so that nothing may rise.
    fn move_by(&mut self, place: usize, said: Said, is_full: bool, is_blind: bool) {
        let (least, highest) = (self.least(), self.settings.highest());
        let mut by = said.by;
        if said.error >= 0.0 && is_full {
            // A reading that rises, and is below the reference, takes nothing from anybody yet.
            by = by.max(0.0);
        }
        if is_blind || !by.is_finite() {
            by = by.min(0.0);
        }
        // Guarantees are shares of what the first reading measures.
        let first = self.watches[0].part_used(&said);
        if by > 0.0 {
            by = self.floors.cut_by(by * first, &self.points) / first;
        }
        let said = Said { by, ..said };
        let (points, traffic, watch) = (&mut self.points, &self.traffic, &self.watches[place]);
        let all = points.rate().max(f64::MIN_POSITIVE);
        let gain = |part: &Part, level: LevelNumber| {
            let rate = part.rate;
            watch.gain(&said, traffic, (rate, rate / all), (part.set_point, level))
        };
        let left = points.move_by(by, least, highest, gain);
        if left < 0.0 {
            self.floors.cut_by(left * first, &self.points);
        }
    }
}

#[cfg(test)]
mod tests;
