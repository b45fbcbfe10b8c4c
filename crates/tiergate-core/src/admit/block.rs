//! Blocking: a flow that is refused again and again is, for a while, refused before anything else is
//! looked at.
//!
//! A client that repeats a refused request at once costs the classifier's time, the gate's lock and a
//! place in the queue that somebody else would have had, and gets nothing for it. So a flow that is refused
//! `after` times `within` a time is blocked for a while. Being blocked is no refusal that counts: the
//! block ends by itself, however much the flow sends meanwhile, and it then begins with nothing against
//! it.
//!
//! What is counted of a flow is one number: refusals since the first of them, and when that was. When
//! `within` has passed since the first, counting begins anew. So a flow is never blocked that was not
//! refused `after` times within `within`, and always one that was refused `2 × after - 1` times within
//! it, to the millisecond.
//!
//! Bounds: a table of `flows_max` flows, 24 bytes each. A flow for which there is no place among others
//! that count is not counted, and refused like anybody.
//!
//! Source: Voigt B §4.5.1 (for every reset that is sent, the client's connections are dropped for a while,
//! which moves the onset of thrashing up); by flow, and only after several: ours.

use crate::collections::FlowTable;
use crate::time::Moment;
use std::time::Duration;

/// When a flow is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Refusals after which a flow is blocked, 1 to [`Settings::AFTER_MAX`].
    pub after: u32,
    /// The time that they must come in; at least a millisecond.
    pub within: Duration,
    /// How long it is blocked; at least a millisecond.
    pub lasting: Duration,
    /// How many flows with refusals are told apart at once: 24 bytes each.
    pub flows_max: u32,
}

impl Settings {
    /// Most refusals that are counted of a flow.
    pub const AFTER_MAX: u32 = 10_000;
    /// Most flows: 240 MB.
    pub const FLOWS_MAX: u32 = 10_000_000;
    /// Longest times.
    pub const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

    /// Checks what blocking relies on.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        let times = Duration::from_millis(1)..=Self::TIME_MAX;
        if !(1..=Self::AFTER_MAX).contains(&self.after) {
            return Err("`after` must be 1 to 10000");
        }
        if !times.contains(&self.within) || !times.contains(&self.lasting) {
            return Err("times must be a millisecond to a day");
        }
        if !(1..=Self::FLOWS_MAX).contains(&self.flows_max) {
            return Err("`flows_max` must be 1 to 10000000");
        }
        Ok(())
    }
}

/// A flow's number: milliseconds of a moment in the lower bits; above them the count, or that it is
/// blocked until then. 0: nothing.
const MOMENT_BITS: u32 = 48;
const BLOCKED: u64 = 1 << 63;

/// Who was refused how often, and who is blocked.
#[derive(Clone, Debug)]
pub(crate) struct Blocking {
    settings: Settings,
    within_ms: u64,
    table: FlowTable,
    /// From this millisecond on nobody is blocked, so that nothing need be looked up.
    last_until: u64,
}

impl Blocking {
    /// Nobody has been refused yet.
    pub(crate) fn new(settings: Settings) -> Self {
        Blocking {
            settings,
            within_ms: within_ms(&settings),
            table: FlowTable::for_flows(settings.flows_max),
            last_until: 0,
        }
    }

    /// Puts other settings in force. What is known stays, unless the table has another size; whether it
    /// does.
    pub(crate) fn reconfigure(&mut self, settings: Settings) -> bool {
        let is_kept = settings.flows_max == self.settings.flows_max;
        if is_kept {
            (self.settings, self.within_ms) = (settings, within_ms(&settings));
        } else {
            *self = Blocking::new(settings);
        }
        is_kept
    }

    /// How long the flow is still blocked; `None`: it is not. O(1), and a comparison while no flow is.
    pub(crate) fn left(&self, now: Moment, flow: u64) -> Option<Duration> {
        let now_ms = millis(now);
        if now_ms >= self.last_until {
            return None;
        }
        let number = self.table.number(flow);
        let blocked = number & BLOCKED != 0 && !is_over(number, now_ms, self.within_ms);
        // The end is kept in whole milliseconds, rounded up.
        blocked.then(|| Moment::from_millis(moment(number)).since(now).min(self.settings.lasting))
    }

    /// The flow was refused. Returns until when it is blocked, if it is from now on. O(1).
    pub(crate) fn refused(&mut self, now: Moment, flow: u64) -> Option<Moment> {
        let (now_ms, within_ms) = (millis(now), self.within_ms);
        let is_over = |number| is_over(number, now_ms, within_ms);
        let number = self.table.entry(flow, is_over)?;
        let (count, since) = match is_over(*number) {
            true => (1, now_ms),
            // Refused by what it had begun before it was blocked.
            false if *number & BLOCKED != 0 => return None,
            false => ((*number >> MOMENT_BITS) + 1, moment(*number)),
        };
        if count < u64::from(self.settings.after) {
            *number = count << MOMENT_BITS | since;
            return None;
        }
        let until = millis(now + self.settings.lasting + Duration::from_nanos(999_999));
        *number = BLOCKED | until;
        self.last_until = self.last_until.max(until);
        Some(Moment::from_millis(until))
    }
}

/// Whether a number means nothing any more.
fn is_over(number: u64, now_ms: u64, within_ms: u64) -> bool {
    match number & BLOCKED {
        0 => number == 0 || now_ms.saturating_sub(moment(number)) >= within_ms,
        _ => moment(number) <= now_ms,
    }
}

fn within_ms(settings: &Settings) -> u64 {
    settings.within.as_nanos().div_ceil(1_000_000) as u64
}

/// 584 years have 45 bits of milliseconds.
fn millis(moment: Moment) -> u64 {
    moment.nanos() / 1_000_000
}

fn moment(number: u64) -> u64 {
    number & ((1 << MOMENT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const SETTINGS: Settings = Settings {
        after: 3,
        within: Duration::from_millis(1000),
        lasting: Duration::from_millis(500),
        flows_max: 1000,
    };

    fn at(ms: u64) -> Moment {
        Moment::from_millis(ms)
    }

    #[test]
    fn the_while_is_never_longer_than_said() {
        let mut blocking = Blocking::new(SETTINGS);
        let begin = at(5) + Duration::from_nanos(1);
        for _ in 0..3 {
            blocking.refused(begin, 7);
        }
        assert_eq!(blocking.left(begin, 7), Some(SETTINGS.lasting));
    }

    #[test]
    fn it_begins_after_so_many_and_ends_by_itself() {
        let mut blocking = Blocking::new(SETTINGS);
        for ms in [0, 400] {
            blocking.refused(at(ms), 7);
            assert_eq!(blocking.left(at(ms), 7), None);
        }
        blocking.refused(at(900), 7);
        assert_eq!(blocking.left(at(900), 7), Some(SETTINGS.lasting));
        assert_eq!(blocking.left(at(900), 8), None, "another flow");
        // What it does meanwhile changes nothing.
        blocking.refused(at(1300), 7);
        assert_eq!(blocking.left(at(1399), 7), Some(Duration::from_millis(1)));
        assert_eq!(blocking.left(at(1400), 7), None);
        blocking.refused(at(1400), 7);
        blocking.refused(at(1400), 7);
        assert_eq!(blocking.left(at(1400), 7), None, "it begins with nothing against it");
        blocking.refused(at(1400), 7);
        assert!(blocking.left(at(1400), 7).is_some());
    }

    #[test]
    fn refusals_that_come_slowly_count_for_nothing() {
        let mut blocking = Blocking::new(SETTINGS);
        for ms in (0..100_000).step_by(500) {
            blocking.refused(at(ms), 7);
            assert_eq!(blocking.left(at(ms), 7), None, "at {ms} ms");
        }
    }

    #[test]
    fn a_table_that_is_full_of_others_counts_nobody_else_and_forgets_nobody() {
        let mut blocking = Blocking::new(Settings { flows_max: 10, after: 1, ..SETTINGS });
        let flow = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 1..=1000 {
            blocking.refused(at(0), flow(number));
        }
        let blocked = |blocking: &Blocking, ms| {
            (1..=1000).filter(|&number| blocking.left(at(ms), flow(number)).is_some()).count()
        };
        assert!((10..=16).contains(&blocked(&blocking, 0)), "{}", blocked(&blocking, 0));
        assert_eq!(blocked(&blocking, 500), 0);
        blocking.refused(at(500), flow(1000));
        assert_eq!(blocked(&blocking, 501), 1, "there is room again");
    }

    #[test]
    fn a_reload_keeps_who_is_blocked() {
        let mut blocking = Blocking::new(SETTINGS);
        for _ in 0..3 {
            blocking.refused(at(0), 7);
        }
        assert!(blocking.reconfigure(Settings { after: 9, ..SETTINGS }));
        assert!(blocking.left(at(100), 7).is_some());
        assert!(!blocking.reconfigure(Settings { flows_max: 5000, ..SETTINGS }));
        assert_eq!(blocking.left(at(100), 7), None);
    }

    proptest! {
        /// By all refusals of each flow, kept whole.
        #[test]
        fn a_blocked_flow_was(
            after in 1_u32..6,
            gaps in prop::collection::vec((0_u64..400, 0_u64..3), 1..200),
        ) {
            let settings = Settings { after, ..SETTINGS };
            let mut blocking = Blocking::new(settings);
            let (within, lasting) = (1000, 500);
            // Refusals that counted since the flow was last blocked, and until when it is.
            let mut known: HashMap<u64, (Vec<u64>, u64)> = HashMap::new();
            let mut now = 0;
            for (gap, flow) in gaps {
                now += gap;
                let (times, until) = known.entry(flow).or_default();
                let was = blocking.left(at(now), flow << 60 | 1).is_some();
                prop_assert_eq!(was, now < *until, "it lasts as long as it should");
                blocking.refused(at(now), flow << 60 | 1);
                if was {
                    continue;
                }
                times.push(now);
                let recent = times.iter().filter(|&&time| now - time < within).count() as u32;
                let blocked = blocking.left(at(now), flow << 60 | 1).is_some();
                if blocked {
                    prop_assert!(recent >= after, "{} of {}", recent, after);
                    times.clear();
                    *until = now + lasting;
                } else {
                    prop_assert!(recent < 2 * after - 1, "{} of {}", recent, after);
                }
            }
        }
    }
}
