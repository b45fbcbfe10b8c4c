//! Policers: token buckets that a policy names and its rules, its classes and the site as a whole use.
//!
//! A request needs a token of each policer that it comes under: its rule's, its class's, the site's; of
//! one that it comes under twice, one token. It takes them all or none. Only a request that would be
//! admitted otherwise, at once or to the queue, takes tokens: whoever is refused because the server is
//! busy has had nothing, and shall not find its allowance used up when it comes again. One that waits
//! in vain does not get its tokens back: it has had its place in the queue, and with a token given
//! back late a policer would let more through in a window than it promises.
//!
//! Source: Voigt B §3.1, §3.3 (a bucket by rule), Voigt D §2.4 (partitions); per flow: ours.

use super::bucket::{PARTS, Rate, TOKEN};
use super::flow_buckets::{FlowBuckets, Taken as TakenOfFlow};
pub use super::partition::Share;
use super::partition::{Partitions, Taken};
use crate::class::ClassId;
use crate::time::Moment;
use std::time::Duration;

/// A policer's place in the plan's list. Valid for the plan that it was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicerId(pub u16);

impl PolicerId {
    /// The policer's index in the plan's list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a policy says of one policer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name in the policy, and in metrics.
    pub name: String,
    /// How many requests there may be in a time, on average.
    pub rate: Rate,
    /// How many at once after a pause. With shares: what the overflow bucket holds.
    pub burst: u32,
    /// Whether all requests share one bucket, or those of each flow.
    pub per: Per,
    /// The classes' parts of the tokens. Only with [`Per::Rule`].
    pub shares: Vec<Share>,
    /// Whether clients are told what is left of it. Nothing here: the shell writes it.
    pub announce: bool,
}

/// What has a bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// All requests that come under the policer together.
    Rule,
    /// Each flow, of at least so many at once; a flow beyond is let through and counted.
    Flow {
        /// How many flows that are not at rest are told apart: 24 bytes each.
        flows_max: u32,
    },
}

impl Settings {
    /// Most policers of a plan.
    pub const COUNT_MAX: usize = 10_000;
    /// Largest burst.
    pub const BURST_MAX: u32 = 1_000_000;
    /// Highest rate of one flow.
    pub const FLOW_RATE_MAX: Rate = FlowBuckets::RATE_MAX;
    /// Most flows of one policer: 240 MB.
    pub const FLOWS_MAX: u32 = 10_000_000;

    /// Checks what the policer relies on.
    ///
    /// # Errors
    /// A sentence that names the first fault found.
    pub fn check(&self, classes: usize) -> Result<(), String> {
        let fault = |what: &str| Err(format!("policer `{}`: {what}", self.name));
        if self.burst > Self::BURST_MAX
            || self.shares.iter().any(|share| share.burst > Self::BURST_MAX)
        {
            return fault("burst must be at most 1000000");
        }
        let sum: u64 = self.shares.iter().map(|share| u64::from(share.parts)).sum();
        if sum > PARTS {
            return fault("the shares add up to more than 100%");
        }
        for (place, share) in self.shares.iter().enumerate() {
            if share.class.index() >= classes {
                return fault("a share is of no class");
            }
            if self.shares[..place].iter().any(|other| other.class == share.class) {
                return fault("a class has two shares");
            }
        }
        match self.per {
            Per::Rule => Ok(()),
            Per::Flow { .. } if !self.shares.is_empty() => fault("flows have no shares"),
            Per::Flow { .. } if self.rate > Self::FLOW_RATE_MAX => {
                fault("rate must be at most 1000000/s for each flow")
            }
            Per::Flow { flows_max } if !(1..=Self::FLOWS_MAX).contains(&flows_max) => {
                fault("flows_max must be 1 to 10000000")
            }
            Per::Flow { .. } => Ok(()),
        }
    }
}

/// What a policer has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that took a token.
    pub passed: u64,
    /// Of them, those whose class had used up its own partition: the token was of the overflow.
    pub overflow: u64,
    /// Requests refused for want of a token.
    pub refused: u64,
    /// Requests let through without a token, because the table of flows was full.
    pub untracked: u64,
}

/// A policer at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicerState {
    /// The rate in force.
    pub rate: Rate,
    /// What it has counted.
    pub counts: Counts,
    /// About how many flows are not at rest; 0 for a policer that has no flows.
    pub flows: usize,
}

/// What a request has left of a policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Whole tokens that are left for such a request.
    pub remaining: u32,
    /// Until the next token, if nobody else takes it.
    pub wait: Duration,
    /// Tokens that such a request finds after a pause.
    pub most: u32,
    /// How long it takes until they have come, from none, if nobody else takes any; [`Duration::MAX`] if
    /// none ever come.
    pub refill: Duration,
}

impl Quota {
    /// How long until more is to be had: until the next token where none is left, else until all have
    /// come, if nobody takes any meanwhile.
    pub fn until_more(&self) -> Duration {
        if self.remaining == 0 || self.most == 0 {
            return self.wait;
        }
        let missing = self.most.saturating_sub(self.remaining);
        let nanos = self.refill.as_nanos() * u128::from(missing) / u128::from(self.most);
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }
}

#[derive(Clone, Debug)]
enum Buckets {
    Shared(Partitions),
    Flows(FlowBuckets),
}

#[derive(Clone, Debug)]
struct Policer {
    rate: Rate,
    buckets: Buckets,
    counts: Counts,
}

/// All policers of a plan, at work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policers {
    policers: Vec<Policer>,
}

/// The policers that a request comes under: none twice.
pub(crate) type Under = [Option<PolicerId>; 3];

impl Policers {
    /// Every bucket is full.
    pub(crate) fn new(now: Moment, settings: &[Settings]) -> Self {
        Policers { policers: settings.iter().map(|settings| Policer::new(now, settings)).collect() }
    }

    /// The policers of another plan: those of the same name keep their tokens in proportion to their
    /// bursts, their flows and their counts. `moved`: what has become of the classes.
    pub(crate) fn inherit(
        &mut self,
        now: Moment,
        names: (&[Settings], &[Settings]),
        former: Policers,
        moved: &[ClassId],
    ) {
        let (mine, theirs) = names;
        let mut former: Vec<Option<Policer>> = former.policers.into_iter().map(Some).collect();
        for (policer, settings) in self.policers.iter_mut().zip(mine) {
            let known = theirs.iter().position(|other| other.name == settings.name);
            if let Some(former) = known.and_then(|place| former[place].take()) {
                policer.inherit(now, former, moved);
            }
        }
    }

    /// Whether the request has all the tokens it needs; else the first policer that has none for it.
    pub(crate) fn bar(
        &mut self,
        now: Moment,
        under: Under,
        class: ClassId,
        flow: u64,
    ) -> Option<PolicerId> {
        let mut under = under.into_iter().flatten();
        under.find(|id| !self.policers[id.index()].has_token(now, class, flow))
    }

    /// Takes a token of each, or of none and says which has none. O(1) each, and the partitions.
    pub(crate) fn take(
        &mut self,
        now: Moment,
        under: Under,
        class: ClassId,
        flow: u64,
    ) -> Result<(), PolicerId> {
        let mut several = under.iter().flatten();
        // With one alone, taking is asking.
        if let (Some(one), None) = (several.next(), several.next()) {
            return self.policers[one.index()].take(now, class, flow).then_some(()).ok_or(*one);
        }
        if let Some(id) = self.bar(now, under, class, flow) {
            return Err(id);
        }
        for id in under.into_iter().flatten() {
            let taken = self.policers[id.index()].take(now, class, flow);
            debug_assert!(taken, "it was there");
        }
        Ok(())
    }

    /// Counts a request refused for want of the policer's token.
    pub(crate) fn refused(&mut self, id: PolicerId) {
        self.policers[id.index()].counts.refused += 1;
    }

    /// What such a request has left.
    pub(crate) fn quota(&mut self, now: Moment, id: PolicerId, class: ClassId, flow: u64) -> Quota {
        let policer = &mut self.policers[id.index()];
        let (remaining, wait, most) = match &mut policer.buckets {
            Buckets::Shared(buckets) => {
                (buckets.tokens(now, class), buckets.next_token(now, class), buckets.most(class))
            }
            Buckets::Flows(buckets) => {
                (buckets.tokens(now, flow), buckets.next_token(now, flow), buckets.most())
            }
        };
        let refill = policer.rate.time_for(u128::from(most) * TOKEN, PARTS);
        Quota { remaining, wait, most, refill }
    }

    /// Another rate from now on; tokens that are there stay.
    pub(crate) fn set_rate(&mut self, now: Moment, id: PolicerId, rate: Rate) {
        let policer = &mut self.policers[id.index()];
        policer.rate = rate;
        match &mut policer.buckets {
            Buckets::Shared(buckets) => buckets.set_rate(now, rate),
            Buckets::Flows(buckets) => buckets.set_rate(now, rate),
        }
    }

    /// How each is doing.
    pub(crate) fn states(&self) -> impl Iterator<Item = PolicerState> + '_ {
        self.policers.iter().map(|policer| PolicerState {
            rate: policer.rate,
            counts: policer.counts,
            flows: match &policer.buckets {
                Buckets::Shared(_) => 0,
                Buckets::Flows(buckets) => buckets.taken(),
            },
        })
    }
}

impl Policer {
    fn new(now: Moment, settings: &Settings) -> Self {
        let Settings { rate, burst, .. } = *settings;
        let buckets = match settings.per {
            Per::Rule => Buckets::Shared(Partitions::new(now, rate, burst, &settings.shares)),
            Per::Flow { flows_max } => {
                Buckets::Flows(FlowBuckets::new(now, rate, burst, flows_max))
            }
        };
        Policer { rate, buckets, counts: Counts::default() }
    }

    fn inherit(&mut self, now: Moment, former: Policer, moved: &[ClassId]) {
        self.counts = former.counts;
        match (&mut self.buckets, former.buckets) {
            (Buckets::Shared(mine), Buckets::Shared(theirs)) => mine.inherit(now, theirs, moved),
            (Buckets::Flows(mine), Buckets::Flows(theirs)) => mine.inherit(now, theirs),
            _ => {}
        }
    }

    fn has_token(&mut self, now: Moment, class: ClassId, flow: u64) -> bool {
        match &mut self.buckets {
            Buckets::Shared(buckets) => buckets.has_token(now, class),
            Buckets::Flows(buckets) => buckets.has_token(now, flow),
        }
    }

    fn take(&mut self, now: Moment, class: ClassId, flow: u64) -> bool {
        let counts = &mut self.counts;
        match &mut self.buckets {
            Buckets::Shared(buckets) => match buckets.take(now, class) {
                None => return false,
                Some(Taken::Own) => {}
                Some(Taken::Overflow) => counts.overflow += 1,
            },
            Buckets::Flows(buckets) => match buckets.take(now, flow) {
                TakenOfFlow::Token => {}
                TakenOfFlow::None => return false,
                TakenOfFlow::Untracked => {
                    counts.untracked += 1;
                    return true;
                }
            },
        }
        counts.passed += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: ClassId = ClassId(0);
    const FIRST: PolicerId = PolicerId(0);
    const SECOND: PolicerId = PolicerId(1);

    fn settings(name: &str, rate: u32, burst: u32, per: Per) -> Settings {
        let rate = Rate::per_second(rate);
        Settings { name: name.to_owned(), rate, burst, per, shares: Vec::new(), announce: false }
    }

    fn passed(policers: &Policers) -> Vec<u64> {
        policers.states().map(|state| state.counts.passed).collect()
    }

    #[test]
    fn a_request_takes_of_all_or_of_none() {
        let two =
            [settings("a", 1, 5, Per::Rule), settings("b", 1, 2, Per::Flow { flows_max: 100 })];
        let mut policers = Policers::new(Moment::ZERO, &two);
        let under = [Some(FIRST), None, Some(SECOND)];
        for _ in 0..2 {
            assert_eq!(policers.take(Moment::ZERO, under, CLASS, 9 << 40), Ok(()));
        }
        assert_eq!(policers.take(Moment::ZERO, under, CLASS, 9 << 40), Err(SECOND));
        assert_eq!(policers.quota(Moment::ZERO, FIRST, CLASS, 0).remaining, 3, "nothing was lost");
        assert_eq!(policers.take(Moment::ZERO, under, CLASS, 8 << 40), Ok(()));
        assert_eq!(passed(&policers), [3, 3]);
    }

    #[test]
    fn a_reload_keeps_tokens_flows_and_counts_by_name() {
        let old = [
            settings("gone", 1, 1, Per::Rule),
            settings("pages", 1, 10, Per::Rule),
            settings("clients", 1, 4, Per::Flow { flows_max: 100 }),
        ];
        let mut former = Policers::new(Moment::ZERO, &old);
        for _ in 0..3 {
            assert_eq!(
                former.take(Moment::ZERO, [Some(PolicerId(2)), None, None], CLASS, 5),
                Ok(())
            );
        }
        for _ in 0..5 {
            assert_eq!(former.take(Moment::ZERO, [Some(SECOND), None, None], CLASS, 5), Ok(()));
        }
        let new = [
            settings("clients", 1, 4, Per::Flow { flows_max: 100 }),
            settings("pages", 1, 20, Per::Rule),
            settings("new", 1, 7, Per::Rule),
        ];
        let mut policers = Policers::new(Moment::ZERO, &new);
        policers.inherit(Moment::ZERO, (&new, &old), former, &[CLASS]);
        let left = |policers: &mut Policers, place, flow| {
            policers.quota(Moment::ZERO, PolicerId(place), CLASS, flow).remaining
        };
        assert_eq!(left(&mut policers, 0, 5), 1);
        assert_eq!(left(&mut policers, 0, 6), 4);
        assert_eq!(left(&mut policers, 1, 0), 10, "half full as before");
        assert_eq!(left(&mut policers, 2, 0), 7);
        assert_eq!(passed(&policers), [3, 5, 0]);
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        let share = |class: u16, parts| Share { class: ClassId(class), parts, burst: 1 };
        let good = settings("p", 1, 1, Per::Rule);
        let with = |shares: Vec<Share>| Settings { shares, ..good.clone() };
        assert_eq!(with(vec![share(0, 6000), share(1, 4000)]).check(2), Ok(()));
        for (bad, what) in [
            (with(vec![share(0, 6000), share(1, 4001)]), "100%"),
            (with(vec![share(2, 1)]), "no class"),
            (with(vec![share(1, 1), share(1, 1)]), "two shares"),
            (Settings { per: Per::Flow { flows_max: 9 }, ..with(vec![share(0, 1)]) }, "no shares"),
            (settings("p", 1_000_001, 1, Per::Flow { flows_max: 9 }), "each flow"),
            (settings("p", 1, 1, Per::Flow { flows_max: 0 }), "flows_max"),
            (settings("p", 1, 1_000_001, Per::Rule), "burst"),
        ] {
            let fault = bad.check(2).unwrap_err();
            assert!(fault.contains(what), "{fault}");
        }
    }
}
