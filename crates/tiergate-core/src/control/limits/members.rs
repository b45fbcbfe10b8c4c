//! Servers with a limit each, and which of them gets the next request.

use super::member::{Access, Member};
use crate::control::law::Step;
use crate::control::limit::Limit;
use crate::names::{ClassId, Id, ServerId};
use crate::time::Moment;

/// A server that has a limit of its own, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSlots {
    /// The server.
    pub server: ServerId,
    /// The number of slots in force.
    pub slots: u32,
    /// Of these, how many it may have in use now: fewer where it gets no requests, or one, or has come back a short while ago; never
    /// fewer than it has.
    pub usable: u32,
    /// Slots in use.
    pub running: u32,
    /// Whether it may get requests.
    pub access: Access,
    /// Whether it has a number of slots of its own, instead of what the plan says for the servers of its pool.
    pub is_own: bool,
}

/// The servers, each with its limit.
#[derive(Debug)]
pub(super) struct Members {
    /// By id. One that is gone is kept while it has requests.
    all: Vec<Option<Box<Member>>>,
    /// Those that there are, and whose turn it is.
    order: Vec<ServerId>,
    turn: usize,
    /// Sums over all: of slots that count, and of those in use.
    slots: u32,
    running: u32,
}

impl Members {
    pub(super) fn new() -> Self {
        Members { all: Vec::new(), order: Vec::new(), turn: 0, slots: 0, running: 0 }
    }

    pub(super) fn get(&self, server: ServerId) -> Option<&Limit> {
        self.member(server).map(|member| &member.limit)
    }

    fn member(&self, server: ServerId) -> Option<&Member> {
        self.all.get(server.index())?.as_deref()
    }

    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn running(&self) -> u32 {
        self.running
    }

    pub(super) fn has_free(&self) -> bool {
        self.running < self.slots
    }

    /// O(servers) for a request that takes several slots.
    pub(super) fn fits(&self, slots: u16) -> bool {
        if slots <= 1 { self.has_free() } else { self.emptiest(slots, &[]).is_some() }
    }

    /// Of the servers that have room, the one with the smallest share of its slots in use; equals take turns.
    fn emptiest(&self, slots: u16, not_at: &[ServerId]) -> Option<usize> {
        let count = self.order.len();
        let mut best: Option<(usize, &Member)> = None;
        for place in (0..count).map(|step| (self.turn + step) % count) {
            let server = self.order[place];
            let Some(member) = self.member(server) else { continue };
            if member.has_room(slots)
                && !not_at.contains(&server)
                && best.is_none_or(|(_, best)| member.is_emptier(best))
            {
                best = Some((place, member));
            }
        }
        best.map(|(place, _)| place)
    }

    /// A request gets slots of a server; `None`: none has room.
    pub(super) fn grant(&mut self, now: Moment, slots: u16) -> Option<ServerId> {
        self.grant_elsewhere(now, slots, &[])
    }

    pub(super) fn fits_elsewhere(&self, slots: u16, not_at: &[ServerId]) -> bool {
        self.emptiest(slots, not_at).is_some()
    }

    pub(super) fn grant_elsewhere(
        &mut self,
        now: Moment,
        slots: u16,
        not_at: &[ServerId],
    ) -> Option<ServerId> {
        let place = self.emptiest(slots, not_at)?;
        let server = self.order[place];
        self.turn = (place + 1) % self.order.len();
        self.with(server, |member| {
            member.limit.grant(now, slots);
            member.is_tried = true;
        });
        Some(server)
    }

    /// Changes the limit of a server, and the sums with it.
    pub(super) fn change(&mut self, server: ServerId, change: impl FnOnce(&mut Limit)) {
        self.with(server, |member| change(&mut member.limit));
        // The last request of one that is gone.
        if self.member(server).is_some_and(|it| !it.is_planned && it.limit.running() == 0) {
            self.all[server.index()] = None;
        }
    }

    fn with(&mut self, server: ServerId, change: impl FnOnce(&mut Member)) {
        let Some(member) = self.all.get_mut(server.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        let before = member.counts();
        change(member);
        let after = member.counts();
        self.slots = self.slots - before.0 + after.0;
        self.running = self.running - before.1 + after.1;
    }

    pub(super) fn change_all(&mut self, mut change: impl FnMut(&mut Limit)) {
        for server in self.ids() {
            self.change(server, &mut change);
        }
    }

    /// Those that there are, and those that are gone but have requests.
    fn ids(&self) -> impl Iterator<Item = ServerId> + use<> {
        let known = |(index, member): (usize, &Option<_>)| member.is_some().then_some(index);
        let known: Vec<usize> = self.all.iter().enumerate().filter_map(known).collect();
        known.into_iter().map(ServerId::at)
    }

    pub(super) fn change_unnumbered(&mut self, mut change: impl FnMut(&mut Limit)) {
        for server in self.ids() {
            if self.member(server).is_some_and(|member| member.number.is_none()) {
                self.change(server, &mut change);
            }
        }
    }

    /// The latest change of a limit: of which server, and when.
    pub(super) fn last_step(&self) -> Option<(ServerId, Moment, Step)> {
        let member = |server: &ServerId| {
            let (at, step) = self.member(*server)?.limit.last_step()?;
            Some((*server, at, step))
        };
        self.order.iter().filter_map(member).max_by_key(|(_, at, _)| *at)
    }

    pub(super) fn limits(&self) -> impl Iterator<Item = &Limit> + '_ {
        self.all.iter().flatten().filter(|it| it.is_planned).map(|member| &member.limit)
    }

    pub(super) fn take_target_news(&mut self) -> Option<(ClassId, bool)> {
        self.all.iter_mut().flatten().find_map(|member| member.limit.take_target_news())
    }

    /// The servers that there are from now on. `own`: the number that a server has of its own; `limit`: of one that is new, with such a
    /// number or without; `set`: sets one that is known so.
    pub(super) fn set_servers(
        &mut self,
        servers: &[ServerId],
        own: impl Fn(ServerId) -> Option<u32>,
        limit: impl Fn(Option<u32>) -> Limit,
        set: impl Fn(&mut Limit, Option<u32>),
    ) {
        for server in self.ids() {
            self.with(server, |member| member.is_planned = false);
        }
        for server in servers {
            if self.all.len() <= server.index() {
                self.all.resize_with(server.index() + 1, || None);
            }
            let number = own(*server);
            if self.all[server.index()].is_none() {
                let member = Member::new(limit(number), number);
                self.all[server.index()] = Some(Box::new(member));
            }
            self.with(*server, |member| {
                member.is_planned = true;
                if member.number != number {
                    member.number = number;
                    set(&mut member.limit, number);
                }
            });
        }
        for server in self.ids() {
            // Those that are gone, and have no requests.
            self.change(server, |_| ());
        }
        self.order = servers.to_vec();
        self.turn = 0;
    }

    /// A request could not reach the server.
    pub(super) fn doubt(&mut self, server: ServerId) {
        self.with(server, |member| (member.is_doubted, member.is_tried) = (true, true));
    }

    /// A request was answered there, were it with an error.
    pub(super) fn answered(&mut self, now: Moment, server: ServerId, is_good: bool) {
        if self.member(server).is_some_and(Member::is_recovering) {
            self.with(server, |member| member.answered(now, is_good));
        }
    }

    pub(super) fn has_other_access(&self, now: Moment, servers: &[(ServerId, Access)]) -> bool {
        let is_other = |server, access| {
            self.member(server).is_some_and(|it| {
                it.told != access || it.access() != access || it.has_recovered(now)
            })
        };
        servers.iter().any(|&(server, access)| is_other(server, access))
    }

    pub(super) fn set_access(&mut self, now: Moment, servers: &[(ServerId, Access)]) {
        for &(server, access) in servers {
            self.with(server, |member| {
                if access == Access::Closed && member.told == Access::Open {
                    member.limit.is_away(now);
                }
                if access == Access::Open && member.told != Access::Open && !member.is_doubted {
                    member.comes_back(now);
                }
                member.pass(now);
                (member.told, member.is_tried) = (access, false);
            });
        }
    }

    /// O(servers). A server that may get none says nothing by its free slots.
    pub(super) fn note_kept(&mut self, now: Moment, anybody_waits: bool) {
        for member in self.all.iter_mut().flatten() {
            let is_shut = member.is_shut();
            member.limit.note_kept(now, anybody_waits || is_shut);
        }
    }

    pub(super) fn states(&self) -> impl Iterator<Item = ServerSlots> + '_ {
        self.order.iter().filter_map(|&server| {
            let member = self.member(server)?;
            let (slots, running) = (member.limit.slots(), member.limit.running());
            let (access, is_own) = (member.access(), member.number.is_some());
            let (usable, _) = member.counts();
            Some(ServerSlots { server, slots, usable, running, access, is_own })
        })
    }
}
