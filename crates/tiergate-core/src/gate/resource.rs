//! Resources: what only some requests of a pool need, such as a database behind one part of a site, each with a limit of its own.
//!
//! A request that needs one gets its slot of the pool and that of the resource at one moment, so that nothing is held while it waits
//! for the other. While no slot of a resource is free, the requests that need it are held up: no policy sees them, no slot of the
//! pool is kept for them, and what they wait for is no sign of what the pool's servers can do. They have their
//! own queues ([`super::lanes`]) and their own places there.
//!
//! What a resource is told by ends of requests is not told to the pool's limit, but for the time that they took: refusals of the origin
//! ([`crate::control`]'s pushback) and service targets concern the resource that was needed.

use super::pool::Pool;
use super::resources::{Resource, ResourceState};
use crate::control::{Completion, OriginLoad, Seat, Step, TargetState};
use crate::names::{ClassId, LaneId, ResourceId};
use crate::plan::Plan;
use crate::schedule::Load;
use crate::time::Moment;
use std::borrow::Cow;
use std::time::Duration;

impl<T> Pool<T> {
    /// The resources of the pool that the plan in force has, and those that are gone but have requests left. By age.
    pub fn resources(&self) -> impl Iterator<Item = ResourceState<'_>> + '_ {
        let all = (0..).map(ResourceId).zip(&self.resources.all);
        let all = all.filter_map(|(id, it)| Some((id, it.as_deref()?)));
        let here = all.filter(|(_, it)| it.is_planned || it.limit.running() + it.waiting > 0);
        here.map(|(id, it)| ResourceState {
            id,
            name: &it.name,
            slots: it.limit.slots(),
            is_adaptive: it.is_adaptive(),
            running: it.limit.running(),
            waiting: it.waiting,
            last_step: it.limit.last_step(),
        })
    }

    /// How the service target of a class fares, at the resources that its requests need and where they need none; `None`: it has
    /// none, or the numbers of slots are given.
    pub(super) fn target(&self, class: ClassId) -> Option<TargetState> {
        let own = self.limit.target(class);
        let there = self.resources.iter().filter_map(|it| it.limit.target(class));
        own.into_iter().chain(there).reduce(TargetState::with)
    }

    /// The class whose target came to be missed (`true`), or is missed no longer; said once.
    pub(super) fn take_target_news(&mut self) -> Option<(ClassId, bool)> {
        let own = self.limit.take_target_news();
        own.or_else(|| self.resources.iter_mut().find_map(|it| it.limit.take_target_news()))
    }

    /// The loads of the classes as far as their requests wait in the same places as those that need this resource, or none. Where the
    /// pool has no resources, all do.
    pub(super) fn loads_beside(&self, resource: Option<ResourceId>) -> Cow<'_, [Load]> {
        if self.resources.all.is_empty() && self.background.is_none() {
            return Cow::Borrowed(self.classes.loads());
        }
        let classes = self.classes.ranked().iter().zip(self.classes.loads());
        let load = |(class, load): (&ClassId, &Load)| {
            let lanes = self.lanes.of_class(*class).map(|lane| self.lanes.at(lane));
            let beside = lanes.filter(|lane| lane.resource == resource);
            Load { waiting: beside.map(|lane| lane.waiting).sum(), ..*load }
        };
        Cow::Owned(classes.map(load).collect())
    }

    /// Requests that wait and may have a slot of the pool.
    pub(super) fn ready(&self) -> u32 {
        self.backlog.len() as u32 - self.held_up
    }

    /// Requests that wait in the same places as those that need this resource, or none.
    pub(super) fn waiting_beside(&self, resource: Option<ResourceId>) -> usize {
        match resource.and_then(|id| self.resources.get(id)) {
            Some(resource) => resource.waiting as usize,
            None => self.backlog.len() - self.resources.waiting as usize,
        }
    }

    fn resource_of(&self, lane: LaneId) -> Option<&Resource> {
        self.resources.get(self.lanes.at(lane).resource?)
    }

    fn resource_of_mut(&mut self, lane: LaneId) -> Option<&mut Resource> {
        self.resources.get_mut(self.lanes.at(lane).resource?)
    }

    /// Whether a slot of what requests of the lane need is free.
    pub(super) fn has_resource(&self, lane: LaneId) -> bool {
        self.resource_of(lane).is_none_or(Resource::has_free)
    }

    /// Whether the lane's requests are of the background, and that may have no slot.
    pub(super) fn is_background_full(&self, lane: LaneId) -> bool {
        self.lanes.at(lane).is_background && self.background.as_ref().is_some_and(|it| it.is_full)
    }

    /// Whether a request of the lane that came then has waited for its resource, or because it is of the background, at least for a
    /// while.
    pub(super) fn was_held_up(&self, lane: LaneId, arrived: Moment) -> bool {
        self.lanes.at(lane).is_background
            || self.resource_of(lane).is_some_and(|it| it.is_full || it.full_until > arrived)
    }

    /// How many requests of the lane may be in progress.
    pub(super) fn slots_for(&self, lane: LaneId) -> u32 {
        let of_resource = self.resource_of(lane).filter(|it| it.is_planned);
        let of_background = self.background.as_ref().filter(|_| self.lanes.at(lane).is_background);
        of_resource
            .map_or(u32::MAX, |it| it.limit.slots())
            .min(of_background.map_or(u32::MAX, |it| it.bound().max(1)))
            .min(self.limit.slots())
    }

    /// Whether the slots of a request of the lane may be lent that it has there: not if a policy says how many there are.
    pub(super) fn is_lendable(&self, lane: LaneId, seat: Option<Seat>) -> bool {
        self.limit.is_adaptive(seat) && self.resource_of(lane).is_none_or(Resource::is_adaptive)
    }

    /// The same as [`Limits::is_refused_beyond`] of what requests of the lane need.
    ///
    /// [`Limits::is_refused_beyond`]: crate::control::Limits::is_refused_beyond
    pub(super) fn is_refused_there(&self, lane: LaneId, lent: u32) -> bool {
        self.resource_of(lane).is_some_and(|it| it.limit.is_refused_beyond(lent))
    }

    /// One more waits in the lane.
    pub(super) fn joins(&mut self, lane: LaneId) {
        let lane = self.lanes.at_mut(lane);
        lane.waiting += 1;
        let load = self.classes.load_mut(lane.class);
        load.apart += u32::from(lane.is_apart());
        *load.part(lane.is_held_up) += 1;
        self.held_up += u32::from(lane.is_held_up);
        self.resources.joins(lane.resource);
    }

    /// One fewer waits in the lane; the caller tells the triggers.
    pub(super) fn parts(&mut self, lane: LaneId) {
        let lane = self.lanes.at_mut(lane);
        lane.waiting -= 1;
        let load = self.classes.load_mut(lane.class);
        load.apart -= u32::from(lane.is_apart());
        *load.part(lane.is_held_up) -= 1;
        self.held_up -= u32::from(lane.is_held_up);
        self.resources.parts(lane.resource);
    }

    /// A request of the lane takes a slot of its resource. How many are in use there with it.
    pub(super) fn takes_resource(&mut self, now: Moment, lane: LaneId) -> u32 {
        let Some(id) = self.lanes.at(lane).resource else { return 0 };
        let Some(resource) = self.resources.get_mut(id) else { return 0 };
        resource.limit.grant(now, 1);
        let found = resource.limit.running();
        self.look_at_resource(now, id);
        found
    }

    /// It gives that slot back; [`Pool::look_at_resources`] follows.
    pub(super) fn gives_resource(&mut self, lane: LaneId) {
        if let Some(resource) = self.resource_of_mut(lane) {
            resource.limit.take_back(1);
        }
    }

    /// It lends that slot; [`Pool::look_at_resources`] follows.
    pub(super) fn lends_resource(&mut self, now: Moment, lane: LaneId) {
        if let Some(resource) = self.resource_of_mut(lane) {
            resource.limit.lend(now, 1);
        }
    }

    /// Who is held up is as the resources' limits say. O(resources), and O(classes) for each that changed.
    pub(super) fn look_at_resources(&mut self, now: Moment) {
        for id in (0..self.resources.all.len() as u16).map(ResourceId) {
            self.look_at_resource(now, id);
        }
    }

    fn look_at_resource(&mut self, now: Moment, id: ResourceId) {
        let Some(resource) = self.resources.get(id) else { return };
        let is_full = !resource.has_free();
        if resource.is_full == is_full {
            return;
        }
        if resource.waiting > 0 && self.ready() == 0 {
            // Time that nobody waited in has not passed for the schedule yet.
            self.let_time_pass(now);
        }
        let resource = self.resources.get_mut(id).expect("just seen");
        resource.is_full = is_full;
        if !is_full {
            resource.full_until = now;
        }
        for place in 0..resource.lanes.len() {
            let lanes = self.resources.get(id).map(|it| &it.lanes);
            let lane = lanes.and_then(|lanes| lanes.get(place)).copied().expect("counted");
            self.hold(lane);
        }
    }

    /// Whether the lane's requests are held up, is as what they need has a slot for them. O(1).
    pub(super) fn hold(&mut self, lane: LaneId) {
        let is_held_up =
            self.resource_of(lane).is_some_and(|it| it.is_full) || self.is_background_full(lane);
        let lane = self.lanes.at_mut(lane);
        if std::mem::replace(&mut lane.is_held_up, is_held_up) == is_held_up || lane.waiting == 0 {
            return;
        }
        let load = self.classes.load_mut(lane.class);
        *load.part(!is_held_up) -= lane.waiting;
        *load.part(is_held_up) += lane.waiting;
        match is_held_up {
            true => self.held_up += lane.waiting,
            false => self.held_up -= lane.waiting,
        }
    }

    /// A request of the lane has given its slots back: tells the limits. `found`: slots of the resource that were in use when its own was granted.
    pub(super) fn tell_limits(
        &mut self,
        completion: &Completion<'_>,
        seat: Option<Seat>,
        found: u32,
    ) {
        if self.lanes.at(completion.lane).resource.is_none() {
            return self.limit.finished(seat, completion);
        }
        self.tell_resource(completion, found);
        self.limit.finished_elsewhere(seat, completion);
    }

    /// The same, of a request that held no slot of the pool's limit.
    pub(super) fn tell_resource(&mut self, completion: &Completion<'_>, found: u32) {
        let Some(resource) = self.resource_of_mut(completion.lane) else { return };
        // Its own is back already.
        let running = resource.limit.running() + 1;
        let load = OriginLoad { running, waiting: resource.waiting };
        resource.limit.finished(&Completion { found, load, ..*completion });
    }

    /// Tells the resources' limits whether slots are kept from those that wait.
    pub(super) fn note_kept_resources(&mut self, now: Moment) {
        for resource in self.resources.iter_mut() {
            let waits = resource.waiting > 0;
            resource.limit.note_kept(now, waits);
        }
    }

    /// Puts the resources of a plan in force, and makes their lanes.
    pub(super) fn reconfigure_resources(&mut self, now: Moment, plan: &Plan, ahead: Duration) {
        if self.is_planned {
            self.resources.reconfigure(plan.resources_of(self.id), ahead);
        }
        for class in plan.class_ids() {
            self.lanes.make(now, *class, None);
            for (id, _) in plan.resources_of(self.id) {
                self.lanes.make(now, *class, Some(id));
            }
        }
        self.resources.iter_mut().for_each(|resource| resource.lanes.clear());
        for lane in self.lanes.ids() {
            if let Some(resource) = self.resource_of_mut(lane) {
                resource.lanes.push(lane);
            }
        }
    }

    /// The resource whose number of slots the shell does not know yet, that number, and why.
    pub(super) fn resource_news(&mut self) -> Option<(ResourceId, u32, Option<Step>)> {
        let all = (0..).map(ResourceId).zip(&mut self.resources.all);
        let mut all = all.filter_map(|(id, it)| Some((id, it.as_deref_mut()?)));
        let (id, resource) = all.find(|(_, it)| it.is_planned && it.said != it.limit.slots())?;
        resource.said = resource.limit.slots();
        Some((id, resource.said, resource.limit.last_step().map(|(_, step)| step)))
    }
}
