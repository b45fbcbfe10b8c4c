//! When the kernel polices: as the last resort, while refusing requests in the gateway is a considerable part of its work.
//!
//! A dropped SYN tells the client nothing; a refusal says why and for how long. So the gateway refuses as long as that is little beside what it serves. Only when, for some windows
//! one after the other, those that policers refuse are more than a share of what comes does the kernel police, too. What it drops counts as refused: otherwise its own success would turn it off.
//! Refusals for want of capacity do not begin it: dropping more would serve nobody sooner, and would be of SYNs whose tokens were spent on requests that the queue refused.
//! A flood of SYNs brings no request that could be refused. So SYNs for which the system's own queue had no room, and of whose clients nothing more came, count as refused, too. Where they are thousands, and
//! hardly anything else comes, two looks are enough: who asks meanwhile finds no room either. One is not: cookies that it sees sent may come back before the next.
//! It stops when for a longer time hardly anything is refused or dropped.
//!
//! Source: Voigt D §3.2 (SYN policing begins only where control by resource does not suffice), Voigt B §4.5 (the cheapest refusal at the highest load). Shares and hysteresis: ours.

use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

/// How long one window is.
pub const WINDOW: Duration = Duration::from_secs(1);
/// So many windows of overload begin policing.
pub(super) const BEGIN: u32 = 3;
/// So many without it end it.
pub(super) const END: u32 = 10;
/// A process that hardly gets a processor looks seldom: so many windows one look may stand for, as that at a flood does. Fewer than begin it: two looks agree.
const AT_ONCE: u32 = 2;
/// From so many SYNs without room in a second it is a flood, if they are this part of what comes.
const FLOOD_MIN: u64 = 10_000;
const FLOOD_PART: f64 = 0.9;
/// Fewer refusals in a second cost too little to be an overload.
const REFUSED_MIN: u64 = 50;
/// It ends below this part of the share that it begins at.
const END_PART: f64 = 0.1;

/// What was counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Requests that arrived at the gate.
    pub arrived: u64,
    /// Of them, those refused for want of a token of a policer's.
    pub refused: u64,
    /// SYNs and first requests that the kernel refused for want of a token.
    pub dropped: u64,
    /// SYNs that found the system's queue full, less those whose clients got a connection all the same.
    pub unqueued: u64,
}

impl Counted {
    /// Adds what the gate has counted of a class: of the refusals only those that policing in the kernel would have spared it.
    pub fn add(&mut self, arrived: u64, refused: impl IntoIterator<Item = (Reason, u64)>) {
        self.arrived += arrived;
        let by_policers = refused.into_iter().filter(|(reason, _)| is_by_a_policer(*reason));
        self.refused += by_policers.map(|(_, count)| count).sum::<u64>();
    }
}

/// Whether a policer refused it, as the kernel might have.
const fn is_by_a_policer(reason: Reason) -> bool {
    matches!(reason, Reason::Policed | Reason::SitePoliced)
}

/// Whether the kernel polices.
#[derive(Clone, Debug)]
pub struct Overload {
    /// The share of what comes that policers must refuse.
    share: f64,
    is_on: bool,
    /// How many windows one after the other said the other thing.
    windows: u32,
    since: Option<(Moment, Counted)>,
}

impl Overload {
    /// None yet. `share`: which part of what comes must be refused, above 0 and at most 1.
    pub fn new(share: f64) -> Self {
        Overload { share, is_on: false, windows: 0, since: None }
    }

    /// Another share from now on.
    pub fn reconfigure(&mut self, share: f64) {
        self.share = share;
    }

    /// Whether the kernel polices now.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// What was counted until now, once a [`WINDOW`]; sooner is ignored. Returns whether it began or ended.
    pub fn observe(&mut self, now: Moment, counted: Counted) -> Option<bool> {
        let Some((since, before)) = self.since else {
            self.since = Some((now, counted));
            return None;
        };
        // A timer may be a little early.
        let lasted = now.since(since);
        if lasted < WINDOW * 9 / 10 {
            return None;
        }
        let seconds = lasted.as_secs().max(1);
        self.since = Some((now, counted));
        // Another gate counts from zero.
        let of = |it: fn(&Counted) -> u64| it(&counted).saturating_sub(it(&before));
        let early = of(|it| it.dropped) + of(|it| it.unqueued);
        let [came, refused] = [of(|it| it.arrived) + early, of(|it| it.refused) + early];
        let part = if came == 0 { 0.0 } else { refused as f64 / came as f64 };
        let is_overload = refused >= REFUSED_MIN * seconds && part >= self.share;
        let is_over = refused < REFUSED_MIN * seconds / 10 || part < self.share * END_PART;
        let unqueued = of(|it| it.unqueued);
        let is_flood =
            unqueued >= FLOOD_MIN * seconds && unqueued as f64 >= FLOOD_PART * came as f64;
        let turns = if self.is_on { is_over } else { is_overload };
        let windows = if is_flood || seconds > 1 { AT_ONCE } else { 1 };
        self.windows = if turns { self.windows + windows } else { 0 };
        if self.windows < if self.is_on { END } else { BEGIN } {
            return None;
        }
        (self.is_on, self.windows) = (!self.is_on, 0);
        Some(self.is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many windows with these numbers in each; whether it is on afterwards.
    fn windows(it: &mut Overload, state: &mut (u64, Counted), count: u64, each: [u64; 3]) -> bool {
        for _ in 0..count {
            state.0 += 1;
            let [arrived, refused, dropped] = each;
            state.1.arrived += arrived;
            state.1.refused += refused;
            state.1.dropped += dropped;
            it.observe(Moment::from_millis(state.0 * 1000), state.1);
        }
        it.is_on()
    }

    #[test]
    fn it_begins_after_some_windows_and_its_own_drops_keep_it() {
        let (mut it, mut state) = (Overload::new(0.2), (0, Counted::default()));
        assert!(!windows(&mut it, &mut state, 20, [1000, 199, 0]), "a fifth is not refused");
        assert!(!windows(&mut it, &mut state, 2, [1000, 300, 0]));
        assert!(!windows(&mut it, &mut state, 1, [1000, 0, 0]), "counted anew");
        assert!(!windows(&mut it, &mut state, 2, [1000, 300, 0]));
        assert!(windows(&mut it, &mut state, 1, [1000, 300, 0]));
        assert!(windows(&mut it, &mut state, 100, [700, 0, 300]), "they come still");
        assert!(windows(&mut it, &mut state, 9, [700, 0, 3]));
        assert!(windows(&mut it, &mut state, 1, [700, 30, 0]));
        assert!(windows(&mut it, &mut state, 9, [700, 13, 0]));
        assert!(!windows(&mut it, &mut state, 1, [700, 13, 0]));
    }

    #[test]
    fn what_is_refused_for_want_of_capacity_begins_nothing() {
        let (mut it, mut counted) = (Overload::new(0.2), Counted::default());
        for second in 0..20_u64 {
            let refused = Reason::ALL.into_iter().map(|reason| match reason {
                Reason::Policed | Reason::SitePoliced => (reason, 95),
                _ => (reason, 10_000),
            });
            counted.add(1000, refused);
            it.observe(Moment::from_millis(second * 1000), counted);
        }
        assert_eq!(counted, Counted { arrived: 20_000, refused: 20 * 190, ..Counted::default() });
        assert!(!it.is_on());
        // Half as much again by policers does.
        for second in 20..24 {
            counted.add(1000, [(Reason::Policed, 285), (Reason::QueueFull, 0)]);
            it.observe(Moment::from_millis(second * 1000), counted);
        }
        assert!(it.is_on());
    }

    #[test]
    fn a_flood_that_brings_no_request_begins_it_and_what_is_dropped_of_it_keeps_it() {
        let (mut it, mut counted) = (Overload::new(0.2), Counted::default());
        let mut seconds = |count, unqueued, dropped| {
            for _ in 0..count {
                counted.arrived += 1000;
                counted.unqueued += unqueued;
                counted.dropped += dropped;
                let now = Moment::from_millis(counted.arrived);
                it.observe(now, counted);
            }
            it.is_on()
        };
        assert!(!seconds(20, 200, 0), "a sixth of what comes");
        assert!(!seconds(2, 8_000, 0));
        assert!(seconds(1, 8_000, 0));
        assert!(seconds(60, 0, 300_000), "the queue has room now, thanks to it");
        assert!(!seconds(10, 0, 0));
    }

    /// Whether looks after so many milliseconds each, which all see these numbers, begin it.
    fn begins(every: u64, looks: u64, each: Counted) -> bool {
        let mut it = Overload::new(0.2);
        for look in 0..=looks {
            let counted = Counted {
                arrived: each.arrived * look,
                refused: each.refused * look,
                dropped: each.dropped * look,
                unqueued: each.unqueued * look,
            };
            it.observe(Moment::from_millis(every * look), counted);
        }
        it.is_on()
    }

    #[test]
    fn thousands_for_which_there_is_no_room_and_hardly_anything_else_take_two_looks() {
        let of = |arrived, unqueued| Counted { arrived, unqueued, ..Counted::default() };
        assert!(!begins(1000, 1, of(100, 300_000)), "their clients may come back yet");
        assert!(begins(1000, 2, of(100, 300_000)) && begins(1000, 2, of(1000, 10_000)));
        assert!(!begins(1000, 2, of(1000, 9_999)), "few");
        assert!(!begins(1000, 2, of(2000, 10_000)), "beside many that are served");
        let dropped = Counted { dropped: 300_000, ..Counted::default() };
        assert!(!begins(1000, 2, dropped), "there was room");
    }

    #[test]
    fn cookies_that_come_back_a_look_later_begin_nothing() {
        let mut it = Overload::new(0.2);
        for second in 0..20_u64 {
            // Sent in every other second, and back in the next.
            let unqueued = 14_000 * second.div_ceil(2);
            let counted =
                Counted { arrived: 14_000 * (second / 2), unqueued, ..Counted::default() };
            it.observe(Moment::from_millis(second * 1000), counted);
            assert!(!it.is_on(), "{second}");
        }
    }

    #[test]
    fn seldom_looks_count_by_the_time_that_they_stand_for() {
        let refused = |count| Counted { arrived: 2 * count, refused: count, ..Counted::default() };
        assert!(!begins(1_900, 2, refused(3000)) && begins(1_900, 3, refused(3000)));
        assert!(!begins(2_000, 1, refused(3000)) && begins(2_000, 2, refused(3000)));
        assert!(!begins(60_000, 1, refused(30_000)), "one look alone says nothing");
        assert!(!begins(10_000, 5, refused(499)), "it is a trickle");
    }

    #[test]
    fn a_trickle_is_no_overload_and_silence_ends_one() {
        let (mut it, mut state) = (Overload::new(0.2), (0, Counted::default()));
        assert!(!windows(&mut it, &mut state, 50, [49, 49, 0]));
        assert!(windows(&mut it, &mut state, 3, [50, 50, 0]));
        assert!(!windows(&mut it, &mut state, 10, [0, 0, 0]));
    }

    #[test]
    fn counters_that_begin_anew_and_early_timers_do_no_harm() {
        let mut it = Overload::new(0.2);
        let all = |number| Counted { arrived: number, refused: number, ..Counted::default() };
        for millis in 0..2000 {
            assert_eq!(it.observe(Moment::from_millis(millis), all(millis * 1000)), None);
        }
        assert_eq!(it.observe(Moment::from_millis(9000), all(5)), None);
        assert!(!it.is_on());
    }
}
