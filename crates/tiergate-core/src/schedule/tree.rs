//! The whole schedule: between sites, and inside each. With one site, which is the usual case, only its
//! own policy is asked.
//!
//! Classes are called by their rank in the plan. Classes that are gone from it, where requests still wait,
//! rank behind and are served after all others, the first to go first.

use super::balance::rounded_up;
use super::children::Child;
use super::policy::{Ranked, equal_part};
use super::{Grant, Load, Policy, Scheduler};
use crate::names::SiteId;
use crate::plan::{Plan, Spec};
use crate::time::Moment;
use std::time::Duration;

/// Which class's next waiter gets the next slot.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By site, in the plan's order: which it is, and its policy among its classes.
    within: Vec<(SiteId, Ranked)>,
    /// `None`: there is one site, whose classes are all that there are.
    between: Option<Between>,
    /// By rank: the part of all slots that the class is sure of.
    sure: Vec<f64>,
    looks_at_requests: bool,
    keeps_free: bool,
    rests: bool,
}

/// What several sites need.
#[derive(Clone, Debug)]
struct Between {
    policy: Ranked,
    sites: Vec<Members>,
    /// By rank: the class's site and its place there.
    places: Vec<(usize, usize)>,
    /// By site, as a child among sites.
    loads: Vec<Load>,
}

/// One site's classes.
#[derive(Clone, Debug, Default)]
struct Members {
    /// Their ranks.
    ranks: Vec<usize>,
    loads: Vec<Load>,
    /// The part of the slots that its classes' shares are of.
    part: f64,
    /// The part of the slots that it is sure of.
    sure: f64,
}

impl Schedule {
    /// The plan's policies, with nothing waiting or running.
    pub fn new(plan: &Plan) -> Self {
        let mut schedule = Schedule {
            within: Vec::new(),
            between: None,
            sure: Vec::new(),
            looks_at_requests: false,
            keeps_free: false,
            rests: true,
        };
        schedule.reconfigure(Moment::ZERO, plan, &vec![Load::default(); plan.classes.len()], 0);
        schedule
    }

    /// Puts a plan in force, among requests that wait and hold slots already. What is known of classes and
    /// sites that stay is kept as long as their policies are of the same kinds; time has passed for it up to
    /// `now`. O(classes²).
    pub fn reconfigure(&mut self, now: Moment, plan: &Plan, loads: &[Load], slots: u32) {
        let mut former = std::mem::take(&mut self.within);
        for (id, site) in plan.site_ids().iter().zip(&plan.sites) {
            let known = former.iter().position(|(other, _)| other == id);
            let policy = match known {
                Some(place) => former.swap_remove(place).1.under(site.policy),
                None => Ranked::new(site.policy),
            };
            self.within.push((*id, policy));
        }
        self.between = (plan.sites.len() > 1).then(|| {
            let policy = match self.between.take() {
                Some(former) => former.policy.under(plan.between_sites),
                None => Ranked::new(plan.between_sites),
            };
            Between::new(policy, plan)
        });
        let policies = plan.sites.iter().map(|site| site.policy);
        let mut policies = policies.chain(self.between.is_some().then_some(plan.between_sites));
        let all_compare = policies.clone().all(Policy::compares);
        self.keeps_free = keeps_free(plan);
        self.looks_at_requests = self.keeps_free || policies.any(Policy::compares);
        let strict_alone = self.between.is_none() && plan.sites[0].policy == Policy::Strict;
        self.rests = strict_alone || all_compare;
        let sure = plan.classes.iter().enumerate().map(|(rank, class)| {
            let between = self.between.as_ref();
            let part = between.map_or(1.0, |between| between.sites[between.places[rank].0].part);
            part * plan.site_of(class).policy.sure(&class.terms())
        });
        self.sure = sure.collect();
        self.put_children(now, plan, loads, f64::from(slots));
    }

    /// Tells each policy whom it ranks.
    fn put_children(&mut self, now: Moment, plan: &Plan, loads: &[Load], slots: f64) {
        let classes = plan.class_ids().iter().zip(&plan.classes);
        let children = |site: Option<SiteId>| -> Vec<Child> {
            let own = classes.clone().filter(|(_, class)| site.is_none_or(|id| class.site == id));
            own.map(|(id, class)| Child { id: id.0, terms: class.terms() }).collect()
        };
        let Some(between) = &mut self.between else {
            let loads = &loads[..self.sure.len()];
            return self.within[0].1.reconfigure(now, &children(None), loads, slots);
        };
        between.gather(loads);
        for ((id, policy), site) in self.within.iter_mut().zip(&between.sites) {
            policy.reconfigure(now, &children(Some(*id)), &site.loads, slots * site.part);
        }
        let sites = plan.site_ids().iter().zip(&plan.sites);
        let sites: Vec<_> =
            sites.map(|(id, site)| Child { id: id.0, terms: site.terms() }).collect();
        between.policy.reconfigure(now, &sites, &between.loads, slots);
    }

    /// Whether [`Load::next`] matters to any of the policies.
    pub fn looks_at_requests(&self) -> bool {
        self.looks_at_requests
    }

    /// Whether a slot may stay free although somebody waits, because a policy keeps it for others.
    pub fn keeps_free(&self) -> bool {
        self.keeps_free
    }

    /// Whether time and grants mean nothing to it while nobody waits: [`Schedule::advance`] may then be
    /// left until somebody is about to.
    pub fn rests(&self) -> bool {
        self.rests
    }

    /// Whether slots may be taken from a class for another: it keeps what it is sure of, rounded up, and so does its site if the
    /// other is of another one. With less they are owed a slot at times, and would ask these back at once. `left` says what
    /// classes would hold. By weight, one is sure of its part among those that have requests. O(classes).
    pub fn may_give(
        &self,
        rank: usize,
        to: usize,
        loads: &[Load],
        slots: u32,
        left: impl Fn(usize) -> u32,
    ) -> bool {
        let Some(&sure) = self.sure.get(rank) else { return true };
        let slots = f64::from(slots);
        let keeps = |left: u32, sure: f64| f64::from(left) >= rounded_up(sure);
        let has_any = |rank: usize| loads[rank].waiting + loads[rank].running > 0;
        let Some(between) = &self.between else {
            return keeps(left(rank), slots * sure.max(self.within[0].1.part(rank, has_any)));
        };
        let (place, child) = between.places[rank];
        let ranks = &between.sites[place].ranks;
        let is_of_site = between.places.get(to).is_some_and(|to| to.0 == place);
        if is_of_site {
            let held = ranks.iter().map(|&rank| f64::from(loads[rank].running)).sum::<f64>();
            let part = self.within[place].1.part(child, |child| has_any(ranks[child]));
            return keeps(left(rank), (slots * sure).max(held * part));
        }
        let has_site_any =
            |site: usize| between.sites[site].ranks.iter().any(|&rank| has_any(rank));
        let of_site = between.sites[place].sure.max(between.policy.part(place, has_site_any));
        keeps(left(rank), slots * sure)
            && keeps(ranks.iter().map(|&rank| left(rank)).sum(), slots * of_site)
    }

    /// Whether the class has no more than its part of so many places for waiting. Never of a class that is gone.
    /// O(classes).
    pub fn keeps_places(&self, rank: usize, loads: &[Load], places: u32) -> bool {
        rank < self.sure.len()
            && f64::from(loads[rank].waiting) <= f64::from(places) * self.part(rank, rank, loads)
    }

    /// Whether fewer of the class wait than half of its part of all that do. O(classes).
    pub fn is_within_part(&self, rank: usize, loads: &[Load]) -> bool {
        let waiting: u32 = loads.iter().map(|load| load.waiting).sum();
        rank < self.sure.len()
            && 2.0 * f64::from(loads[rank].waiting)
                < f64::from(waiting) * self.part(rank, rank, loads)
    }

    /// The class of which a request leaves for one of this class, where all places for waiting are taken and this class or
    /// its site has fewer than its part: of those with more than theirs the one with most more, and of a site's
    /// classes the least important with more. O(classes²).
    pub fn makes_room(&self, rank: usize, loads: &[Load], places: u32) -> Option<usize> {
        if rank >= self.sure.len() {
            return None;
        }
        let above = |waiting: u32, part: f64| f64::from(waiting) - f64::from(places) * part;
        let most = |all: &mut dyn Iterator<Item = (usize, f64)>| {
            let above = all.filter(|(_, above)| *above > 0.0);
            above.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(which, _)| which)
        };
        let above_of = |other: usize| above(loads[other].waiting, self.part(other, rank, loads));
        let site = |rank: usize| self.between.as_ref().map_or(0, |between| between.places[rank].0);
        if let Some(between) = &self.between {
            let ranks = |site: usize| between.sites[site].ranks.iter();
            let above = |site: usize| {
                let waiting = ranks(site).map(|&rank| loads[rank].waiting).sum();
                above(waiting, self.part_of_site(site, rank, loads))
            };
            let others = (0..between.sites.len()).filter(|other| *other != site(rank));
            if above(site(rank)) <= -1.0
                && let Some(site) = most(&mut others.map(|site| (site, above(site))))
            {
                return ranks(site).rev().find(|other| above_of(**other) > 0.0).copied();
            }
        }
        if above_of(rank) > -1.0 {
            return None;
        }
        let peers =
            (0..self.sure.len()).filter(|&other| other != rank && site(other) == site(rank));
        most(&mut peers.map(|other| (other, above_of(other))))
    }

    /// The part of the places for waiting that a class has among those that have requests, as `comes` does.
    fn part(&self, rank: usize, comes: usize, loads: &[Load]) -> f64 {
        let has_any = |rank: usize| rank == comes || loads[rank].waiting + loads[rank].running > 0;
        let sure = self.sure[rank];
        let (site, child, ranks) = match &self.between {
            None => (0, rank, None),
            Some(between) => {
                let (site, child) = between.places[rank];
                (site, child, Some(&between.sites[site].ranks))
            }
        };
        let has_child_any = |child: usize| has_any(ranks.map_or(child, |ranks| ranks[child]));
        let children = ranks.map_or(self.sure.len(), Vec::len);
        match &self.within[site].1 {
            Ranked::Shared(_) | Ranked::Fixed(_) if sure > 0.0 => sure,
            within => {
                let of_site = ranks.map_or(1.0, |_| self.part_of_site(site, comes, loads));
                sure.max(of_site * within.places(child, children, has_child_any))
            }
        }
    }

    /// The same of a site; there are several. Where neither shares nor weights say more, each has as much as each
    /// other, also where one is served before the other: a lower one's flood is not to keep the higher one from
    /// waiting at all, nor the other way round.
    fn part_of_site(&self, site: usize, comes: usize, loads: &[Load]) -> f64 {
        let between = self.between.as_ref().expect("there are several");
        let has_any = |rank: usize| rank == comes || loads[rank].waiting + loads[rank].running > 0;
        let has_site_any =
            |site: usize| between.sites[site].ranks.iter().any(|&rank| has_any(rank));
        match between.sites[site].sure.max(between.policy.part(site, has_site_any)) {
            0.0 => equal_part(between.sites.len(), has_site_any),
            part => part,
        }
    }

    /// Lets time pass; call before anything in `loads` changes. O(classes).
    pub fn advance(&mut self, now: Moment, loads: &[Load], slots: u32) {
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].1.advance(now, &loads[..self.sure.len()], slots);
        };
        between.gather(loads);
        for ((_, policy), site) in self.within.iter_mut().zip(&between.sites) {
            policy.advance(now, &site.loads, slots * site.part);
        }
        between.policy.advance(now, &between.loads, slots);
    }

    /// The rank of the class to serve next; `None` if nobody waits, or nobody who does may have one more
    /// slot. Asked again it says the same. A class that is gone gets what no other may have, so that its
    /// requests end. O(classes).
    pub fn pick(&mut self, loads: &[Load], slots: u32) -> Option<usize> {
        let (planned, gone) = loads.split_at(self.sure.len());
        let of_gone = || gone.iter().position(|load| load.waiting > 0);
        self.pick_planned(planned, f64::from(slots))
            .or_else(|| of_gone().map(|place| planned.len() + place))
    }

    fn pick_planned(&mut self, loads: &[Load], slots: f64) -> Option<usize> {
        let Some(between) = &mut self.between else {
            return self.within[0].1.pick(loads, slots);
        };
        between.gather(loads);
        let mut picked = [0; Spec::SITES_MAX];
        for (place, (_, policy)) in self.within.iter_mut().enumerate() {
            let site = &between.sites[place];
            if between.loads[place].waiting == 0 {
                continue;
            }
            match policy.pick(&site.loads, slots * site.part) {
                Some(child) => {
                    picked[place] = child;
                    // A site is as urgent as the request that it would serve next.
                    between.loads[place].next = site.loads[child].next;
                }
                None => between.loads[place].waiting = 0,
            }
        }
        let site = between.policy.pick(&between.loads, slots)?;
        Some(between.sites[site].ranks[picked[site]])
    }

    /// A request of the class was given slots; `loads`: without these, and without it among those that
    /// wait. O(1), and O(classes) where there are several sites.
    pub fn granted(&mut self, rank: usize, loads: &[Load], slots: u32, grant: Grant) {
        if rank >= self.sure.len() {
            return;
        }
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].1.granted(rank, loads, slots, grant);
        };
        between.gather(loads);
        let (place, child) = between.places[rank];
        let site = &between.sites[place];
        self.within[place].1.granted(child, &site.loads, slots * site.part, grant);
        between.policy.granted(place, &between.loads, slots, grant);
    }

    /// The slots are back, and what the request really cost. O(1).
    pub fn finished(&mut self, rank: usize, grant: Grant, actual: f64) {
        if rank >= self.sure.len() {
            return;
        }
        let Some(between) = &mut self.between else {
            return self.within[0].1.finished(rank, grant, actual);
        };
        let (place, child) = between.places[rank];
        self.within[place].1.finished(child, grant, actual);
        between.policy.finished(place, grant, actual);
    }

    /// How long until `pick` may find somebody that it does not find now, if nothing but time changes;
    /// `None`: time changes nothing. O(classes).
    pub fn next_change(&mut self, loads: &[Load], slots: u32) -> Option<Duration> {
        if !self.keeps_free {
            return None;
        }
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].1.next_change(&loads[..self.sure.len()], slots);
        };
        between.gather(loads);
        let sites = self.within.iter().zip(&between.sites);
        let times =
            sites.map(|((_, policy), site)| policy.next_change(&site.loads, slots * site.part));
        let above = between.policy.next_change(&between.loads, slots);
        times.chain([above]).flatten().min()
    }
}

/// Whether a policy of the plan may keep slots free although somebody waits.
fn keeps_free(plan: &Plan) -> bool {
    let keeps = |policy: Policy, reserves: f64| {
        policy == Policy::Fixed || policy == Policy::Shared && reserves > 0.0
    };
    let within = plan.classes.iter().any(|it| keeps(plan.site_of(it).policy, it.reserve));
    let between = plan.sites.iter().any(|it| keeps(plan.between_sites, it.reserve));
    // A site without classes keeps nothing.
    within || plan.sites.len() > 1 && between
}

impl Between {
    fn new(policy: Ranked, plan: &Plan) -> Self {
        let weights: f64 = plan.sites.iter().map(|site| site.weight).sum();
        let mut places = vec![(0, 0); plan.classes.len()];
        let mut sites = Vec::with_capacity(plan.sites.len());
        for (place, (id, site)) in plan.site_ids().iter().zip(&plan.sites).enumerate() {
            let classes = plan.classes.iter().enumerate();
            let ranks = classes.filter(|(_, class)| class.site == *id).map(|(rank, _)| rank);
            let ranks: Vec<usize> = ranks.collect();
            for (child, rank) in ranks.iter().enumerate() {
                places[*rank] = (place, child);
            }
            let part = match plan.between_sites {
                Policy::Shared | Policy::Fixed => site.share,
                Policy::Weighted => site.weight / weights,
                _ => 1.0,
            };
            let sure = plan.between_sites.sure(&site.terms());
            sites.push(Members { loads: vec![Load::default(); ranks.len()], ranks, part, sure });
        }
        Between { policy, loads: vec![Load::default(); sites.len()], sites, places }
    }

    /// Sorts the classes' loads by site and adds them up.
    fn gather(&mut self, loads: &[Load]) {
        for (site, sum) in self.sites.iter_mut().zip(&mut self.loads) {
            (sum.waiting, sum.running) = (0, 0);
            for (rank, own) in site.ranks.iter().zip(&mut site.loads) {
                *own = loads[*rank];
                sum.waiting += own.waiting;
                sum.running += own.running;
                // Replaced by the site's own choice when one is made.
                if own.waiting > 0 {
                    sum.next = own.next;
                }
            }
        }
    }
}
