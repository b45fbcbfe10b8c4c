//! Which of several classes, or sites, may be given the next slot: what each policy's documentation
//! says, asked of one request at one moment. What only shows over time is in `turns` and `measure`.

use crate::state::{Req, State};
use tiergate_core::plan::Spec;
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
pub(crate) fn whole(share: f64, slots: f64) -> u32 {
    (share * slots + 1e-6).floor() as u32
}

/// Slots of a share, a broken one rounded up.
pub(crate) fn rounded_up(share: f64, slots: f64) -> u32 {
    (share * slots - 1e-6).ceil().max(0.0) as u32
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
pub(crate) fn classes(plan: &Spec, classes: &[usize]) -> Vec<Member> {
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

/// Slots whose parts the classes of a site have: those of the site where it has a part of its own.
fn slots_of(state: &State, site: usize) -> f64 {
    let slots = f64::from(state.slots());
    let sites = &state.plan.sites;
    match state.plan.between_sites {
        _ if sites.len() == 1 => slots,
        Policy::Shared | Policy::Fixed => sites[site].share * slots,
        Policy::Weighted => {
            sites[site].weight / sites.iter().map(|site| site.weight).sum::<f64>() * slots
        }
        _ => slots,
    }
}

/// Whether as many slots are free as the request takes. One that is wider than all there are runs alone.
pub(crate) fn fits(state: &State, req: &Req) -> bool {
    req.slots <= state.free() || state.running.is_empty()
}

/// Whether the policies may leave the request its slots, be they free or not, whoever else waits.
pub(crate) fn has_room(state: &State, req: &Req) -> bool {
    room_in(state, req, rounded_up)
}

/// Whether they must: a broken part of a slot, which one may have now and then, is left out.
pub(crate) fn must_have_room(state: &State, req: &Req) -> bool {
    room_in(state, req, whole)
}

fn room_in(state: &State, req: &Req, slots_of_share: fn(f64, f64) -> u32) -> bool {
    if state.is_gone(req) {
        // It gets what is left.
        return true;
    }
    let sites = sites(state);
    let site = state.plan.classes[req.class].site.index();
    let classes = classes(&state.plan, &sites[site].classes);
    let class = place_of(&classes, req);
    let slots = f64::from(state.slots());
    let between = state.plan.between_sites;
    let share = |share: f64, slots: f64| slots_of_share(share, slots);
    (sites.len() == 1 || leaves_room(state, between, &sites, site, req.slots, slots, share)) && {
        let policy = state.plan.sites[site].policy;
        leaves_room(state, policy, &classes, class, req.slots, slots_of(state, site), share)
    }
}

/// Whether the policies at both levels make the request the next, fit or not: one that does not keeps the
/// free slots until it does.
pub(crate) fn check(state: &State, req: &Req) -> Result<(), String> {
    if state.is_gone(req) {
        return check_gone(state, req);
    }
    if !has_room(state, req) {
        return Err("it has no room".to_owned());
    }
    let sites = sites(state);
    let site = state.plan.classes[req.class].site.index();
    if sites.len() > 1 {
        let slots = f64::from(state.slots());
        check_level(state, state.plan.between_sites, &sites, site, req, slots)
            .map_err(|why| format!("between sites: {why}"))?;
    }
    let classes = classes(&state.plan, &sites[site].classes);
    let class = place_of(&classes, req);
    let policy = state.plan.sites[site].policy;
    check_level(state, policy, &classes, class, req, slots_of(state, site))
}

/// Whether a request of a class that is gone may be next: after all others, the first to go first.
fn check_gone(state: &State, req: &Req) -> Result<(), String> {
    let first = |other: &&Req| match state.is_gone(other) {
        true => other.class < req.class,
        false => must_have_room(state, other),
    };
    match state.waiting.iter().find(first) {
        Some(other) => Err(format!("its class is gone, and {} waits", other.id)),
        None => Ok(()),
    }
}

fn place_of(members: &[Member], req: &Req) -> usize {
    members.iter().position(|it| it.classes.contains(&req.class)).expect("of this site")
}

/// Whether the policy leaves the member so many more slots.
fn leaves_room(
    state: &State,
    policy: Policy,
    members: &[Member],
    place: usize,
    need: u32,
    slots: f64,
    slots_of_share: impl Fn(f64, f64) -> u32,
) -> bool {
    let member = &members[place];
    let held = state.held(&member.classes);
    match policy {
        Policy::Fixed => held + need <= slots_of_share(member.share, slots),
        Policy::Shared => {
            // Beyond its reserve a member takes of what is nobody's reserve.
            let borrowed = |it: &Member, held: u32| held.saturating_sub(whole(it.reserve, slots));
            let others = members.iter().enumerate().filter(|(other, _)| *other != place);
            let others: u32 = others.map(|(_, it)| borrowed(it, state.held(&it.classes))).sum();
            let reserved: f64 = members.iter().map(|it| it.reserve).sum();
            let mine = borrowed(member, held + need);
            mine == 0 || others + mine <= whole(1.0 - reserved, slots)
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
    slots: f64,
) -> Result<(), String> {
    let held = |member: &Member| state.held(&member.classes);
    let waits =
        |member: &Member| state.waiting_of(&member.classes).any(|other| has_room(state, other));
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
    let then_importance =
        |is_owed: bool| match others().find(|(other, it)| *other < place && waits(it)) {
            Some((other, _)) if !is_owed => Err(format!("{other} is more important")),
            _ => Ok(()),
        };
    match policy {
        Policy::Strict => owed_first(|member| member.minimum).and_then(then_importance),
        Policy::Shared => owed_first(|member| member.share).and_then(then_importance),
        Policy::Weighted | Policy::Fixed => Ok(()),
        Policy::Deadline => by_deadline(state, waiting(state, members), req),
        Policy::Score { ageing } => by_points(waiting(state, members), req, ageing),
        Policy::Fifo => first_by(waiting(state, members), req, |it| it.arrived.seconds()),
    }
}

/// Points that a request would have had if it had come at the beginning: everybody gains points as fast,
/// so that the order of two never changes.
pub(crate) fn points(req: &Req, ageing: f64) -> f64 {
    req.score as f64 / 1e6 - ageing * req.arrived.seconds()
}

/// Whether nobody who waits has more points, or as many and is older. Points are counted in millionths:
/// what is less apart may go either way.
pub(crate) fn by_points<'a>(
    waiting: impl Iterator<Item = &'a Req> + Clone,
    req: &Req,
    ageing: f64,
) -> Result<(), String> {
    let equal = |other: &&Req| points(other, ageing) == points(req, ageing);
    first_by(waiting.clone().filter(equal), req, |it| it.arrived)?;
    let apart = |other: &&Req| points(other, ageing) > points(req, ageing) + 2e-6;
    first_by(waiting.filter(apart), req, |it| -points(it, ageing))
}

/// Whether the request's deadline is the first of those that have not passed; of the late, the first that
/// passed, or the first at which they leave.
pub(crate) fn by_deadline<'a>(
    state: &'a State,
    waiting: impl Iterator<Item = &'a Req> + Clone,
    req: &Req,
) -> Result<(), String> {
    let due = |it: &Req| (state.is_late(it), it.due);
    let gone = |it: &Req| (state.is_late(it), it.due + it.due.since(it.arrived));
    match state.is_late(req) {
        false => first_by(waiting, req, due),
        true => first_by(waiting.clone(), req, due).or_else(|_| first_by(waiting, req, gone)),
    }
}

/// Who waits and has room.
fn waiting<'a>(state: &'a State, members: &'a [Member]) -> impl Iterator<Item = &'a Req> + Clone {
    let all = members.iter().flat_map(|member| state.waiting_of(&member.classes));
    all.filter(|other| has_room(state, other))
}

/// Whether nobody who waits comes before the request by the key, the least first.
fn first_by<'a, K: PartialOrd>(
    mut waiting: impl Iterator<Item = &'a Req>,
    req: &Req,
    key: impl Fn(&Req) -> K,
) -> Result<(), String> {
    let mine = key(req);
    match waiting.find(|other| key(other) < mine) {
        Some(other) => Err(format!("request {} comes before it", other.id)),
        None => Ok(()),
    }
}
