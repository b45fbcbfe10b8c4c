//! The resources of a pool: each with its limit, and how many wait for it.

use crate::control::{Limit, Slots, Step};
use crate::names::{LaneId, ResourceId};
use crate::plan::ResourceSettings;
use crate::time::Moment;
use std::time::Duration;

/// A resource's state at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceState<'p> {
    /// Its id.
    pub id: ResourceId,
    /// Its name in the latest plan that had it.
    pub name: &'p str,
    /// The number of slots in force.
    pub slots: u32,
    /// Whether that is found while serving.
    pub is_adaptive: bool,
    /// Requests that hold one.
    pub running: u32,
    /// Requests that wait and need one.
    pub waiting: u32,
    /// The last change of the limit, and when.
    pub last_step: Option<(Moment, Step)>,
}

/// One resource of a pool.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) name: Box<str>,
    pub(super) given: Slots,
    /// One that is gone from the plan bounds nothing any more.
    pub(super) is_planned: bool,
    pub(super) limit: Limit,
    /// The number of slots that the shell was told last.
    pub(super) said: u32,
    /// Whether those that need it are held up, as far as loads say.
    pub(super) is_full: bool,
    /// Until when they last were.
    pub(super) full_until: Moment,
    /// Requests that wait and need it.
    pub(super) waiting: u32,
    pub(super) lanes: Vec<LaneId>,
}

impl Resource {
    fn new(settings: &Slots, ahead: Duration) -> Self {
        let mut limit = Limit::new(settings.law(), settings);
        limit.set_clock(ahead);
        Resource {
            name: Box::default(),
            given: settings.clone(),
            is_planned: true,
            limit,
            said: 0,
            is_full: false,
            full_until: Moment::ZERO,
            waiting: 0,
            lanes: Vec::new(),
        }
    }

    /// Whether any request waits for it.
    pub(super) fn holds_up_any(&self) -> bool {
        self.is_full && self.waiting > 0
    }

    pub(super) fn has_free(&self) -> bool {
        !self.is_planned || self.limit.has_free()
    }

    pub(super) fn is_adaptive(&self) -> bool {
        self.given.is_adaptive()
    }
}

/// The resources of a pool.
#[derive(Debug, Default)]
pub(super) struct Resources {
    /// By id; `None`: of another pool.
    pub(super) all: Vec<Option<Box<Resource>>>,
    /// Requests that wait and need any.
    pub(super) waiting: u32,
}

impl Resources {
    #[inline]
    pub(super) fn get(&self, id: ResourceId) -> Option<&Resource> {
        self.all.get(id.index())?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ResourceId) -> Option<&mut Resource> {
        self.all.get_mut(id.index())?.as_deref_mut()
    }

    /// One more waits and needs it, if anything.
    #[inline]
    pub(super) fn joins(&mut self, id: Option<ResourceId>) {
        let Some(id) = id else { return };
        let resource = self.all[id.index()].as_mut().expect("a lane's resource is there");
        resource.waiting += 1;
        self.waiting += 1;
    }

    /// One fewer waits and needs it, if anything.
    #[inline]
    pub(super) fn parts(&mut self, id: Option<ResourceId>) {
        let Some(id) = id else { return };
        let resource = self.all[id.index()].as_mut().expect("a lane's resource is there");
        resource.waiting -= 1;
        self.waiting -= 1;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Resource> + '_ {
        self.all.iter().flatten().map(|resource| &**resource)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Resource> + '_ {
        self.all.iter_mut().flatten().map(|resource| &mut **resource)
    }

    /// Puts those of a plan in force. The limit of one that stays is kept while it is set in the same way.
    pub(super) fn reconfigure<'p>(
        &mut self,
        planned: impl Iterator<Item = (ResourceId, &'p ResourceSettings)>,
        ahead: Duration,
    ) {
        self.iter_mut().for_each(|it| it.is_planned = false);
        for (id, settings) in planned {
            if self.all.len() <= id.index() {
                self.all.resize_with(id.index() + 1, || None);
            }
            let slots = &settings.slots;
            let resource =
                self.all[id.index()].get_or_insert_with(|| Box::new(Resource::new(slots, ahead)));
            if resource.given != *slots {
                resource.given = slots.clone();
                resource.limit.reconfigure(slots);
            }
            (resource.is_planned, resource.name) = (true, settings.name.as_str().into());
        }
    }
}
