//! Whose turn it is on the link.
//!
//! Classes that have something left of the slice that they reserved come first, the one whose period ends soonest before the others: then
//! each has its slice in each period, if all that is reserved is not more than there is. What is left goes to the classes that may have more, by
//! weight; what is left of that, to the background. A packet is not divided: who sends more than was left of a slice has less in the next.
//!
//! While no class has a share, only the background takes turns, and what the others send is charged to the link.
//!
//! Source: Atropos, the scheduler of Nemesis (Voigt A, 2.1 and 3.2); start-time fair queueing (Goyal, Vin and Cheng 1996) for the rest.

use super::account::{Account, Claim};
use super::estimate::Estimate;
use super::heads::Heads;
use super::share::Share;
use super::virtual_queue::VirtualQueue;
use super::watched::{Learned, NotYet, PACKET, Waited, Watched};
use crate::class::{Class, ClassId};
use crate::time::Moment;
use std::time::Duration;

/// Who is looked for again after so many packets' time, or so long: another thread's turn has passed by then.
const OTHERS_TURNS: f64 = 2.0;
const OTHERS_LEAST: Duration = Duration::from_micros(250);

/// For how long the link is to have something to send of answers that hold no slot at the origin: most turns in which none may start
/// are shorter.
const STOCK: Duration = Duration::from_secs(2);

/// What an answer of the background sends before another does, at most, in time of the link: the answers of five clients then end about a
/// distant client's round trip apart.
const RUN_TIME: Duration = Duration::from_millis(20);
/// And what all that wait send until each has had it, unless they are more than packets that can be sent in that time. Less than the time without anything to send after
/// which TCP begins slowly again.
const CYCLE: Duration = Duration::from_millis(200);

/// While the background pauses it is asked again after so long: the pause may end before it is over.
const PAUSED: Duration = Duration::from_millis(2);

/// A class that sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// Which.
    pub class: ClassId,
    /// What the policy says of its part of the link, if anything.
    pub share: Option<Share>,
    /// Whether it has only what nobody else wants.
    pub is_background: bool,
}

impl Sender {
    /// What the policy says of a class.
    pub fn of(id: ClassId, class: &Class) -> Self {
        Sender { class: id, share: class.transmit, is_background: class.background }
    }
}

/// What a link carries, in bits a second, heads included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// It is known; at least 1.
    Said(u64),
    /// It is to be found.
    Found,
}

/// Who may send when on a link.
#[derive(Clone, Debug)]
pub struct Scheduler {
    queue: VirtualQueue,
    /// Of what the link carries, and what the queue has of it now; `None`: it is said.
    estimate: Option<(Estimate, u64)>,
    /// By class.
    accounts: Vec<Account>,
    /// What those that want the rest have had of it.
    had: f64,
    /// The same of the background.
    had_background: f64,
    /// Whether a class has a share, so that all take turns.
    is_shared: bool,
    /// The background has no turn before.
    paused_until: Moment,
}

impl Scheduler {
    /// Of a link that carries so much.
    pub fn new(now: Moment, capacity: Capacity, senders: &[Sender]) -> Self {
        let mut scheduler = Scheduler {
            queue: VirtualQueue::new(now, 1),
            estimate: None,
            accounts: Vec::new(),
            had: 0.0,
            had_background: 0.0,
            is_shared: false,
            paused_until: now,
        };
        scheduler.set(now, capacity, senders);
        scheduler
    }

    /// The link has another capacity, and classes have other shares, from now on. Classes that are not named are sure of nothing. A capacity that
    /// is to be found is the one that was found already, if any.
    pub fn set(&mut self, now: Moment, capacity: Capacity, senders: &[Sender]) {
        self.is_shared = senders.iter().any(|it| it.share.is_some());
        self.resume();
        let capacity = match (capacity, self.estimate.take()) {
            (Capacity::Said(bits), _) => bits,
            (Capacity::Found, before) => {
                let estimate = before.map_or_else(|| Estimate::new(now), |(it, _)| it);
                let bits = estimate.allowed(now);
                self.estimate = Some((estimate, bits));
                bits
            }
        };
        self.queue.set(now, capacity, self.is_shared);
        let rate = self.queue.rate();
        for (place, account) in self.accounts.iter_mut().enumerate() {
            if senders.iter().all(|it| it.class.index() != place) {
                account.set(Share::REST, rate);
            }
        }
        for sender in senders {
            let had = if sender.is_background { self.had_background } else { self.had };
            let account = self.account(now, sender.class);
            account.set(sender.share.unwrap_or(Share::REST), rate);
            account.moves(sender.is_background, had);
        }
        let (had, had_background) = (self.had, self.had_background);
        for account in &mut self.accounts {
            account.joins(if account.is_background { had_background } else { had });
        }
    }

    /// The link is known to have another capacity from now on.
    pub fn set_capacity(&mut self, now: Moment, capacity: u64) {
        self.resume();
        self.queue.set(now, capacity, self.is_shared);
        let rate = self.queue.rate();
        for account in &mut self.accounts {
            account.set(account.share(), rate);
        }
    }

    /// What the link carries has changed, and will be known soon: the background has no turn until then, or until it is known or said to be as before.
    pub fn pause(&mut self, until: Moment) {
        self.paused_until = until;
    }

    /// The link carries what it did: the background goes on.
    pub fn resume(&mut self) {
        self.paused_until = Moment::ZERO;
    }

    /// Whether all classes take turns, not only the background.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// How many bytes of the background's answers may wait on each of so many threads without a slot at the origin.
    pub fn stock(&self, threads: usize) -> u64 {
        (self.queue.rate() * STOCK.as_secs_f64() / threads.max(1) as f64) as u64
    }

    /// The account of a class, if it ever took a turn or is of the policy.
    pub fn of(&self, class: ClassId) -> Option<&Account> {
        self.accounts.get(class.index())
    }

    fn account(&mut self, now: Moment, class: ClassId) -> &mut Account {
        let place = class.index();
        if place >= self.accounts.len() {
            self.accounts.resize_with(place + 1, || Account::new(now));
        }
        &mut self.accounts[place]
    }

    /// Who takes no turns writes so many bytes. O(1).
    pub fn charge(&mut self, now: Moment, bytes: u64, heads: Heads) {
        self.adjust(now);
        self.sends(heads.on_wire(bytes));
        self.queue.charge(now, bytes, heads);
    }

    /// So many bytes on the wire have left beyond what was charged. O(1).
    pub fn settle(&mut self, now: Moment, on_wire: f64) {
        self.adjust(now);
        self.sends(on_wire);
        self.queue.charge_wire(now, on_wire);
    }

    /// So many bytes on the wire that a class has just taken were not written. O(1).
    pub fn gives_back(&mut self, now: Moment, class: ClassId, on_wire: f64) {
        self.sends(-on_wire);
        self.queue.gives_back(now, on_wire);
        self.account(now, class).spend(now, -on_wire);
    }

    /// What the link is thought to carry, in bits a second, where that is to be found.
    pub fn found(&self) -> Option<u64> {
        self.estimate.as_ref().map(|(estimate, _)| estimate.bits())
    }

    /// Whether a packet of the background's that is sent now is to be watched, instead of one that is; `flow`: of the same connection, the same.
    /// Never where the capacity is said. O(1).
    pub fn watches(&self, now: Moment, flow: u64) -> bool {
        self.estimate.as_ref().is_some_and(|(estimate, _)| estimate.watches(now, flow))
    }

    /// The one that is watched is sent now, or the one after it on the same connection, so that the other end is to acknowledge it; `flow`: of the same
    /// connection, the same; `way`: how long the way there and back takes, once it is to be acknowledged. `None`: the capacity is said.
    pub fn watch(&mut self, now: Moment, flow: u64, way: Option<Duration>) -> Option<Watched> {
        let debt = self.queue.debt();
        self.estimate.as_mut().map(|(estimate, _)| estimate.watch(now, flow, debt, way))
    }

    /// It was not acknowledged until now; `way`: how long the way there and back takes. To be told once every [`Scheduler::LOOKS`].
    /// Whether to go on looking.
    pub fn not_yet(&mut self, now: Moment, watched: &Watched, way: Duration) -> bool {
        let Some((estimate, _)) = &mut self.estimate else { return false };
        match estimate.not_yet(now, watched, way) {
            NotYet::Waits => true,
            NotYet::Holds => {
                self.queue.hold(now + Self::LOOKS * 2);
                true
            }
            NotYet::GivesUp => false,
        }
    }

    /// Nothing is to be learned from it: its connection is gone, or it was looked at too late.
    pub fn forgets(&mut self, watched: &Watched) {
        if let Some((estimate, _)) = &mut self.estimate {
            estimate.forgets(watched);
        }
    }

    /// It was acknowledged; or counts as lost, after [`Scheduler::LOST`] beyond its way.
    pub fn learns(&mut self, now: Moment, watched: &Watched, waited: Waited) {
        if let Some((estimate, _)) = &mut self.estimate {
            let learned = estimate.learns(now, watched, waited);
            if learned != Learned::Waits {
                self.queue.forgive(now, watched.at(), estimate.thought_too_much(watched, waited));
            }
            match learned {
                Learned::Nothing => {}
                // Less than a packet is nothing that waits.
                Learned::InTime if self.queue.debt() >= PACKET / 8.0 => {}
                Learned::InTime => estimate.tries(now),
                Learned::Waits => self.queue.drain(now, estimate.left_since(now, watched, waited)),
            }
            self.adjust(now);
        }
    }

    /// How often it is to be looked whether a watched packet was acknowledged.
    pub const LOOKS: Duration = Duration::from_micros(200);
    /// A watched packet that was not acknowledged for so long, beyond its way, counts as lost.
    pub const LOST: Duration = Duration::from_millis(200);
    /// So many packets of one connection follow one another where the capacity is to be found: the other end acknowledges every second one at
    /// once, and the last of an odd number only after some time.
    pub const RUN: u32 = 16;

    /// How many turns of an answer of that class follow one another, where so many answers of it wait on this thread. Of the background many do: if all
    /// had a packet in turn, answers of one size would end together, and the link be idle until their clients, which may be far away, have asked again.
    /// Where the capacity is to be found, [`Scheduler::RUN`]: soon packets of other connections say what they find.
    pub fn run(&self, class: ClassId, waiting: usize) -> u32 {
        if self.estimate.is_some() {
            return Self::RUN;
        }
        let Some(account) = self.of(class).filter(|it| it.is_background) else { return 1 };
        let waiting = u32::try_from(waiting).unwrap_or(u32::MAX).max(1);
        let on_all_threads = waiting.saturating_mul(account.waiting.max(1));
        let time = RUN_TIME.min(CYCLE / on_all_threads);
        let turns = time.as_secs_f64() / self.queue.time_of_turn().as_secs_f64();
        (turns as u32).max(1)
    }

    fn sends(&mut self, on_wire: f64) {
        if let Some((estimate, _)) = &mut self.estimate {
            estimate.sends(on_wire);
        }
    }

    fn background_sends(&mut self, now: Moment, by_sounding: bool) {
        if let Some((estimate, _)) = &mut self.estimate {
            estimate.background_sends(now, by_sounding);
        }
    }

    /// The queue has what is to be sent at most now.
    fn adjust(&mut self, now: Moment) {
        if let Some((estimate, set)) = &mut self.estimate {
            let bits = estimate.allowed(now);
            if std::mem::replace(set, bits) != bits {
                // Nobody may have looked since.
                let at = estimate.trial_ended_at(now).unwrap_or(now);
                self.queue.set(at, bits, self.is_shared);
            }
        }
    }

    /// Answers of the class begin to wait on one thread more, and still count if they are called. O(1).
    pub fn waits(&mut self, now: Moment, class: ClassId) {
        let (had, had_background) = (self.had, self.had_background);
        let rate = self.queue.rate();
        let account = self.account(now, class);
        if account.waiting == 0 {
            account.begins(now, rate);
            account.joins(if account.is_background { had_background } else { had });
        }
        account.waiting += 1;
    }

    /// They wait no more on one.
    pub fn waits_no_more(&mut self, now: Moment, class: ClassId) {
        let account = self.account(now, class);
        account.waiting = account.waiting.saturating_sub(1);
    }

    /// An answer of that class wants to write so many bytes, at least 1: how many it may. O(classes).
    ///
    /// # Errors
    /// None now: it is to wait.
    pub fn take(
        &mut self,
        now: Moment,
        class: ClassId,
        wanted: u64,
        heads: Heads,
    ) -> Result<u64, NotNow> {
        self.adjust(now);
        self.pass(now);
        let (had, had_background) = (self.had, self.had_background);
        let account = self.account(now, class);
        if account.waiting == 0 {
            account.joins(if account.is_background { had_background } else { had });
        }
        if self.is_free(class) {
            self.charge(now, wanted, heads);
            return Ok(wanted);
        }
        if self.first(now, Some(class)) != Some(class) {
            return Err(NotNow);
        }
        let bytes = match (self.queue.take(now, wanted, heads), &self.estimate) {
            (Ok(bytes), _) => {
                self.background_sends(now, false);
                bytes
            }
            (Err(_), Some((it, _))) if now >= it.sounds_at().max(self.queue.held_until()) => {
                let bytes = self.queue.sound(now, wanted, heads);
                self.background_sends(now, true);
                bytes
            }
            (Err(_), _) => return Err(NotNow),
        };
        let on_wire = heads.on_wire(bytes);
        self.sends(on_wire);
        let account = self.account(now, class);
        let claim = account.claim();
        account.spend(now, on_wire);
        // What it had before this: who joins now is as far as who is served.
        match claim {
            Some(Claim::Rest(it)) => self.had = self.had.max(it),
            Some(Claim::Background(it)) => self.had_background = self.had_background.max(it),
            // While it has its slice, it does not want the rest.
            _ => self.account(now, class).joins(had),
        }
        Ok(bytes)
    }

    /// Who of those that wait on this thread is to be called now. O(classes).
    ///
    /// # Errors
    /// Nobody; when to ask again, if nobody else begins to wait.
    pub fn next(
        &mut self,
        now: Moment,
        is_here: impl Fn(ClassId) -> bool,
    ) -> Result<ClassId, Moment> {
        let mut classes = (0..self.accounts.len()).map(|place| ClassId(place as u16));
        if let Some(class) = classes.find(|class| self.is_free(*class) && is_here(*class)) {
            return Ok(class);
        }
        self.adjust(now);
        let sounds_at = self.estimate.as_ref().map_or(Moment::NEVER, |(it, _)| it.sounds_at());
        let ready_at = self.queue.ready_at(now).min(sounds_at).max(self.queue.held_until());
        if ready_at > now {
            return Err(ready_at);
        }
        self.pass(now);
        match self.first(now, None) {
            Some(class) if is_here(class) => Ok(class),
            Some(_) => Err(now + self.queue.time_of_turn().mul_f64(OTHERS_TURNS).max(OTHERS_LEAST)),
            None => {
                let waiting = self.accounts.iter().filter(|it| it.waiting > 0);
                let again = |it: &Account| if it.is_background { now + PAUSED } else { it.ends };
                Err(waiting.map(again).min().unwrap_or(Moment::NEVER))
            }
        }
    }

    /// Whether the class takes no turns any more, though answers of it may still wait for one.
    fn is_free(&self, class: ClassId) -> bool {
        !self.is_shared && self.of(class).is_some_and(|it| !it.is_background)
    }

    /// The one whose claim comes first, of those that wait and that one.
    fn first(&self, now: Moment, with: Option<ClassId>) -> Option<ClassId> {
        let is_paused = now < self.paused_until;
        let claims = self.accounts.iter().enumerate().filter_map(|(place, it)| {
            let class = ClassId(place as u16);
            let wants = it.waiting > 0 || with == Some(class);
            let may = wants && !(it.is_background && is_paused);
            it.claim().filter(|_| may).map(|claim| (claim, class))
        });
        let least = |a: (Claim, ClassId), b: (Claim, ClassId)| if b.0 < a.0 { b } else { a };
        claims.reduce(least).map(|(_, class)| class)
    }

    fn pass(&mut self, now: Moment) {
        let rate = self.queue.rate();
        self.accounts.iter_mut().for_each(|it| it.pass(now, rate));
    }
}

/// The link has no room now, or another class comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotNow;
