//! Background classes: they use what is idle at the origin, so that the foreground does not feel it.
//!
//! A background request gets a slot only while nobody of the foreground waits, some slots stay free beside it for those who may come
//! next, and no more background requests are in progress than the foreground feels ([`Unfelt`]). While it gets none it is held up,
//! as by a resource of which no slot is free: no policy sees it, and its waiting is no sign of what the origin can do. Where nobody of the
//! foreground has come for a while (it is quiet) there is nobody to feel anything: then it is served like any other class, but for the
//! slots that stay free.
//!
//! What it may have as requests come and end is in `in_background`.
//!
//! | the limit | foreground is there | it is quiet |
//! |---|---|---|
//! | is found | slots beside the limit's, and nothing that it does is evidence | slots of the limit |
//! | is given, or each server has its own | slots of the limit | slots of the limit |
//!
//! Source: Eggert and Heidemann, "Application-Level Differentiated Services for Web Servers" (1999), §4: background service that
//! does not disturb the regular service. Its fixed pool of processes, which each held
//! its answer until that was sent, is not built: a [resource](super::resource) with a fixed number is held only until the origin is done.

use super::outlived::Outlived;
use super::visits::Visits;
use crate::control::{Felt, Unfelt};
use crate::names::{ClassId, LaneId};
use crate::time::Moment;
use std::time::Duration;

/// How long nobody of the foreground is there before nobody is expected: this, as many times the time between two that
/// come, and never longer than that.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_GAPS: u32 = 10;
const QUIET_MAX: Duration = Duration::from_secs(10);
/// By how much of the difference the time between two moves.
const GAP_STEP: f64 = 0.1;
/// Visitors who come a page at a time leave lulls in between: nobody is expected after as many times as long as these usually last.
const QUIET_LULLS: u32 = 3;
/// One slot in so many, and one at least where there are several, stays free beside the background.
pub(super) const SPARE: u32 = 8;
/// Most of its requests in progress.
pub(super) const MOST: u32 = 1_000;
/// For how long without a break what is in progress beside the limit disturbs what it gives, while it is full: then it lasts, and is as if
/// the origin were smaller.
const DISTURBED_MAX: Duration = Duration::from_secs(10);
/// For so long after it was full the limit counts as that: a slot is free for a moment whenever a request ends. Nor is it a break for the background if it
/// has nothing in progress for no longer.
const FULL: Duration = Duration::from_secs(1);

/// While none of it ends for so long and others of it wait, the one with the slowest client is ended.
const STUCK: Duration = Duration::from_secs(10);

/// What the background of a pool does at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackgroundState {
    /// How many of its requests may be in progress, on average, while the foreground is there.
    pub most: f64,
    /// How many are.
    pub running: u32,
    /// Whether nobody of the foreground has been there for a while, so that only the free slots bound it.
    pub is_quiet: bool,
    /// By how much it makes the foreground's requests longer.
    pub felt: Felt,
    /// What keeps it from having more in progress, as far as that is known.
    pub bounded_by: Option<BackgroundBound>,
    /// Until when it has nothing while others are there, to show what it makes slower for longer than its turns, or because of what that has shown.
    pub rests_until: Option<Moment>,
}

/// What keeps the background from having more requests in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundBound {
    /// What requests of the foreground take, of all its classes together.
    ResponseTimes,
    /// What those of one class take.
    Class(ClassId),
    /// More of it would only wait for each other.
    Throughput,
    /// With more, requests of the foreground suddenly took far longer.
    Slowdown,
    /// With more, they took longer for as long as the background was there, and not only in its turns.
    LastingEffect,
}

/// The background of a pool.
#[derive(Debug)]
pub(super) struct Background {
    pub(super) law: Unfelt,
    /// Its lanes.
    pub(super) lanes: Vec<LaneId>,
    /// Whether its requests are held up.
    pub(super) is_full: bool,
    /// Places that it has, as of the last look: slots, those of uploads that are lent, and those that have outlived their time.
    pub(super) running: u32,
    /// The slots without those that wait for their clients.
    pub(super) working: u32,
    /// Those that the origin may work on although their time was over; how many, as of the last look.
    pub(super) outlived: Outlived,
    pub(super) outlives: u32,
    /// When anybody of the foreground was last there, and how far apart they come; whether somebody was there at the last look.
    busy: Moment,
    gap_s: f64,
    answered: Moment,
    is_foreground_there: bool,
    visits: Visits,
    pub(super) is_quiet: bool,
    /// When the foreground filled the limit last.
    full_at: Option<Moment>,
    /// When a request of it ended last, or made room for the next, or the first of them began.
    moved_at: Moment,
    /// Since when something of the background has been in progress without a break that counts; and when it last was.
    present_since: Option<Moment>,
    present_at: Moment,
}

impl Background {
    pub(super) fn new(now: Moment) -> Self {
        Background {
            law: Unfelt::new(now),
            lanes: Vec::new(),
            is_full: false,
            running: 0,
            working: 0,
            outlived: Outlived::default(),
            outlives: 0,
            busy: now,
            gap_s: 0.0,
            answered: now,
            is_foreground_there: false,
            visits: Visits::none(now),
            is_quiet: false,
            full_at: None,
            moved_at: now,
            present_since: None,
            present_at: now,
        }
    }

    /// How many of its requests may be in progress now.
    pub(super) fn bound(&self) -> u32 {
        if self.is_quiet { u32::MAX } else { self.law.bound() }
    }

    /// Whether those in progress have long kept all others of it waiting.
    pub(super) fn is_stuck(&self, now: Moment) -> bool {
        let is_crowded = self.is_full && self.running > 0 && self.running >= self.bound();
        is_crowded && now.since(self.moved_at) >= STUCK
    }

    /// How long nobody of the foreground must have been there for nobody to be expected.
    fn quiet(&self) -> Duration {
        let gap = Duration::try_from_secs_f64(self.gap_s).unwrap_or(QUIET_MAX);
        let quiet = (QUIET_GAPS * gap.min(QUIET_MAX)).clamp(QUIET, QUIET_MAX);
        self.visits.usual_lull().map_or(quiet, |lull| quiet.max(QUIET_LULLS * lull))
    }

    /// A request of the foreground comes.
    pub(super) fn foreground_comes(&mut self, now: Moment) {
        self.sees(now, true);
        self.visits.came();
        self.law.came();
    }

    /// Somebody of the foreground is there, or is not.
    pub(super) fn sees(&mut self, now: Moment, is_foreground_there: bool) {
        let was_there = std::mem::replace(&mut self.is_foreground_there, is_foreground_there);
        if is_foreground_there {
            let is_lull = !was_there && now.since(self.busy) > QUIET;
            let was_short = is_lull && self.visits.begins(now, self.busy);
            self.busy = self.busy.max(now);
            if std::mem::take(&mut self.is_quiet) {
                // Who comes a page at a time is there all the time, as it were.
                let go_on = was_short && self.visits.usual_lull().is_some();
                self.law.begins_anew(now, self.working, go_on);
            }
        } else if now.since(self.busy) >= self.quiet() {
            self.is_quiet = true;
        }
    }

    /// When what it may have changes, if nothing but time does.
    pub(super) fn due(&self) -> Moment {
        if self.is_quiet {
            Moment::NEVER
        } else {
            self.law.turn_ends().min(self.busy + self.quiet()).min(self.outlived.due())
        }
    }

    /// A request of the foreground has ended.
    pub(super) fn foreground_ends(&mut self, now: Moment) {
        let gap_s = now.since(self.answered).as_secs_f64().min(QUIET_MAX.as_secs_f64());
        self.gap_s += GAP_STEP * (gap_s - self.gap_s);
        (self.answered, self.busy) = (now, self.busy.max(now));
    }

    /// So many of it are in progress, and the foreground fills the limit or does not.
    pub(super) fn looks(&mut self, now: Moment, running: u32, is_limit_full: bool) {
        let before = std::mem::replace(&mut self.running, running);
        // In a rest nobody could begin in the place of another.
        let rests = self.law.rests_until().is_some() && !self.is_quiet;
        if running < before || before == 0 || rests {
            self.moved_at = now;
        }
        if running > 0 {
            let is_break = now.since(self.present_at) > FULL;
            self.present_since = self.present_since.filter(|_| !is_break).or(Some(now));
            self.present_at = now;
        } else if self.bound() == 0 {
            // It pauses for the contrast: what the limit gives meanwhile is evidence.
            self.present_since = None;
        }
        if is_limit_full {
            self.full_at = Some(now);
        }
    }

    /// Whether what the origin refuses may be refused because of what is in progress beside the limit.
    pub(super) fn is_present(&self, now: Moment) -> bool {
        let is_new = |since| now.since(since) < DISTURBED_MAX;
        self.running > 0 && self.present_since.is_some_and(is_new)
    }

    /// Whether what the limit gives says nothing, because of what is in progress beside it.
    pub(super) fn disturbs(&self, now: Moment) -> bool {
        self.is_present(now) && self.full_at.is_some_and(|at| now.since(at) < FULL)
    }
}
