//! The whole schedule: between sites, and inside each. With one site, which is the usual case, only its
//! own policy is asked.

use super::ranked::Ranked;
use super::{Grant, Load, Policy, Scheduler, Terms};
use crate::class::ClassId;
use crate::plan::Plan;
use crate::time::Moment;
use std::time::Duration;

/// Which class's next waiter gets the next slot.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// By site: its policy among its classes.
    within: Vec<Ranked>,
    /// `None`: there is one site, whose classes are all that there are.
    between: Option<Between>,
    /// By class: the part of all slots that it is sure of.
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
    /// By class: its site and its place there.
    places: Vec<(usize, usize)>,
    /// By site, as a child among sites.
    loads: Vec<Load>,
}

/// One site's classes.
#[derive(Clone, Debug)]
struct Members {
    classes: Vec<ClassId>,
    loads: Vec<Load>,
    /// The part of the slots that its classes' shares are of.
    part: f64,
}

impl Schedule {
    /// The plan's policies, with nothing waiting or running.
    ///
    /// # Panics
    /// If a class's site is not in the plan ([`Plan::check`]).
    pub fn new(plan: &Plan) -> Self {
        let members = |site: usize| {
            let classes = plan.classes.iter().enumerate();
            let own = classes.filter(move |(_, class)| class.site.index() == site);
            own.map(|(class, _)| ClassId(class as u16)).collect::<Vec<_>>()
        };
        let within = |(site, it): (usize, &super::Site)| {
            let terms = members(site).into_iter().map(|class| plan.classes[class.index()].terms());
            Ranked::new(it.policy, &terms.collect::<Vec<_>>())
        };
        let policies = plan.sites.iter().map(|site| site.policy);
        let several = plan.sites.len() > 1;
        let mut policies = policies.chain(several.then_some(plan.between_sites));
        let classes = plan.classes.iter().map(|class| (class.site, class.reserve));
        let reserved = |(site, reserve): (super::SiteId, f64)| {
            plan.sites[site.index()].policy == Policy::Shared && reserve > 0.0
        };
        let all_compare = policies.clone().all(Policy::compares);
        let keeps_free = policies.clone().any(|policy| policy == Policy::Fixed)
            || classes.into_iter().any(reserved)
            || several
                && plan.between_sites == Policy::Shared
                && plan.sites.iter().any(|site| site.reserve > 0.0);
        let between = several.then(|| Between::new(plan, members));
        let sure = plan.classes.iter().map(|class| {
            let site = class.site.index();
            let part = between.as_ref().map_or(1.0, |between| between.sites[site].part);
            part * class.terms().sure(plan.sites[site].policy)
        });
        Schedule {
            sure: sure.collect(),
            within: plan.sites.iter().enumerate().map(within).collect(),
            looks_at_requests: keeps_free || policies.any(Policy::compares),
            keeps_free,
            rests: !several && matches!(plan.sites[0].policy, Policy::Strict) || all_compare,
            between,
        }
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

    /// The part of all slots that the class is sure of by its own site's policy, 0.0 to 1.0.
    pub fn sure(&self, class: ClassId) -> f64 {
        self.sure[class.index()]
    }

    /// Begins among requests that hold slots already, which were given under a former plan. O(classes).
    pub fn resume(&mut self, loads: &[Load], slots: u32) {
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].resume(loads, slots);
        };
        between.gather(loads);
        for (policy, site) in self.within.iter_mut().zip(&between.sites) {
            policy.resume(&site.loads, slots * site.part);
        }
        between.policy.resume(&between.loads, slots);
    }

    /// Lets time pass; call before anything in `loads` changes. O(classes).
    pub fn advance(&mut self, now: Moment, loads: &[Load], slots: u32) {
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].advance(now, loads, slots);
        };
        between.gather(loads);
        for (policy, site) in self.within.iter_mut().zip(&between.sites) {
            policy.advance(now, &site.loads, slots * site.part);
        }
        between.policy.advance(now, &between.loads, slots);
    }

    /// The class to serve next; `None` if nobody waits, or nobody who does may have one more slot. Asked
    /// again it says the same. O(classes).
    pub fn pick(&mut self, loads: &[Load], slots: u32) -> Option<ClassId> {
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].pick(loads, slots).map(|class| ClassId(class as u16));
        };
        between.gather(loads);
        let mut picked = [0; Plan::SITES_MAX];
        for (place, policy) in self.within.iter_mut().enumerate() {
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
        Some(between.sites[site].classes[picked[site]])
    }

    /// A request of the class was given slots; `loads`: without these, and without it among those that
    /// wait. O(1), and O(classes) where there are several sites.
    pub fn granted(&mut self, class: ClassId, loads: &[Load], slots: u32, grant: Grant) {
        let slots = f64::from(slots);
        let Some(between) = &mut self.between else {
            return self.within[0].granted(class.index(), loads, slots, grant);
        };
        between.gather(loads);
        let (place, child) = between.places[class.index()];
        let site = &between.sites[place];
        self.within[place].granted(child, &site.loads, slots * site.part, grant);
        between.policy.granted(place, &between.loads, slots, grant);
    }

    /// The slots are back, and what the request really cost. O(1).
    pub fn finished(&mut self, class: ClassId, grant: Grant, actual: f64) {
        let Some(between) = &mut self.between else {
            return self.within[0].finished(class.index(), grant, actual);
        };
        let (place, child) = between.places[class.index()];
        self.within[place].finished(child, grant, actual);
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
            return self.within[0].next_change(loads, slots);
        };
        between.gather(loads);
        let sites = self.within.iter().zip(&between.sites);
        let times = sites.map(|(policy, site)| policy.next_change(&site.loads, slots * site.part));
        let above = between.policy.next_change(&between.loads, slots);
        times.chain([above]).flatten().min()
    }
}

impl Between {
    fn new(plan: &Plan, members: impl Fn(usize) -> Vec<ClassId>) -> Self {
        let weights: f64 = plan.sites.iter().map(|site| site.weight).sum();
        let mut places = vec![(0, 0); plan.classes.len()];
        let mut sites = Vec::with_capacity(plan.sites.len());
        for (place, site) in plan.sites.iter().enumerate() {
            let classes = members(place);
            for (child, class) in classes.iter().enumerate() {
                places[class.index()] = (place, child);
            }
            let part = match plan.between_sites {
                Policy::Shared | Policy::Fixed => site.share,
                Policy::Weighted => site.weight / weights,
                _ => 1.0,
            };
            sites.push(Members { loads: vec![Load::default(); classes.len()], classes, part });
        }
        let terms: Vec<Terms> = plan.sites.iter().map(super::Site::terms).collect();
        Between {
            policy: Ranked::new(plan.between_sites, &terms),
            loads: vec![Load::default(); sites.len()],
            sites,
            places,
        }
    }

    /// Sorts the classes' loads by site and adds them up.
    fn gather(&mut self, loads: &[Load]) {
        for (site, sum) in self.sites.iter_mut().zip(&mut self.loads) {
            (sum.waiting, sum.running) = (0, 0);
            for (class, own) in site.classes.iter().zip(&mut site.loads) {
                *own = loads[class.index()];
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
