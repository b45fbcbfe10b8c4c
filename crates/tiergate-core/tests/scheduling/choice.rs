//! Which of several classes, or sites, may be given the next slot: what each policy's documentation
//! says, asked of one request at one moment. What only shows over time is in `turns` and `measure`.

use crate::state::{Req, State};
use tiergate_core::plan::Plan;
use tiergate_core::schedule::Policy;

/// A class, or a site: its part in a policy.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) classes: Vec<usize>,
    pub(crate) minimum: f64,
    pub(crate) share: f64,
    pub(crate) reserve: f64,
}

/// Slots of a share: whole ones (a share of a third of nine is three, however it is computed).
pub(crate) fn whole(share: f64, slots: u32) -> u32 {
    (share * f64::from(slots) + 1e-6).floor() as u32
}

/// Slots of a share, a broken one rounded up.
pub(crate) fn rounded_up(share: f64, slots: u32) -> u32 {
    (share * f64::from(slots) - 1e-6).ceil().max(0.0) as u32
}

/// The sites as members.
pub(crate) fn sites(state: &State) -> Vec<Member> {
    let member = |(site, classes): (&tiergate_core::schedule::Site, Vec<usize>)| Member {
        classes,
        minimum: site.minimum,
        share: site.share,
        reserve: site.reserve,
    };
    state.plan.sites.iter().zip(state.sites()).map(member).collect()
}

/// The classes of a site as members.
pub(crate) fn classes(plan: &Plan, classes: &[usize]) -> Vec<Member> {
    let member = |&place: &usize| {
        let class = &plan.classes[place];
        Member {
            classes: vec![place],
            minimum: class.minimum,
            share: class.share,
            reserve: class.reserve,
        }
    };
    classes.iter().map(member).collect()
}

/// Whether the request could start now, whoever else waits.
pub(crate) fn is_eligible(state: &State, req: &Req) -> bool {
    let sites = sites(state);
    let site = state.plan.classes[req.class].site.index();
    let classes = classes(&state.plan, &sites[site].classes);
    let class = place_of(&classes, req);
    req.slots <= state.free()
        && has_room(state, state.plan.between_sites, &sites, site, req.slots)
        && has_room(state, state.plan.sites[site].policy, &classes, class, req.slots)
}

/// Whether the policies at both levels may give the next slot to the request.
pub(crate) fn check(state: &State, req: &Req) -> Result<(), String> {
    if !is_eligible(state, req) {
        return Err("it has no room".to_owned());
    }
    let sites = sites(state);
    let site = state.plan.classes[req.class].site.index();
    if sites.len() > 1 {
        check_level(state, state.plan.between_sites, &sites, site, req)
            .map_err(|why| format!("between sites: {why}"))?;
    }
    let classes = classes(&state.plan, &sites[site].classes);
    let class = place_of(&classes, req);
    check_level(state, state.plan.sites[site].policy, &classes, class, req)
}

fn place_of(members: &[Member], req: &Req) -> usize {
    members.iter().position(|it| it.classes.contains(&req.class)).expect("of this site")
}

/// Whether the policy leaves the member so many more slots.
fn has_room(state: &State, policy: Policy, members: &[Member], place: usize, need: u32) -> bool {
    let slots = state.slots();
    let member = &members[place];
    let held = state.held(&member.classes);
    match policy {
        Policy::Fixed => held + need <= whole(member.share, slots),
        Policy::Shared => {
            let kept = |other: &Member| {
                whole(other.reserve, slots).saturating_sub(state.held(&other.classes))
            };
            let others = members.iter().enumerate().filter(|(other, _)| *other != place);
            let kept: u32 = others.map(|(_, other)| kept(other)).sum();
            held + need <= whole(member.reserve, slots) || kept + need <= state.free()
        }
        _ => true,
    }
}

fn check_level(
    state: &State,
    policy: Policy,
    members: &[Member],
    place: usize,
    req: &Req,
) -> Result<(), String> {
    let slots = state.slots();
    let held = |member: &Member| state.held(&member.classes);
    let waits = |member: &Member| {
        state.waiting_of(&member.classes).any(|other| is_eligible(state, other))
    };
    let member = &members[place];
    let others = || members.iter().enumerate().filter(|(other, _)| *other != place);
    // Whoever is below what it is sure of goes before those who are not.
    let owed_first = |sure: fn(&Member) -> f64| {
        let is_owed = held(member) < rounded_up(sure(member), slots);
        let mut owed = others().filter(|(_, it)| waits(it) && held(it) < whole(sure(it), slots));
        match owed.next() {
            Some((other, _)) if !is_owed => Err(format!("{other} is below what it is sure of")),
            _ => Ok(is_owed),
        }
    };
    match policy {
        Policy::Strict => {
            let is_owed = owed_first(|member| member.minimum)?;
            match others().find(|(other, it)| *other < place && waits(it)) {
                Some((other, _)) if !is_owed => Err(format!("{other} is more important")),
                _ => Ok(()),
            }
        }
        Policy::Shared => owed_first(|member| member.share).map(|_| ()),
        Policy::Weighted | Policy::Fixed => Ok(()),
        Policy::Deadline => first_by(state, members, req, |it| {
            (state.is_late(it), i128::from(it.due.nanos()))
        }),
        Policy::Score { ageing } => {
            // Everybody gains points as fast, so the order of two never changes.
            let points = |it: &Req| {
                -(i128::from(it.score) * 1000 - (ageing * it.arrived.seconds() * 1e9) as i128)
            };
            first_by(state, members, req, |it| (state.is_late(it), points(it)))
        }
        Policy::Fifo => first_by(state, members, req, |it| {
            (state.is_late(it), i128::from(it.arrived.nanos()))
        }),
    }
}

/// Whether nobody who waits comes before the request by the key, the least first.
fn first_by<K: PartialOrd>(
    state: &State,
    members: &[Member],
    req: &Req,
    key: impl Fn(&Req) -> K,
) -> Result<(), String> {
    let all = members.iter().flat_map(|member| state.waiting_of(&member.classes));
    let mine = key(req);
    match all.filter(|other| is_eligible(state, other)).find(|other| key(other) < mine) {
        Some(other) => Err(format!("request {} comes before it", other.id)),
        None => Ok(()),
    }
}
