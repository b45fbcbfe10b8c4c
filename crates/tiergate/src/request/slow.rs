//! Finds clients that a request waits for while it holds a slot: the slot is lent meanwhile; and those that are too slow.
//!
//! ```text
//! goes on ─▶ waits ── a lull ─▶ measured ── WINDOW ─▶ judged, and again
//!    ▲         │                   │                    │
//!    └─────────┴───────────────────┴────────────────────┘
//! ```
//!
//! What is judged is the time in which the request waited for nothing but its client: whether that is most of its time, and
//! whether what the client moves is worth it ([`Pace`]). A fast client costs a comparison at each wait, and no system call.

use crate::clock;
use crate::door::SlotGuard;
use crate::timers::Timer;
use std::task::Context;
use std::time::Duration;
use tiergate_core::gate::{ClientTime, Lends, Pace, Progress};
use tiergate_core::time::Moment;

/// Time between two judgements.
const WINDOW: Duration = Duration::from_secs(2);

/// What is known of a client's rate.
#[derive(Debug, Default)]
pub(super) struct SlowDetector(Option<Box<Watch>>);

/// Which way the bytes go that a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The client sends its request's body.
    Sends,
    /// It takes the answer.
    Takes,
}

impl Way {
    fn lends(self) -> Lends {
        match self {
            Way::Sends => Lends::Sends,
            Way::Takes => Lends::Takes,
        }
    }
}

/// Where a request is that has waited for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It does not wait now.
    GoesOn,
    /// It waits, and nothing was measured yet.
    Waits,
    /// It waits, and was measured at this moment.
    Measured(Moment),
}

#[derive(Debug)]
struct Watch {
    timer: Timer,
    phase: Phase,
    way: Way,
    /// `None` until the first measurement.
    pace: Option<Pace>,
    is_slow: bool,
    /// How much of the time is the client's, that way.
    client_time: ClientTime,
    /// Whether it waits for the link.
    awaits_link: bool,
    lent: Option<Lends>,
}

impl SlowDetector {
    /// The request waits for its client, which moves bytes that `way`; `progress` tells how many so far. Says
    /// whether it is to end because of it; the task is woken when that may have changed.
    pub(super) fn poll_waits(
        &mut self,
        way: Way,
        progress: impl FnOnce() -> Progress,
        rate_min: u64,
        slot: &mut Option<SlotGuard<'_>>,
        context: &mut Context<'_>,
    ) -> bool {
        let Some(slot) = slot else { return false };
        let watch = self.0.get_or_insert_with(|| Box::new(Watch::new(way)));
        let now = clock::recent();
        if watch.phase == Phase::GoesOn {
            // Where buffers are full for a moment, nothing is asked of the system.
            watch.phase = Phase::Waits;
            watch.timer.arm(way.lends().after());
            watch.client_time.begins(now);
        }
        let is_over = watch.timer.poll_expired(context);
        let now = if is_over { clock::now() } else { now };
        watch.lend(way, slot, now);
        if is_over {
            let is_slow = watch.measure(way, progress(), rate_min, now);
            if is_slow != watch.is_slow {
                let _ = slot.poll_slow(is_slow, context);
                watch.is_slow = is_slow;
                if is_slow && slot.is_beside() {
                    // One that kept its place has it again.
                    watch.lent = watch.lent.filter(|lends| *lends != Lends::Sends);
                }
            }
            watch.timer.arm(WINDOW);
            // So that the task is woken at its end.
            let _ = watch.timer.poll_expired(context);
        }
        watch.is_slow && slot.is_to_end()
    }

    /// The request waits for the link with its answer: no fault of its client's, but the origin has nothing to do for it either, so that the
    /// slot is lent. To be called each time that the task is woken meanwhile, until [`SlowDetector::goes_on`].
    pub(super) fn waits_for_link(
        &mut self,
        slot: &mut Option<SlotGuard<'_>>,
        context: &mut Context<'_>,
    ) {
        let Some(slot) = slot else { return };
        let watch = self.0.get_or_insert_with(|| Box::new(Watch::new(Way::Takes)));
        watch.lend(Way::Takes, slot, clock::recent());
        if watch.lent.is_none() && (!watch.awaits_link || watch.timer.poll_expired(context)) {
            watch.timer.arm(Lends::Takes.after());
            // So that the task is woken at its end, while it has no turn.
            let _ = watch.timer.poll_expired(context);
        }
        watch.awaits_link = true;
    }

    /// Whether the slot is lent while the client sends the body.
    pub(super) fn is_lent_to_send(&self) -> bool {
        self.0.as_ref().is_some_and(|watch| watch.lent == Some(Lends::Sends))
    }

    /// The request has a slot again.
    pub(super) fn is_back(&mut self) {
        if let Some(watch) = &mut self.0 {
            (watch.lent, watch.client_time) = (None, ClientTime::default());
        }
    }

    /// The request waits for the origin, or for nothing.
    pub(super) fn goes_on(&mut self, slot: &mut Option<SlotGuard<'_>>, context: &mut Context<'_>) {
        let Some(watch) = self.0.as_mut() else { return };
        let now = clock::recent();
        watch.client_time.ends(now);
        if watch.lent == Some(Lends::Takes)
            && watch.client_time.is_little(now, Lends::Takes)
            && slot.as_mut().is_some_and(|slot| slot.is_beside() && slot.resume())
        {
            watch.lent = None;
        }
        let waited = std::mem::replace(&mut watch.phase, Phase::GoesOn) != Phase::GoesOn;
        if !waited && !std::mem::take(&mut watch.awaits_link) {
            return;
        }
        watch.timer.arm(Duration::ZERO);
        if std::mem::take(&mut watch.is_slow)
            && let Some(slot) = slot
        {
            let _ = slot.poll_slow(false, context);
        }
    }
}

impl Watch {
    fn new(way: Way) -> Self {
        Watch {
            timer: Timer::new(),
            phase: Phase::GoesOn,
            way,
            pace: None,
            is_slow: false,
            client_time: ClientTime::default(),
            awaits_link: false,
            lent: None,
        }
    }

    /// Lends the slot, if most of the time is the client's, in a wait.
    fn lend(&mut self, way: Way, slot: &mut SlotGuard<'_>, now: Moment) {
        let lends = way.lends();
        if self.lent.is_some() {
            return self.client_time.begins(now);
        }
        if !self.client_time.is_most(now, lends) {
            return;
        }
        if slot.lend(lends) {
            self.lent = Some(lends);
        }
        // Where it may not, it is asked for again after as long; where it may, whether it still waits.
        self.client_time = ClientTime::default();
        self.client_time.begins(now);
    }

    /// Takes in what the client has moved; says whether it is slow.
    fn measure(&mut self, way: Way, progress: Progress, rate_min: u64, now: Moment) -> bool {
        let before = std::mem::replace(&mut self.phase, Phase::Measured(now));
        let Some(pace) = &mut self.pace else {
            self.pace = Some(Pace::new(progress));
            return false;
        };
        if way != self.way {
            // A body and an answer may take turns: each is counted by itself.
            self.way = way;
            self.client_time = ClientTime::default();
            pace.turn(progress);
            return false;
        }
        match before {
            Phase::Measured(then) => pace.is_slow(progress, now.since(then), rate_min),
            Phase::GoesOn | Phase::Waits => {
                pace.moved(progress, rate_min);
                false
            }
        }
    }
}
