//! Lanes: the requests of a class that need the same resource, or none.
//!
//! They wait for the same, so that each lane has its queue, its bounds and its pace of service: those that wait for a resource
//! stand in the way of no others, and how slowly they are served says nothing of these.

use crate::admit::feasible::DrainRate;
use crate::admit::lasting::Lasting;
use crate::collections::grown;
use crate::names::{ClassId, LaneId, ResourceId};
use crate::time::Moment;

/// One lane.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) class: ClassId,
    /// What its requests need beside a slot of the pool.
    pub(super) resource: Option<ResourceId>,
    /// Whether its class is of the background.
    pub(super) is_background: bool,
    /// Requests that wait in it.
    pub(super) waiting: u32,
    /// Whether they wait for something else than a slot of the pool, as far as loads say.
    pub(super) is_held_up: bool,
    /// How fast its two lists are served: of running sessions, of all others.
    drains: [DrainRate; 2],
    /// Refusals due to deadlines of requests that no other of their flow waited beside; of the first class of several that wait in one
    /// queue: of all of them.
    pub(super) lasting: Lasting,
    /// Where its turns among those of its class have got to.
    pub(super) turn: f64,
}

impl Lane {
    /// Whether its requests need something that not all need, or wait for all others.
    pub(super) fn is_apart(&self) -> bool {
        self.resource.is_some() || self.is_background
    }

    /// How fast the list of running sessions, or of all others, is served.
    #[inline]
    pub(super) fn drain(&self, running: bool) -> &DrainRate {
        &self.drains[usize::from(!running)]
    }

    /// The same, to be told.
    #[inline]
    pub(super) fn drain_mut(&mut self, running: bool) -> &mut DrainRate {
        &mut self.drains[usize::from(!running)]
    }

    /// Nothing is known any more of how fast its lists are served.
    pub(super) fn forget_drains(&mut self, now: Moment) {
        self.drains = [DrainRate::since(now); 2];
    }
}

/// The lanes of a class.
#[derive(Clone, Debug, Default)]
struct OfClass {
    /// Of requests that need no resource.
    plain: Option<LaneId>,
    others: Vec<(ResourceId, LaneId)>,
}

/// All lanes of a pool. A lane keeps its id; there are as many as pairs of a class and a resource of the pool ever were in one plan.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    /// By id.
    all: Vec<Lane>,
    /// By class id.
    classes: Vec<OfClass>,
}

impl Lanes {
    /// Adds the lane if it is not there yet.
    pub(super) fn make(&mut self, now: Moment, class: ClassId, resource: Option<ResourceId>) {
        let id = LaneId(self.all.len() as u32);
        let of_class = grown(&mut self.classes, class.index());
        match resource {
            None if of_class.plain.is_some() => return,
            None => of_class.plain = Some(id),
            Some(resource) if of_class.others.iter().any(|(of, _)| *of == resource) => return,
            Some(resource) => of_class.others.push((resource, id)),
        }
        self.all.push(Lane {
            class,
            resource,
            is_background: false,
            waiting: 0,
            is_held_up: false,
            drains: [DrainRate::since(now); 2],
            lasting: Lasting::default(),
            turn: 0.0,
        });
    }

    /// The lane of a class's requests that need the resource; that of those that need none if there is no such lane. O(1), and
    /// O(resources) with one.
    ///
    /// # Panics
    /// If the class never was in force.
    #[inline]
    pub(super) fn of(&self, class: ClassId, resource: Option<ResourceId>) -> LaneId {
        let of_class = &self.classes[class.index()];
        let other = resource.and_then(|resource| {
            of_class.others.iter().find(|(of, _)| *of == resource).map(|(_, lane)| *lane)
        });
        other.or(of_class.plain).expect("the class was in force")
    }

    /// The lanes of a class, that of requests without a resource first.
    pub(super) fn of_class(&self, class: ClassId) -> impl Iterator<Item = LaneId> + '_ {
        let of_class = self.classes.get(class.index());
        let plain = of_class.and_then(|it| it.plain);
        let others = of_class.into_iter().flat_map(|it| &it.others);
        plain.into_iter().chain(others.map(|(_, lane)| *lane))
    }

    /// The only lane of a class, if it has one only.
    #[inline]
    pub(super) fn only(&self, class: ClassId) -> Option<LaneId> {
        let of_class = &self.classes[class.index()];
        of_class.plain.filter(|_| of_class.others.is_empty())
    }

    /// Every lane.
    pub(super) fn ids(&self) -> impl Iterator<Item = LaneId> + use<> {
        (0..self.all.len() as u32).map(LaneId)
    }

    #[inline]
    pub(super) fn at(&self, lane: LaneId) -> &Lane {
        &self.all[lane.index()]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, lane: LaneId) -> &mut Lane {
        &mut self.all[lane.index()]
    }
}
