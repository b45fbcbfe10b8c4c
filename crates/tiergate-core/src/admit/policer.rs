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

use super::bucket::{PARTS, Rate, TOKEN, Taken};
use super::flow_buckets::FlowBuckets;
use super::inbound::Inbound;
use super::partition::Partitions;
pub use super::partition::Share;
use crate::collections::grown;
use crate::names::ClassId;
pub use crate::names::PolicerId;
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

/// What a policy says of one policer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name in the policy, and in metrics.
    pub name: String,
    /// What it is known by where its name may pass to another, as that of a policer that belongs to a
    /// rule without a name does; `None`: its name.
    pub key: Option<Box<str>>,
    /// How many requests there may be in a time, on average.
    pub rate: Rate,
    /// How many at once after a pause. With shares: what the overflow bucket holds.
    pub burst: u32,
    /// Whether all requests share one bucket, or those of each flow.
    pub per: Per,
    /// The classes' parts of the tokens. Only with [`Per::Rule`].
    pub shares: Vec<Share>,
    /// What the rate goes by, up to that above; `None`: it stays. Only with [`Per::Rule`].
    pub inbound: Option<Inbound>,
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

    /// What it is interned by.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.name)
    }

    /// Checks what the policer relies on. `is_class`: whether the plan has such a class.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self, is_class: impl Fn(ClassId) -> bool) -> Result<(), &'static str> {
        let is_high = |share: &Share| share.burst > Self::BURST_MAX;
        if self.burst > Self::BURST_MAX || self.shares.iter().any(is_high) {
            return Err("burst must be at most 1000000");
        }
        let sum: u64 = self.shares.iter().map(|share| u64::from(share.parts)).sum();
        if sum > PARTS {
            return Err("the shares add up to more than 100%");
        }
        for (place, share) in self.shares.iter().enumerate() {
            if !is_class(share.class) {
                return Err("a share is of no class");
            }
            if self.shares[..place].iter().any(|other| other.class == share.class) {
                return Err("a class has two shares");
            }
        }
        if let Some(inbound) = &self.inbound {
            inbound.check(self.rate)?;
        }
        match self.per {
            Per::Rule => Ok(()),
            Per::Flow { .. } if self.inbound.is_some() => {
                Err("the rate of flows follows no reading")
            }
            Per::Flow { .. } if !self.shares.is_empty() => Err("flows have no shares"),
            Per::Flow { .. } if self.rate > Self::FLOW_RATE_MAX => {
                Err("rate must be at most 1000000/s for each flow")
            }
            Per::Flow { flows_max } if !(1..=Self::FLOWS_MAX).contains(&flows_max) => {
                Err("flows_max must be 1 to 10000000")
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
    /// Requests that the kernel refused, and that a controller of the rate has to know of.
    pub early: u64,
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

impl Buckets {
    fn new(now: Moment, settings: &Settings) -> Self {
        let Settings { rate, burst, .. } = *settings;
        match settings.per {
            Per::Rule => Buckets::Shared(Partitions::new(now, rate, burst, &settings.shares)),
            Per::Flow { flows_max } => {
                Buckets::Flows(FlowBuckets::new(now, rate, burst, flows_max))
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Policer {
    name: String,
    rate: Rate,
    is_in_force: bool,
    buckets: Buckets,
    counts: Counts,
}

/// All policers that there ever were, at work; those that are gone keep their counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policers {
    /// By id. `None`: never in force.
    policers: Vec<Option<Policer>>,
    /// The site's, which applies to every request.
    site: Option<PolicerId>,
}

/// A request as policers see it: which of them apply, each once, and whose tokens it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Under {
    policers: [Option<PolicerId>; 3],
    class: ClassId,
    flow: u64,
}

impl Under {
    /// The policers that apply to it, at least one.
    pub(crate) fn policers(self) -> impl Iterator<Item = PolicerId> {
        self.policers.into_iter().flatten()
    }
}

impl Policers {
    /// Puts a plan's policers in force, `site` for every request. Those that were there keep their tokens
    /// in proportion to their bursts, their flows and their counts; new ones are full. O(policers), and of
    /// flows, where a burst is smaller.
    pub(crate) fn reconfigure<'s>(
        &mut self,
        now: Moment,
        plan: impl Iterator<Item = (PolicerId, &'s Settings)>,
        site: Option<PolicerId>,
    ) {
        self.site = site;
        self.policers.iter_mut().flatten().for_each(|policer| policer.is_in_force = false);
        for (id, settings) in plan {
            match grown(&mut self.policers, id.index()) {
                Some(policer) => policer.reconfigure(now, settings),
                new => *new = Some(Policer::new(now, settings)),
            }
        }
        // A table of flows may take 240 MB.
        for gone in self.policers.iter_mut().flatten().filter(|policer| !policer.is_in_force) {
            gone.buckets = Buckets::Shared(Partitions::new(now, Rate::default(), 0, &[]));
        }
    }

    /// Whether the plan in force has it.
    pub(crate) fn is_in_force(&self, id: PolicerId) -> bool {
        self.policers.get(id.index()).is_some_and(|it| it.as_ref().is_some_and(|it| it.is_in_force))
    }

    /// The rate in force of one that the plan in force has.
    pub(crate) fn rate(&self, id: PolicerId) -> Option<Rate> {
        let policer = self.policers.get(id.index())?.as_ref();
        policer.filter(|policer| policer.is_in_force).map(|policer| policer.rate)
    }

    /// Which policers apply to a request of the class and flow: its rule's, its class's and the site's;
    /// `None` if there are none.
    pub(crate) fn under(
        &self,
        rule: Option<PolicerId>,
        by_class: Option<PolicerId>,
        class: ClassId,
        flow: u64,
    ) -> Option<Under> {
        if (rule, by_class, self.site) == (None, None, None) {
            return None;
        }
        // One may be gone since the request was classified, or with its class.
        let in_force = |id: &PolicerId| self.is_in_force(*id);
        let rule = rule.filter(in_force);
        let by_class = by_class.filter(in_force).filter(|id| rule != Some(*id));
        let site = self.site.filter(|id| rule != Some(*id) && by_class != Some(*id));
        let policers = [rule, by_class, site];
        (policers != [None; 3]).then_some(Under { policers, class, flow })
    }

    fn at(&mut self, id: PolicerId) -> &mut Policer {
        self.policers[id.index()].as_mut().expect("a plan has, or had, the policer")
    }

    /// Whether the request has all the tokens it needs; else the first policer that has none for it.
    pub(crate) fn bar(&mut self, now: Moment, under: Under) -> Option<PolicerId> {
        under.policers().find(|id| !self.at(*id).has_token(now, under))
    }

    /// Takes a token of each, or of none and says which has none. O(1) each, and the partitions.
    pub(crate) fn take(&mut self, now: Moment, under: Under) -> Result<(), PolicerId> {
        let mut several = under.policers();
        // With one alone, taking is asking.
        if let (Some(one), None) = (several.next(), several.next()) {
            return self.at(one).take(now, under).then_some(()).ok_or(one);
        }
        if let Some(id) = self.bar(now, under) {
            return Err(id);
        }
        for id in under.policers() {
            let taken = self.at(id).take(now, under);
            debug_assert!(taken, "it was there");
        }
        Ok(())
    }

    /// Counts a request refused for want of the policer's token; says why it is.
    pub(crate) fn refuse(&mut self, id: PolicerId) -> Reason {
        self.at(id).counts.refused += 1;
        if self.site == Some(id) { Reason::SitePoliced } else { Reason::Policed }
    }

    /// Counts requests that were refused before they came here.
    pub(crate) fn refused_early(&mut self, id: PolicerId, count: u64) {
        if self.is_in_force(id) {
            self.at(id).counts.early += count;
        }
    }

    /// What such a request has left.
    pub(crate) fn quota(&mut self, now: Moment, id: PolicerId, under: Under) -> Quota {
        let Under { class, flow, .. } = under;
        let policer = self.at(id);
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

    /// How each is doing that is, or was, in force.
    pub(crate) fn state(&self, id: PolicerId) -> Option<PolicerState> {
        let policer = self.policers.get(id.index())?.as_ref()?;
        Some(PolicerState {
            rate: policer.rate,
            counts: policer.counts,
            flows: match &policer.buckets {
                Buckets::Shared(_) => 0,
                Buckets::Flows(buckets) => buckets.taken(),
            },
        })
    }

    /// Those that are no longer in force, by name.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (PolicerId, &str)> + '_ {
        let gone = self.policers.iter().enumerate();
        let gone = gone.filter_map(|(id, policer)| Some((id, policer.as_ref()?)));
        let gone = gone.filter(|(_, policer)| !policer.is_in_force);
        gone.map(|(id, policer)| (PolicerId(id as u16), &*policer.name))
    }
}

impl Policer {
    fn new(now: Moment, settings: &Settings) -> Self {
        Policer {
            name: settings.name.clone(),
            rate: settings.rate,
            is_in_force: true,
            buckets: Buckets::new(now, settings),
            counts: Counts::default(),
        }
    }

    fn reconfigure(&mut self, now: Moment, settings: &Settings) {
        self.is_in_force = true;
        self.rate = settings.rate;
        self.name.clone_from(&settings.name);
        match (&mut self.buckets, settings.per) {
            (Buckets::Shared(mine), Per::Rule) => {
                mine.reconfigure(now, self.rate, settings.burst, &settings.shares);
            }
            (Buckets::Flows(mine), Per::Flow { flows_max }) if mine.is_for(flows_max) => {
                mine.reconfigure(now, self.rate, settings.burst);
            }
            (mine, _) => *mine = Buckets::new(now, settings),
        }
    }

    fn has_token(&mut self, now: Moment, Under { class, flow, .. }: Under) -> bool {
        match &mut self.buckets {
            Buckets::Shared(buckets) => buckets.has_token(now, class),
            Buckets::Flows(buckets) => buckets.has_token(now, flow),
        }
    }

    fn take(&mut self, now: Moment, Under { class, flow, .. }: Under) -> bool {
        let taken = match &mut self.buckets {
            Buckets::Shared(buckets) => buckets.take(now, class),
            Buckets::Flows(buckets) => buckets.take(now, flow),
        };
        let counts = &mut self.counts;
        counts.passed += u64::from(matches!(taken, Some(Taken::Own | Taken::Overflow)));
        counts.overflow += u64::from(taken == Some(Taken::Overflow));
        counts.untracked += u64::from(taken == Some(Taken::Untracked));
        taken.is_some()
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
        let name = name.to_owned();
        let (shares, inbound) = (Vec::new(), None);
        Settings { name, key: None, rate, burst, per, shares, inbound, announce: false }
    }

    fn in_force(plan: &[(u16, &Settings)]) -> Policers {
        let mut policers = Policers::default();
        let plan = plan.iter().map(|(id, settings)| (PolicerId(*id), *settings));
        policers.reconfigure(Moment::ZERO, plan, None);
        policers
    }

    fn under<const N: usize>(policers: [u16; N], flow: u64) -> Under {
        let by = |place: usize| policers.get(place).map(|id| PolicerId(*id));
        Under { policers: [by(0), by(1), by(2)], class: CLASS, flow }
    }

    fn passed(policers: &Policers) -> Vec<u64> {
        let states = (0..9).filter_map(|id| policers.state(PolicerId(id)));
        states.map(|state| state.counts.passed).collect()
    }

    #[test]
    fn a_request_takes_of_all_or_of_none() {
        let two =
            [settings("a", 1, 5, Per::Rule), settings("b", 1, 2, Per::Flow { flows_max: 100 })];
        let mut policers = in_force(&[(0, &two[0]), (1, &two[1])]);
        let both = |flow| under([0, 1], flow);
        for _ in 0..2 {
            assert_eq!(policers.take(Moment::ZERO, both(9 << 40)), Ok(()));
        }
        assert_eq!(policers.take(Moment::ZERO, both(9 << 40)), Err(SECOND));
        assert_eq!(policers.quota(Moment::ZERO, FIRST, both(0)).remaining, 3, "nothing was lost");
        assert_eq!(policers.take(Moment::ZERO, both(8 << 40)), Ok(()));
        assert_eq!(passed(&policers), [3, 3]);
    }

    #[test]
    fn a_reload_keeps_tokens_flows_and_counts_by_name() {
        let old = [
            settings("gone", 1, 1, Per::Rule),
            settings("pages", 1, 10, Per::Rule),
            settings("clients", 1, 4, Per::Flow { flows_max: 100 }),
        ];
        let mut policers = in_force(&[(0, &old[0]), (1, &old[1]), (2, &old[2])]);
        for _ in 0..3 {
            assert_eq!(policers.take(Moment::ZERO, under([2], 5)), Ok(()));
        }
        for _ in 0..5 {
            assert_eq!(policers.take(Moment::ZERO, under([1], 5)), Ok(()));
        }
        let new = [
            settings("clients", 1, 4, Per::Flow { flows_max: 100 }),
            settings("pages", 1, 20, Per::Rule),
            settings("new", 1, 7, Per::Rule),
        ];
        let plan = [(PolicerId(2), &new[0]), (SECOND, &new[1]), (PolicerId(3), &new[2])];
        policers.reconfigure(Moment::ZERO, plan.into_iter(), None);
        let left = |policers: &mut Policers, place, flow| {
            policers.quota(Moment::ZERO, PolicerId(place), under([place], flow)).remaining
        };
        assert_eq!(left(&mut policers, 2, 5), 1);
        assert_eq!(left(&mut policers, 2, 6), 4);
        assert_eq!(left(&mut policers, 1, 0), 10, "half full as before");
        assert_eq!(left(&mut policers, 3, 0), 7);
        assert_eq!(passed(&policers), [0, 5, 3, 0]);
        assert_eq!(policers.gone().collect::<Vec<_>>(), [(PolicerId(0), "gone")]);
        assert!(policers.is_in_force(SECOND) && !policers.is_in_force(PolicerId(0)));
    }

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        let share = |class: u16, parts| Share { class: ClassId(class), parts, burst: 1 };
        let good = settings("p", 1, 1, Per::Rule);
        let with = |shares: Vec<Share>| Settings { shares, ..good.clone() };
        let two_classes = |class: ClassId| class.index() < 2;
        assert_eq!(with(vec![share(0, 6000), share(1, 4000)]).check(two_classes), Ok(()));
        for (bad, what) in [
            (with(vec![share(0, 6000), share(1, 4001)]), "100%"),
            (with(vec![share(2, 1)]), "no class"),
            (with(vec![share(1, 1), share(1, 1)]), "two shares"),
            (Settings { per: Per::Flow { flows_max: 9 }, ..with(vec![share(0, 1)]) }, "no shares"),
            (settings("p", 1_000_001, 1, Per::Flow { flows_max: 9 }), "each flow"),
            (settings("p", 1, 1, Per::Flow { flows_max: 0 }), "flows_max"),
            (settings("p", 1, 1_000_001, Per::Rule), "burst"),
        ] {
            let fault = bad.check(two_classes).unwrap_err();
            assert!(fault.contains(what), "{fault}");
        }
    }
}
