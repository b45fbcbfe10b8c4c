//! The background in its pool: what it may have as the foreground comes and goes, and what the ends of requests tell of it.

use super::background::{Background, BackgroundBound, BackgroundState, MOST, SPARE};
use super::pool::Pool;
use crate::control::{BoundedBy, Completion};
use crate::names::LaneId;
use crate::outcome::End;
use crate::time::Moment;

/// What runs and waits, by whether it is in the background.
struct Loads {
    /// Foreground that waits for a slot of the pool, and that runs.
    waits: bool,
    runs: bool,
    /// Slots of the background.
    background: u32,
}

impl<T> Pool<T> {
    /// What the background does; `None`: the plan has none.
    pub fn background(&self) -> Option<BackgroundState> {
        self.background.as_ref().map(|it| BackgroundState {
            most: it.law.most(),
            running: it.running,
            is_quiet: it.is_quiet,
            felt: it.law.felt(),
            bounded_by: it.law.bounded_by().filter(|_| !it.is_quiet).map(|by| match by {
                BoundedBy::All => BackgroundBound::ResponseTimes,
                BoundedBy::Lane(lane) => BackgroundBound::Class(self.lanes.at(lane).class),
                BoundedBy::Throughput => BackgroundBound::Throughput,
                BoundedBy::Alarms => BackgroundBound::Slowdown,
                BoundedBy::Lasting => BackgroundBound::LastingEffect,
            }),
            rests_until: it.law.rests_until().filter(|_| !it.is_quiet),
        })
    }

    /// Whether requests of the lane that get slots now hold none of the limit: they are of the background, and the limit is found by what
    /// the foreground gets. A number that a policy gives is the most that may be in progress in all; and those that hold a slot of a resource
    /// hold what others wait for, as all requests do.
    pub(super) fn is_beside(&self, lane: LaneId) -> bool {
        let lane = self.lanes.at(lane);
        lane.is_background
            && lane.resource.is_none()
            && self.is_adaptive()
            && !self.limit.is_per_server()
            && self.background.as_ref().is_some_and(|it| !it.is_quiet)
    }

    /// Puts the background classes of the plan in force, and lanes of those that are gone.
    pub(super) fn reconfigure_background(&mut self, now: Moment) {
        let mut lanes = Vec::new();
        for id in self.lanes.ids() {
            let lane = self.lanes.at_mut(id);
            let was_apart = lane.is_apart();
            lane.is_background = self.classes.at(lane.class).settings.background;
            if lane.is_background {
                lanes.push(id);
            }
            if lane.waiting > 0 && was_apart != lane.is_apart() {
                let apart = &mut self.classes.load_mut(lane.class).apart;
                *apart = if was_apart { *apart - lane.waiting } else { *apart + lane.waiting };
            }
        }
        match lanes.is_empty() {
            true => self.background = None,
            false => {
                let background =
                    self.background.get_or_insert_with(|| Box::new(Background::new(now)));
                lanes.iter().for_each(|lane| background.law.forgets(*lane));
                background.lanes = lanes;
            }
        }
        for lane in self.lanes.ids() {
            self.hold(lane);
        }
    }

    /// A request of the lane comes: if it is of the foreground, it is not quiet any more.
    pub(super) fn note_foreground(&mut self, now: Moment, lane: LaneId) {
        if let Some(background) = &mut self.background
            && !self.lanes.at(lane).is_background
        {
            background.foreground_comes(now);
        }
    }

    /// Brings up to date what the background may have. Whether it may have slots now and might not before: [`Pool::dispatch`]
    /// follows. O(classes) where there is a background.
    pub(super) fn look_at_background(&mut self, now: Moment) -> bool {
        let Some(mut background) = self.background.take() else { return false };
        let Loads { waits, runs, background: running } = self.foreground();
        let slots = self.limit.slots();
        let most = if self.is_adaptive() { self.limit.most().min(MOST) } else { slots };
        let (present, outlives) = match background.is_quiet {
            true => (0, 0),
            false => (background.working, background.outlives),
        };
        background.law.pass(now, present, outlives, most);
        background.sees(now, waits || runs);
        // The origin has nothing to do for those that wait for their clients: that time is not to be paid for.
        background.working = running.saturating_sub(self.slow_beside.slots());
        background.outlives = background.outlived.slots(now);
        let running = running + self.lent.places() + background.outlives;
        background.looks(now, running, waits || self.limit.running() >= slots);
        let spare = if slots > 1 { (slots / SPARE).max(1) } else { 0 };
        // What an operator has set as the most is the most of both.
        let in_all = self.limit.running() + self.beside() + self.lent.of_background();
        let is_full = waits
            || self.limit.running() + spare >= slots
            || self.is_adaptive() && in_all >= self.limit.most()
            || running >= background.bound();
        let changes = background.is_full != is_full;
        background.is_full = is_full;
        let lanes = if changes { std::mem::take(&mut background.lanes) } else { Vec::new() };
        self.background = Some(background);
        if !changes {
            return false;
        }
        if self.ready() == 0 && lanes.iter().any(|lane| self.lanes.at(*lane).waiting > 0) {
            // Time that nobody waited in has not passed for the schedule yet.
            self.let_time_pass(now);
        }
        for &lane in &lanes {
            self.hold(lane);
        }
        if let Some(background) = &mut self.background {
            background.lanes = lanes;
        }
        !is_full
    }

    /// O(classes).
    fn foreground(&self) -> Loads {
        let mut loads = Loads { waits: false, runs: false, background: 0 };
        for (class, load) in self.classes.ranked().iter().zip(self.classes.loads()) {
            if self.classes.at(*class).settings.background {
                loads.background += load.all_running();
            } else {
                // Of a class that was in the background until a reload, some may still be beside the limit.
                loads.background += load.beside;
                loads.waits |= load.waiting > 0;
                loads.runs |= load.running > 0;
            }
        }
        loads
    }

    /// Whether the origin may have refused a request of the lane because of what is in progress beside the limit. O(classes).
    pub(super) fn is_doubtful(&self, now: Moment, lane: LaneId) -> bool {
        let is_present = self.background.as_ref().is_some_and(|it| it.is_present(now));
        is_present && !self.lanes.at(lane).is_background && self.beside() > 0
    }

    /// Slots that are none of the limit's. O(classes).
    fn beside(&self) -> u32 {
        self.classes.loads().iter().map(|load| load.beside).sum()
    }

    /// When the background wants to be looked at: somebody of it waits, and time may let it in. O(its lanes).
    pub(super) fn background_due(&self) -> Moment {
        let Some(background) = &self.background else { return Moment::NEVER };
        let waits = background.lanes.iter().any(|lane| self.lanes.at(*lane).waiting > 0);
        if waits && background.is_full { background.due() } else { Moment::NEVER }
    }

    /// Whether slots stay free that the background waits for while it is quiet.
    pub(super) fn keeps_from_background(&self) -> bool {
        let Some(background) = &self.background else { return false };
        let waits = |lane: &LaneId| self.lanes.at(*lane).waiting > 0;
        background.is_quiet && background.is_full && background.lanes.iter().any(waits)
    }

    /// Tells the background that a request that was admitted then hangs, while others of its kind that came later were answered: it may never be answered, or long after anything is known of who
    /// was beside it.
    pub(super) fn tell_background_of_overtaken(&mut self, admitted: Moment, lane: LaneId) {
        if let Some(background) = &mut self.background
            && !self.lanes.at(lane).is_background
        {
            background.law.answered(admitted, lane, None);
        }
    }

    /// Tells the background how a request with so many slots ended, and the limit what of that is no evidence.
    pub(super) fn tell_background(&mut self, completion: &Completion<'_>, slots: u16) {
        let Some(background) = &mut self.background else { return };
        let Completion { now, lane, flow, admitted, waited, outcome, .. } = *completion;
        if self.lanes.at(lane).is_background {
            let refused = matches!(outcome.end, End::Pushback | End::TimedOut | End::Failed);
            if outcome.end == End::TimedOut {
                background.outlived.add(now, now.since(admitted), slots);
            }
            // Of one that was not answered, it is known that it took longer.
            let took = match outcome.end {
                _ if outcome.is_answer() => outcome.first_byte,
                End::TimedOut | End::Cancelled => Some(now.since(admitted)),
                _ => None,
            };
            return background.law.ended(admitted, flow, took, refused);
        }
        background.foreground_ends(now);
        // Of one that was not answered, it is known that it took longer.
        let took = match outcome.end {
            End::Pushback | End::Failed | End::Error => None,
            _ if outcome.is_answer() => outcome.first_byte,
            End::TimedOut | End::Cancelled => Some(now.since(admitted)),
            _ => return,
        };
        background.law.answered(admitted - waited, lane, took.map(|took| waited + took));
        if outcome.is_answer() && background.disturbs(now) {
            // What the limit gives is not what it would give without what is in progress beside it.
            self.limit.is_away(now, None);
        }
    }
}
