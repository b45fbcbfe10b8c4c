//! The limit of a pool: one for all its servers together, or one for each.

mod member;
mod members;
mod recovery;

use super::law::{Completion, Law, Step};
use super::limit::Limit;
use super::slots::Slots;
use super::target::{ServiceTarget, TargetState};
use crate::names::{ClassId, ServerId};
use crate::sense::Reading;
use crate::time::Moment;
pub use member::Access;
use members::Members;
pub use members::ServerSlots;
use std::num::NonZeroU16;
use std::time::Duration;

/// Whose slots a request holds, where each server has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    server: ServerId,
    /// Counts how often servers came to have limits of their own.
    epoch: NonZeroU16,
}

impl Seat {
    /// The server.
    pub(crate) fn server(self) -> ServerId {
        self.server
    }
}

/// The limit of a pool's servers together, or of each.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Of all together. Where each has its own: what was granted before that.
    whole: Limit,
    each: Option<Box<Members>>,
    /// The servers that have a number of slots of their own, whatever `slots` says.
    numbers: Box<[(ServerId, u32)]>,
    epoch: NonZeroU16,
    targets: Box<[(ClassId, ServiceTarget)]>,
    /// What the limit is set by, adjustments included.
    slots: Slots,
    ahead: Duration,
}

impl Limits {
    pub(crate) fn new(law: Box<dyn Law>, slots: &Slots) -> Self {
        let whole = Limit::new(law, slots);
        let (slots, targets, numbers) = (slots.clone(), Box::default(), Box::default());
        let (each, epoch, ahead) = (None, NonZeroU16::MIN, Duration::ZERO);
        Limits { whole, each, numbers, epoch, targets, slots, ahead }
    }

    /// Begins anew with what a plan says, but for servers with a number of their own; slots in use stay so.
    /// [`Limits::set_targets`] follows.
    pub(crate) fn reconfigure(&mut self, slots: &Slots) {
        self.slots = slots.clone();
        self.whole.reconfigure(slots);
        if let Some(each) = &mut self.each {
            each.change_unnumbered(|limit| limit.reconfigure(slots));
        }
    }

    /// Which servers have a number of slots of their own, and how many; all others have what the plan says.
    /// [`Limits::set_servers`] follows. Whether any is new.
    pub(crate) fn set_numbers(&mut self, numbers: &[(ServerId, u32)]) -> bool {
        let is_new = *self.numbers != *numbers;
        if is_new {
            self.numbers = numbers.into();
        }
        is_new
    }

    /// Whether each server has a limit of its own, or none has; what has been found is forgotten where that changes. Requests in progress
    /// go on: where servers come to have limits, they count for none of them.
    pub(crate) fn set_per_server(&mut self, is_per_server: bool) {
        if self.each.is_some() == is_per_server {
            return;
        }
        self.epoch = self.epoch.checked_add(1).unwrap_or(NonZeroU16::MIN);
        match self.each.take() {
            Some(each) => self.whole.holds_too(each.running()),
            None => self.each = Some(Box::new(Members::new())),
        }
        self.whole.reconfigure(&self.slots);
    }

    /// The servers that there are, by which those are known that have a limit of their own. What was found of one that stays is kept,
    /// unless its limit is set in another way now. O(servers · numbers).
    pub(crate) fn set_servers(&mut self, now: Moment, servers: &[ServerId]) {
        let Limits { each, numbers, slots, ahead, targets, .. } = self;
        let Some(each) = each else { return };
        let own = |server| numbers.iter().find(|(of, _)| *of == server).map(|(_, number)| *number);
        let set = |number: Option<u32>| number.map_or_else(|| slots.clone(), Slots::Fixed);
        let prepared = |limit: &mut Limit| {
            limit.set_clock(*ahead);
            let is_adaptive = limit.is_adaptive();
            limit.set_targets(now, targets.iter().copied().filter(|_| is_adaptive));
        };
        let new = |number| {
            let slots = set(number);
            let mut limit = Limit::new(slots.law(), &slots);
            prepared(&mut limit);
            limit
        };
        each.set_servers(servers, own, new, |limit, number| {
            limit.succeeded_by(now, &set(number));
            prepared(limit);
        });
    }

    /// Whether any of these servers may get requests otherwise than it is said here, or all its slots since it has come back.
    pub(crate) fn has_other_access(&self, now: Moment, servers: &[(ServerId, Access)]) -> bool {
        self.each.as_ref().is_some_and(|each| each.has_other_access(now, servers))
    }

    /// Which servers may get requests. Nothing where they have no limits of their own.
    pub(crate) fn set_access(&mut self, now: Moment, servers: &[(ServerId, Access)]) {
        if let Some(each) = &mut self.each {
            each.set_access(now, servers);
        }
    }

    /// A request could not reach the server whose slots these are: it gets one at a time until one is answered, and then
    /// its slots back gradually.
    pub(crate) fn doubt(&mut self, seat: Option<Seat>) {
        if let (Some(seat), Some(each)) = (seat, &mut self.each) {
            each.doubt(seat.server);
        }
    }

    pub(crate) fn is_per_server(&self) -> bool {
        self.each.is_some()
    }

    /// The servers that have a limit of their own.
    pub(crate) fn servers(&self) -> impl Iterator<Item = ServerSlots> + '_ {
        self.each.iter().flat_map(|each| each.states())
    }

    /// The wall clock is ahead of moments by so much; see [`Law::set_clock`].
    pub(crate) fn set_clock(&mut self, ahead: Duration) {
        self.ahead = ahead;
        self.all(|limit| limit.set_clock(ahead));
    }

    /// The service targets of classes; what was found for those that stay is kept. O(classes²).
    pub(crate) fn set_targets(
        &mut self,
        now: Moment,
        wanted: impl Iterator<Item = (ClassId, ServiceTarget)>,
    ) {
        let targets: Box<[_]> = wanted.collect();
        // A number that is typed in is not moved, so that a target would only be missed there.
        self.all(|limit| {
            let is_adaptive = limit.is_adaptive();
            limit.set_targets(now, targets.iter().copied().filter(|_| is_adaptive));
        });
        self.targets = targets;
    }

    /// How the service target of a class fares; `None`: it has none here. O(servers · targets).
    pub(crate) fn target(&self, class: ClassId) -> Option<TargetState> {
        match &self.each {
            None => self.whole.target(class),
            Some(each) => {
                each.limits().filter_map(|limit| limit.target(class)).reduce(TargetState::with)
            }
        }
    }

    /// The class whose target came to be missed (`true`), or is missed no longer; said once.
    pub(crate) fn take_target_news(&mut self) -> Option<(ClassId, bool)> {
        match &mut self.each {
            None => self.whole.take_target_news(),
            Some(each) => each.take_target_news(),
        }
    }

    /// The number of slots in force: where each server has its own, of those that may get requests, and what is in use at others.
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        match &self.each {
            None => self.whole.slots(),
            Some(each) => each.slots().saturating_add(self.whole.running()),
        }
    }

    /// The most that there may be of all together; where each server has its own, that is not bounded.
    pub(crate) fn most(&self) -> u32 {
        if self.each.is_none() { self.whole.most() } else { u32::MAX }
    }

    /// The last change, and when.
    pub(crate) fn last_step(&self) -> Option<(Moment, Step)> {
        match &self.each {
            None => self.whole.last_step(),
            Some(each) => {
                let (_, at, step) = each.last_step()?;
                Some((at, Step { slots: self.slots(), ..step }))
            }
        }
    }

    /// The server whose limit the last change was of, and how many slots it has since, where each has its own.
    pub(crate) fn last_server(&self) -> Option<(ServerId, u32)> {
        let (server, _, step) = self.each.as_ref()?.last_step()?;
        Some((server, step.slots))
    }

    /// Whether the number of slots is found while serving where these are.
    #[inline]
    pub(crate) fn is_adaptive(&self, seat: Option<Seat>) -> bool {
        self.at(seat).is_adaptive()
    }

    /// Slots in use.
    #[inline]
    pub(crate) fn running(&self) -> u32 {
        match &self.each {
            None => self.whole.running(),
            Some(each) => self.whole.running() + each.running(),
        }
    }

    /// Slots in use where these are.
    #[inline]
    pub(crate) fn running_at(&self, seat: Option<Seat>) -> u32 {
        self.at(seat).running()
    }

    /// Whether the origin refuses requests beyond those that are in progress where these slots are, so many without slots among them.
    pub(crate) fn is_refused_beyond(&self, seat: Option<Seat>, lent: u32) -> bool {
        self.at(seat).is_refused_beyond(lent)
    }

    /// Whether a slot is free.
    #[inline]
    pub(crate) fn has_free(&self) -> bool {
        match &self.each {
            None => self.whole.has_free(),
            Some(each) => each.has_free(),
        }
    }

    /// Whether a request that takes so many slots may have them now; one that takes more than there are
    /// may if nobody else runs, at that server where each has its own.
    #[inline]
    pub(crate) fn fits(&self, slots: u16) -> bool {
        match &self.each {
            None => self.whole.fits(slots),
            Some(each) => each.fits(slots),
        }
    }

    /// A request gets slots. Where each server has its own: of the one, of those that have room, with the smallest share of its
    /// slots in use. O(servers) then.
    #[inline]
    pub(crate) fn grant(&mut self, now: Moment, slots: u16) -> Option<Seat> {
        let granted = match &mut self.each {
            None => None,
            Some(each) => each.grant(now, slots),
        };
        if granted.is_none() {
            self.whole.grant(now, slots);
        }
        granted.map(|server| Seat { server, epoch: self.epoch })
    }

    /// The same for a request that is to go to none of these servers; `None`: no other has room.
    pub(crate) fn grant_elsewhere(
        &mut self,
        now: Moment,
        slots: u16,
        not_at: &[ServerId],
    ) -> Option<Option<Seat>> {
        let Some(each) = &mut self.each else {
            return (self.whole.has_free() && self.whole.fits(slots)).then(|| {
                self.whole.grant(now, slots);
                None
            });
        };
        let server = each.grant_elsewhere(now, slots, not_at)?;
        Some(Some(Seat { server, epoch: self.epoch }))
    }

    /// Whether a request may have them now that is to go to none of these servers. O(servers).
    pub(crate) fn fits_elsewhere(&self, slots: u16, not_at: &[ServerId]) -> bool {
        match &self.each {
            None => self.whole.has_free() && self.whole.fits(slots),
            Some(each) => each.fits_elsewhere(slots, not_at),
        }
    }

    /// A request lends its slots; [`Limits::grant`] when it takes them back.
    pub(crate) fn lend(&mut self, now: Moment, seat: Option<Seat>, slots: u16) {
        self.change(seat, |limit| limit.lend(now, slots));
    }

    /// Nobody who has slots holds them any more.
    pub(crate) fn write_off(&mut self, now: Moment) {
        self.all(|limit| limit.write_off(now));
    }

    /// A request gives its slots back; [`Limits::finished`] follows.
    pub(crate) fn take_back(&mut self, seat: Option<Seat>, slots: u16) {
        self.change(seat, |limit| limit.take_back(slots));
    }

    /// Slots that are free now are kept from the requests that wait, if any do: time in which they are says
    /// nothing of an idle origin. O(servers) where each has its own.
    pub(crate) fn note_kept(&mut self, now: Moment, anybody_waits: bool) {
        match &mut self.each {
            None => self.whole.note_kept(now, anybody_waits),
            Some(each) => each.note_kept(now, anybody_waits),
        }
    }

    /// A request gave its slots back; see [`Law::finished`].
    pub(crate) fn finished(&mut self, seat: Option<Seat>, completion: &Completion<'_>) {
        self.trust(seat, completion);
        self.change(seat, |limit| limit.finished(completion));
    }

    /// The same, of a request that also needed a slot of another limit, which it tells what the origin refused and whether it
    /// met its target.
    pub(crate) fn finished_elsewhere(&mut self, seat: Option<Seat>, completion: &Completion<'_>) {
        self.trust(seat, completion);
        self.change(seat, |limit| limit.finished_elsewhere(completion));
    }

    /// The server is away; see [`Law::is_away`].
    pub(crate) fn is_away(&mut self, now: Moment, seat: Option<Seat>) {
        self.change(seat, |limit| limit.is_away(now));
    }

    /// A sensor sent a reading.
    pub(crate) fn observe(&mut self, now: Moment, reading: &Reading<'_>) {
        self.all(|limit| limit.observe(now, reading));
    }

    /// The limit has other bounds from now on, but for servers with a number of their own; what the law has learned stays.
    pub(crate) fn set_bounds(&mut self, now: Moment, slots: &Slots) {
        self.slots = slots.clone();
        self.whole.set_bounds(now, slots);
        if let Some(each) = &mut self.each {
            each.change_unnumbered(|limit| limit.set_bounds(now, slots));
        }
    }

    #[inline]
    fn trust(&mut self, seat: Option<Seat>, completion: &Completion<'_>) {
        let is_good = completion.outcome.is_answer();
        if let (Some(seat), Some(each)) = (seat, &mut self.each)
            && (is_good || completion.outcome.first_byte.is_some())
        {
            each.answered(completion.now, seat.server, is_good);
        }
    }

    #[inline]
    fn at(&self, seat: Option<Seat>) -> &Limit {
        let Some(each) = &self.each else { return &self.whole };
        let own = seat.filter(|seat| seat.epoch == self.epoch);
        own.and_then(|seat| each.get(seat.server)).unwrap_or(&self.whole)
    }

    #[inline]
    fn change(&mut self, seat: Option<Seat>, change: impl FnOnce(&mut Limit)) {
        let Some(each) = &mut self.each else { return change(&mut self.whole) };
        match seat.filter(|seat| seat.epoch == self.epoch) {
            Some(Seat { server, .. }) if each.get(server).is_some() => each.change(server, change),
            _ => change(&mut self.whole),
        }
    }

    fn all(&mut self, mut change: impl FnMut(&mut Limit)) {
        change(&mut self.whole);
        if let Some(each) = &mut self.each {
            each.change_all(change);
        }
    }
}
