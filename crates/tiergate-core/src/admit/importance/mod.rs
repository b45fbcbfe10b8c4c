//! Importance: under overload, requests on persistent connections that matter least are shed first, as
//! many as the overload asks for and no more.
//!
//! Two parts that know nothing of each other. *How much*: a fraction of the requests that come, moved
//! a little each period by how far the overload is from its aim and by where it is going; it settles
//! where the overload stays at the aim, so that nothing is switched on and off. Far above the aim it is at
//! least what comes too much, and always so small that a part of what the origin serves passes: few who
//! matter among very many are neither kept waiting for seconds nor shed with them. *Which*: requests are
//! ranked by importance, then by class, then by how much their connection has already got;
//! what came of each rank lately says up to which rank the fraction reaches. Of the rank in which it ends, connections are
//! chosen by a hash, and so are the same from one period to the next.
//!
//! Flows: a client that asks for much is an overload by itself, for which others, on newer connections, would
//! pay. So of what passes each flow has its due (see [`super::demand`]); one that sends less than half of it, or no more
//! than it in a session that goes on, loses nothing, whatever others do. Nor does a class in which few wait for the part of
//! the slots that the policy gives it. And since flows take turns, of the backlog counts what flows find ahead of them, on
//! average, each counting as much as each other: one that has much waiting delays itself. Turns are by cost, so those whose
//! requests cost little wait less than that: no overload is worse than how
//! long those did wait whose wait ended lately, in the class where they waited longest.
//!
//! The fraction takes seconds to find, in which a flood would be let in and wait; to work it off, much more would be shed
//! than comes too much. So no more wait than are served in four times the delay aimed at, or twice that where the one that
//! comes is important ([`Shedding::places`]), and who then makes room is the backlog's own affair.
//!
//! A first request without importance ranks lowest: refusing it costs the origin nothing and breaks
//! nothing off. Requests that carry importance go last, but they do go: when everything is important,
//! the lesser class goes first and the shorter connection within it.
//!
//! Source: Voigt & Gunningberg, Kernel-based Control of Persistent Web Server Connections (thesis,
//! Paper C), which switches at a threshold, aborts all that is unimportant and does not recover when
//! nothing is (its section 6). The law is that of PIE (RFC 8033 §4.2) without its tuning by steps, on a
//! backlog that stands for a while (CoDel, RFC 8289 §3); the threshold in a histogram of ranks is
//! DAGOR's (Zhou et al., SoCC 2018). Known weakness: the fraction is of requests, which count alike for it, whatever they
//! cost; only what flows ask for is judged by cost.

use super::demand::Demand;
use crate::names::ClassId;
use crate::time::Moment;
use std::time::Duration;

/// Time between two moves of the fraction: as often as the delay can tell anything new.
const PERIOD: Duration = Duration::from_millis(100);
/// Periods over which a backlog must stand to count: a shorter one is a burst, which goes by itself
/// (CoDel, RFC 8289 §3).
const STANDING: usize = 3;
/// How far a move goes for an overload that is off its aim by 1.
const ALPHA: f64 = 0.06;
/// How far it goes for an overload above the aim that has changed by 1 since the last.
const BETA: f64 = 0.6;
/// Share of what is known of ranks and rates that is kept at each period: half of it is of the last
/// 1.4 s.
const KEPT: f64 = 0.95;
/// Share that is kept of what was ahead: half of it is of the last period or so.
const KEPT_AHEAD: f64 = 0.5;
/// Periods for which it counts how long those waited whose wait ended last.
const HEARD: usize = 10;
/// A class of which fewer came lately says nothing.
const CAME_MIN: f64 = 1e-3;
/// Where nobody waits, this part more passes each period.
const RECOVERS: f64 = 0.1;
/// The overload that is aimed at: see [`overload`].
const AIM: f64 = 0.5;
/// The overload from which on the fraction is at least what comes too much: by steps that would take
/// seconds, in which those who matter stand behind those who do not. A delay of three times the aim.
const FAR: f64 = 0.75;
/// Of what the origin serves, the part that always passes, however long the backlog: the rest of it works
/// off the backlog. Who matters and is no more than this part is never shed.
const PASSES: f64 = 0.25;
/// What is shed at most while it is not known what the origin serves.
const FRACTION_MAX: f64 = 0.98;
/// Groups of importance: none, and 0 to 255.
const GROUPS: usize = 257;
/// Groups of age, by requests so far: 0, 1, 2 to 3, 4 to 7, more.
const AGES: usize = 5;
/// The part of its due up to which nothing of a flow is shed: of what begins, few of those that send alike are within it
/// by chance, so that importance decides among them; of a session that goes on, all of it.
const SPARED: f32 = 0.5;
/// How long what is not important may wait at most, in times the aim; what is, twice as long.
const QUEUE: f64 = 4.0;

/// How overloaded the origin is, 0.0 to 1.0, by the delay that its backlog stands for: 0 without
/// one, 0.5 at `aim`, towards 1 beyond. `served` is in requests a second; 0 with somebody waiting is
/// as bad as can be.
pub fn overload(waiting: u32, served: f64, aim: Duration) -> f64 {
    if waiting == 0 {
        return 0.0;
    }
    overload_of(f64::from(waiting) / served.max(f64::MIN_POSITIVE), aim)
}

/// The same by the delay, in seconds.
fn overload_of(delay: f64, aim: Duration) -> f64 {
    if delay.is_finite() { delay / (delay + aim.as_secs_f64()) } else { 1.0 }
}

/// A request as shedding sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// How important its connection is now, by what the policy says of it; `None`: nothing said so.
    pub importance: Option<u8>,
    /// Its class's place in the order of importance; beyond the plan's classes: less than any of them.
    pub rank: usize,
    /// Whose it is: a hash, even over all values.
    pub flow: u64,
    /// Whether few of its class wait for the part of the slots that the policy gives it.
    pub is_within_part: bool,
    /// How many wait, of each other flow at most as many as of its own and one more.
    pub ahead: u32,
    /// Whether its session was admitted and answered before.
    pub running: bool,
    /// Requests of its connection that were answered before.
    pub requests: u32,
    /// A hash of its connection: even over all values, and the same for all of its requests.
    pub connection: u64,
}

/// How long requests of a class waited lately. Each counts by how few its flow sends.
#[derive(Clone, Copy, Debug)]
struct Waits {
    /// How many came.
    came: f64,
    /// How long those waited whose wait ended, in seconds, and how many these are.
    waited: f64,
    ended: f64,
    /// Periods since the last of them.
    unheard: usize,
}

impl Waits {
    const NONE: Waits = Waits { came: 0.0, waited: 0.0, ended: 0.0, unheard: HEARD };

    /// A period is over.
    fn fade(&mut self) {
        for value in [&mut self.came, &mut self.waited, &mut self.ended] {
            *value *= KEPT_AHEAD;
        }
        self.unheard = (self.unheard + 1).min(HEARD);
    }
}

/// Which requests are shed. Memory: 48 KiB, and 5 KiB a class.
#[derive(Clone, Debug)]
pub struct Shedding {
    /// The delay of the backlog that is aimed at.
    aim: Duration,
    /// The classes in the order of importance.
    classes: Vec<ClassId>,
    /// What flows asked for lately.
    demand: Demand,
    /// Requests that came lately and might have been shed, by place in the order of shedding; and those that might not.
    came: Vec<f32>,
    spared: f32,
    /// Requests a second that are served while somebody waits, and that come.
    served: f64,
    coming: f64,
    /// Requests served since the last move, and that came.
    finished: u32,
    arrived: u32,
    fraction: f64,
    /// What was ahead of the requests that came lately, each weighed by how few its flow sends, and the sum of weights.
    ahead: f64,
    weights: f64,
    /// How long they wait, by class; of those that are not of running sessions.
    waits: Vec<Waits>,
    /// The overload at each of the last periods, the latest first.
    recent: [f64; STANDING],
    /// The least of them.
    overload: f64,
    moved: Moment,
    /// Places below go; of this one the hashes below `part`.
    place: usize,
    part: f64,
}

impl Shedding {
    /// Nothing is shed yet. `aim`: the delay of the backlog that is aimed at; `classes`: the plan's, most
    /// important first.
    pub fn new(now: Moment, aim: Duration, classes: &[ClassId]) -> Self {
        Shedding {
            aim,
            classes: classes.to_vec(),
            demand: Demand::new(),
            came: vec![0.0; GROUPS * classes.len() * AGES],
            spared: 0.0,
            served: 0.0,
            coming: 0.0,
            finished: 0,
            arrived: 0,
            fraction: 0.0,
            ahead: 0.0,
            weights: 0.0,
            waits: vec![Waits::NONE; classes.len()],
            recent: [0.0; STANDING],
            overload: 0.0,
            moved: now,
            place: 0,
            part: 0.0,
        }
    }

    /// Whether the request is shed: refused, and its connection closed. Counts it. O(1).
    pub fn is_shed(&mut self, request: &Candidate) -> bool {
        let place = self.place_of(request);
        self.count(place, request);
        self.reaches(place, request.connection)
    }

    /// Whether the request would be shed if it came now. Counts it only if so: else it comes again. O(1).
    pub fn turns_away(&mut self, request: &Candidate) -> bool {
        let place = self.place_of(request);
        let shed = self.reaches(place, request.connection);
        if shed {
            self.count(place, request);
        }
        shed
    }

    /// The origin has served a request.
    pub fn finished(&mut self) {
        self.finished = self.finished.saturating_add(1);
    }

    /// A request of the flow gets a slot for which it has waited so long, or waits no more; not of a running session. `rank`: its
    /// class's. O(1).
    pub fn waited(&mut self, rank: usize, flow: u64, waited: Duration) {
        let weight = self.weight(flow);
        let waits = &mut self.waits[rank.min(self.classes.len() - 1)];
        waits.waited += weight * waited.as_secs_f64();
        waits.ended += weight;
        waits.unheard = 0;
    }

    /// The overload by how long those waited whose wait ended lately, in the class where it is worst; it is as expected where
    /// nobody's did. O(classes).
    fn overload_found(&self, expected: f64) -> f64 {
        let found = |waits: &Waits| match waits.unheard < HEARD && waits.ended > 0.0 {
            true => overload_of(waits.waited / waits.ended, self.aim),
            false => expected,
        };
        let come = self.waits.iter().filter(|waits| waits.came > CAME_MIN);
        come.map(found).reduce(f64::max).unwrap_or(expected)
    }

    /// How much a request of the flow counts, so that each flow counts as much as each other.
    fn weight(&self, flow: u64) -> f64 {
        1.0 / f64::from(self.demand.count(flow).max(1.0))
    }

    /// A request of the flow has held a slot for so long, or several; however it ended. O(1).
    pub fn held(&mut self, flow: u64, slots: u16, held: Duration) {
        self.demand.ended(flow, held.as_secs_f32() * f32::from(slots));
    }

    /// Puts another plan in force: what is shed goes on, and what came of a class goes with it; of one that
    /// is gone, to the least important. O(classes).
    pub fn reconfigure(&mut self, aim: Duration, classes: &[ClassId]) {
        self.aim = aim;
        let former = std::mem::replace(&mut self.classes, classes.to_vec());
        let came = std::mem::replace(&mut self.came, vec![0.0; GROUPS * classes.len() * AGES]);
        for (place, came) in came.into_iter().enumerate().filter(|(_, came)| *came > 0.0) {
            let (row, age) = (place / AGES, place % AGES);
            let (group, last) = (row / former.len(), former.len() - 1);
            let id = former[last - row % former.len()];
            let rank = classes.iter().position(|class| *class == id).unwrap_or(classes.len() - 1);
            let place = self.place(group, rank, age);
            self.came[place] += came;
        }
        self.waits.clear();
        self.waits.resize(classes.len(), Waits::NONE);
        self.reach();
    }

    /// Moves the fraction if a period is over; `waiting` is the length of the backlog. Returns when to
    /// come again. O(classes) each period.
    pub fn tick(&mut self, now: Moment, waiting: u32) -> Moment {
        let elapsed = now.since(self.moved);
        if elapsed < PERIOD {
            return self.moved + PERIOD;
        }
        self.moved = now;
        let a_second = |count: &mut u32| f64::from(std::mem::take(count)) / elapsed.as_secs_f64();
        let (rate, coming) = (a_second(&mut self.finished), a_second(&mut self.arrived));
        self.coming = 0.5 * self.coming + 0.5 * coming;
        // While nobody waits, the origin serves what comes, which says nothing of what it can.
        if waiting > 0 {
            self.served = if self.served == 0.0 { rate } else { 0.8 * self.served + 0.2 * rate };
        }
        let ahead = if self.weights > 0.0 { self.ahead / self.weights } else { f64::INFINITY };
        self.recent.rotate_right(1);
        let expected = overload(waiting.min(ahead.ceil() as u32), self.served, self.aim);
        self.recent[0] = expected.min(self.overload_found(expected));
        // What went away by itself meanwhile was a burst.
        let standing = self.recent.into_iter().fold(1.0, f64::min);
        let former = std::mem::replace(&mut self.overload, standing);
        // What happens below the aim is no trend to be followed.
        let trend = self.overload.max(AIM) - former.max(AIM);
        // Of what comes, what the origin serves.
        let served = if self.coming > 0.0 { (self.served / self.coming).min(1.0) } else { 1.0 };
        // A part of what passes: where little of very much does, a move is no larger beside it than elsewhere.
        let passes = (1.0 - self.fraction).max(served);
        let mut step = passes * (ALPHA * (self.overload - AIM) + BETA * trend);
        if self.recent == [0.0; STANDING] {
            step = step.min(-RECOVERS * passes);
        }
        let least = if self.overload > FAR { 1.0 - served } else { 0.0 };
        let most = if served > 0.0 { 1.0 - PASSES * served } else { FRACTION_MAX };
        self.fraction = (self.fraction + step).max(least).clamp(0.0, most);
        self.forget();
        self.reach();
        now + PERIOD
    }

    /// How many may wait in all so that this request may too: as many as are served in four times the delay aimed at,
    /// twice as many for one that is important; any number while it is not known what is served. O(1).
    pub fn places(&self, request: &Candidate) -> u32 {
        if self.served == 0.0 {
            return u32::MAX;
        }
        let delay =
            self.aim.as_secs_f64() * if request.importance.is_some() { 2.0 * QUEUE } else { QUEUE };
        (delay * self.served) as u32
    }

    /// The overload that the last move went by, 0.0 to 1.0.
    pub fn overload(&self) -> f64 {
        self.overload
    }

    /// The fraction of requests that is shed now, 0.0 to 1.0.
    pub fn fraction(&self) -> f64 {
        self.fraction
    }

    fn count(&mut self, place: Option<usize>, request: &Candidate) {
        self.demand.came(request.flow);
        let weight = self.weight(request.flow);
        self.ahead += weight * f64::from(request.ahead);
        self.weights += weight;
        if !request.running {
            self.waits[request.rank.min(self.classes.len() - 1)].came += weight;
        }
        *place.map_or(&mut self.spared, |place| &mut self.came[place]) += 1.0;
        self.arrived = self.arrived.saturating_add(1);
    }

    /// Whether a request is within the fraction.
    fn reaches(&self, place: Option<usize>, connection: u64) -> bool {
        // The upper bits: a hash table may have used the lower ones.
        let part = (connection >> 11) as f64 / (1_u64 << 53) as f64;
        let is_within = |place| place == self.place && part < self.part;
        place.is_some_and(|place| place < self.place || is_within(place))
    }

    /// Finds the place up to which the fraction reaches, and each flow's due.
    fn reach(&mut self) {
        self.demand.passes(1.0 - self.fraction);
        let total = f64::from(self.spared + self.came.iter().sum::<f32>());
        let mut left = self.fraction * total;
        (self.place, self.part) = (0, 0.0);
        for (place, &came) in self.came.iter().enumerate() {
            let came = f64::from(came);
            if left <= 0.0 {
                break;
            }
            (self.place, self.part) =
                (place, if came > 0.0 { (left / came).min(1.0) } else { 0.0 });
            left -= came;
        }
    }

    /// Forgets some of what came.
    fn forget(&mut self) {
        self.demand.fade();
        self.spared *= KEPT as f32;
        self.ahead *= KEPT_AHEAD;
        self.weights *= KEPT_AHEAD;
        self.waits.iter_mut().for_each(Waits::fade);
        for came in &mut self.came {
            *came *= KEPT as f32;
            if *came < 1e-3 {
                *came = 0.0;
            }
        }
    }

    /// The request's place; `None` if it is spared.
    fn place_of(&self, request: &Candidate) -> Option<usize> {
        let part = if request.running { 1.0 } else { SPARED };
        let is_spared = request.is_within_part || self.demand.is_within(request.flow, part);
        if self.fraction > 0.0 && is_spared {
            return None;
        }
        let group = request.importance.map_or(0, |importance| 1 + usize::from(importance));
        let age = (u32::BITS - request.requests.leading_zeros()) as usize;
        Some(self.place(group, request.rank, age.min(AGES - 1)))
    }

    /// The place in the order of shedding: the least important class comes first.
    fn place(&self, group: usize, rank: usize, age: usize) -> usize {
        let last = self.classes.len() - 1;
        (group * self.classes.len() + last - rank.min(last)) * AGES + age
    }
}

#[cfg(test)]
mod tests;
