//! Lanes: connections of some classes are served by threads of their own, at a priority of the operating system's, from when they are
//! accepted to the last byte.
//!
//! Each thread accepts connections from sockets of its own. The kernel picks the socket by the connection's first packet ([`tiergate_core::demux`]); one that has come to a thread where it
//! does not belong, because the kernel could not tell, is handed over.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | whom it is the turn of to be handed a connection | the threads that accept | the same |
//! | open connections of a lane | the same; `/status` and metrics | the same; the lane's threads, at their ends |
//! | the priority in force | `/status` and metrics | each thread of the lane, at its start |
//!
//! Source: SILK's extended path (Bavier, Voigt et al. 2002, 4.3), as far as a gateway has one: what the thread does for a connection has the priority
//! of its class, from the first packet.

use crate::config::meant::LaneSettings;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use tiergate_core::demux::Sockets;
use tiergate_core::names::ClassId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What begins the task of a connection, on the thread that serves it.
pub type Begin = Box<dyn FnOnce() + Send>;
/// Where a thread gets its connections from.
pub type Begins = mpsc::Receiver<Begin>;

/// How many connections may be on their way to a thread: as many as may wait to be accepted. Beyond, they are closed.
const ON_THE_WAY: usize = 4096;
/// How many connections may wait for room among all of them at once, so that those behind them do not wait with each.
const ENTERING: usize = 256;

/// No priority is in force: what the system says is from -20 to 19.
const NONE: i32 = i32::MAX;

/// The lanes of the process, and the threads that serve all others.
#[derive(Debug)]
pub struct Lanes {
    lanes: Box<[Lane]>,
    others: Threads,
    entering: Arc<Semaphore>,
}

thread_local! {
    /// The lane that the thread serves, if it serves one.
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Threads that get connections in turn.
#[derive(Debug)]
struct Threads {
    senders: Box<[mpsc::Sender<Begin>]>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Lane {
    settings: LaneSettings,
    threads: Threads,
    /// Its threads' sockets among those of each address.
    sockets: Sockets,
    connections: Arc<AtomicUsize>,
    turned_away: Tally,
    handed_over: Tally,
    handed_on: Tally,
    nice: AtomicI32,
}

/// A lane, for people and machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneStatus {
    /// Its name.
    pub name: String,
    /// How many threads it has.
    pub threads: usize,
    /// The priority that it is to have, as `nice` has it.
    pub nice_wanted: i32,
    /// The one that it has; absent: that of the process, because the right to set another is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Open connections.
    pub connections: usize,
    /// Connections that were closed as they came, because there were as many as there may be.
    pub turned_away: u64,
    /// Connections of it that another thread had accepted.
    #[serde(default)]
    pub handed_over: u64,
    /// Connections that its threads had accepted, and that are not of it.
    #[serde(default)]
    pub handed_on: u64,
}

/// Where a connection is to be served: in the lane of that number, or wherever.
#[derive(Debug)]
pub struct LanePlace(Option<(usize, InLane)>);

/// A connection in a lane. Dropped, it has left it.
#[derive(Debug)]
pub struct InLane(Arc<AtomicUsize>);

impl Drop for InLane {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    fn new(count: usize) -> (Threads, Vec<Begins>) {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..count).map(|_| mpsc::channel(ON_THE_WAY)).unzip();
        (Threads { senders: senders.into(), next: AtomicUsize::new(0) }, receivers)
    }

    fn len(&self) -> u32 {
        self.senders.len() as u32
    }

    /// Whether one of them has room, the one whose turn it is first.
    fn send(&self, mut begin: Begin) -> bool {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        for step in 0..self.senders.len() {
            let sender = &self.senders[turn.wrapping_add(step) % self.senders.len()];
            match sender.try_send(begin) {
                Ok(()) => return true,
                Err(error) => begin = error.into_inner(),
            }
        }
        false
    }
}

impl Lanes {
    /// Lanes beside so many threads, at least one; and where these threads and then those of the lanes get their connections from.
    pub fn new(settings: &[LaneSettings], threads: usize) -> (Lanes, Vec<Begins>) {
        let (others, mut receivers) = Threads::new(threads);
        let lane = |settings: &LaneSettings| {
            let first = receivers.len() as u32;
            let (threads, of_lane) = Threads::new(settings.threads);
            receivers.extend(of_lane);
            Lane {
                settings: settings.clone(),
                sockets: Sockets { first, count: threads.len() },
                threads,
                connections: Arc::default(),
                turned_away: Tally::default(),
                handed_over: Tally::default(),
                handed_on: Tally::default(),
                nice: AtomicI32::new(NONE),
            }
        };
        let lanes = settings.iter().map(lane).collect();
        (Lanes { lanes, others, entering: Arc::new(Semaphore::new(ENTERING)) }, receivers)
    }

    /// Whether a connection is on a thread of its place already.
    fn is_here(&self, LanePlace(place): &LanePlace) -> bool {
        place.as_ref().map(|(lane, _)| *lane) == OWN.get()
    }

    /// A place among the connections that wait for room among all; `None`: so many do that the thread which accepted this one has to wait, too.
    pub fn may_wait(&self) -> Option<OwnedSemaphorePermit> {
        self.entering.clone().try_acquire_owned().ok()
    }

    /// The sockets of the threads of no lane, among those of each address.
    pub fn others(&self) -> Sockets {
        Sockets { first: 0, count: self.others.len() }
    }

    /// The sockets of the threads that serve a class, if it has a lane.
    pub fn sockets(&self, class: ClassId) -> Option<Sockets> {
        let lane = self.lanes.iter().find(|lane| lane.settings.classes.contains(&class));
        lane.map(|lane| lane.sockets)
    }

    /// Where a connection is to be served; `class`: what its requests have by what is known of it already. `None`: its lane is full, and it is to be
    /// closed.
    pub fn place(&self, class: Option<ClassId>) -> Option<LanePlace> {
        let is_of = |lane: &Lane| class.is_some_and(|class| lane.settings.classes.contains(&class));
        let Some(number) = self.lanes.iter().position(is_of) else { return Some(LanePlace(None)) };
        let lane = &self.lanes[number];
        let open = lane.connections.fetch_add(1, Ordering::Relaxed);
        let place = LanePlace(Some((number, InLane(lane.connections.clone()))));
        if lane.settings.connections_max.is_some_and(|max| open >= max) {
            lane.turned_away.one();
            return None;
        }
        Some(place)
    }

    /// A connection that is on a thread of its place already; `Err`: it belongs to another.
    ///
    /// # Errors
    /// Its place.
    pub fn stays(&self, place: LanePlace) -> Result<Option<InLane>, LanePlace> {
        match self.is_here(&place) {
            true => Ok(place.0.map(|(_, in_lane)| in_lane)),
            false => Err(place),
        }
    }

    /// Has a connection served in its place by another thread; `begin` begins that, and is told that it is in a lane. Whether a thread has room for it: else it is closed.
    pub fn hand_over(
        &self,
        LanePlace(place): LanePlace,
        begin: impl FnOnce(Option<InLane>) + Send + 'static,
    ) -> bool {
        let (threads, turned_away, handed_over, in_lane) = match place {
            None => (&self.others, None, None, None),
            Some((number, in_lane)) => {
                let Lane { threads, turned_away, handed_over, .. } = &self.lanes[number];
                (threads, Some(turned_away), Some(handed_over), Some(in_lane))
            }
        };
        let is_sent = threads.send(Box::new(|| begin(in_lane)));
        let counted = if is_sent { handed_over } else { turned_away };
        counted.into_iter().for_each(Tally::one);
        let own = OWN.get().filter(|_| is_sent).and_then(|own| self.lanes.get(own));
        own.into_iter().for_each(|own| own.handed_on.one());
        is_sent
    }

    /// A thread of the lane of that number begins.
    pub fn begins(&self, lane: usize) {
        OWN.set(Some(lane));
        let Lane { settings, nice, .. } = &self.lanes[lane];
        if take_priority(&format!("a thread of lane {}", settings.name), settings.nice) {
            nice.store(settings.nice, Ordering::Relaxed);
        }
    }

    /// How each of them is.
    pub fn status(&self) -> Vec<LaneStatus> {
        let of = |lane: &Lane| LaneStatus {
            name: lane.settings.name.clone(),
            threads: lane.settings.threads,
            nice_wanted: lane.settings.nice,
            nice: Some(lane.nice.load(Ordering::Relaxed)).filter(|nice| *nice != NONE),
            connections: lane.connections.load(Ordering::Relaxed),
            turned_away: lane.turned_away.total(),
            handed_over: lane.handed_over.total(),
            handed_on: lane.handed_on.total(),
        };
        self.lanes.iter().map(of).collect()
    }
}

/// Gives this thread a priority; whether it has it. Of the whole process only this thread, on Linux.
fn take_priority(name: &str, nice: i32) -> bool {
    let set = rustix::process::setpriority_process(None, nice);
    if let Err(error) = set {
        tracing::warn!(%error, "{name} keeps the priority of the process: nice {nice} needs CAP_SYS_NICE, or a limit (LimitNICE=) that allows it");
    }
    set.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(
        name: &str,
        class: u16,
        threads: usize,
        connections_max: Option<usize>,
    ) -> LaneSettings {
        let classes = vec![ClassId(class)];
        LaneSettings { name: name.into(), classes, threads, nice: -10, connections_max }
    }

    /// How many connections each thread has got since this was last asked.
    fn begun(receivers: &mut [Begins]) -> Vec<usize> {
        let of = |it: &mut Begins| {
            std::iter::from_fn(|| it.try_recv().ok()).map(|begin| begin()).count()
        };
        receivers.iter_mut().map(of).collect()
    }

    #[test]
    fn each_connection_goes_where_those_of_its_class_are_in_turn() {
        let lanes = [settings("a", 0, 2, None), settings("b", 1, 1, None)];
        let (lanes, mut receivers) = Lanes::new(&lanes, 3);
        for class in [Some(0), Some(0), Some(1), Some(2), None, None, Some(0)] {
            let place = lanes.place(class.map(ClassId)).expect("there is no bound");
            assert!(lanes.hand_over(place, |_| {}));
        }
        assert_eq!(begun(&mut receivers), [1, 1, 1, 2, 1, 1]);
    }

    #[test]
    fn a_full_lane_turns_away_until_one_has_left() {
        let (lanes, mut receivers) = Lanes::new(&[settings("a", 0, 1, Some(2))], 1);
        let held = Arc::new(std::sync::Mutex::new(Vec::new()));
        let enter = || {
            let held = held.clone();
            let Some(place) = lanes.place(Some(ClassId(0))) else { return false };
            lanes.hand_over(place, move |in_lane| held.lock().unwrap().push(in_lane));
            true
        };
        assert_eq!([enter(), enter(), enter()], [true, true, false]);
        begun(&mut receivers);
        let of = |lanes: &Lanes| (lanes.status()[0].connections, lanes.status()[0].turned_away);
        assert_eq!(of(&lanes), (2, 1));
        assert!(lanes.place(Some(ClassId(9))).is_some(), "others do not mind");
        held.lock().unwrap().pop();
        assert_eq!([enter(), enter()], [true, false]);
        // What a thread never began has left, too.
        held.lock().unwrap().clear();
        drop(receivers);
        assert_eq!(of(&lanes), (0, 2));
        assert!(enter(), "there is room, but nobody to serve it");
        assert_eq!(of(&lanes), (0, 3));
    }

    #[test]
    fn what_is_on_the_way_to_a_thread_is_bounded() {
        let (lanes, mut receivers) = Lanes::new(&[settings("a", 0, 1, None)], 1);
        for _ in 0..ON_THE_WAY + 10 {
            lanes.hand_over(lanes.place(Some(ClassId(0))).expect("there is no bound"), |_| {});
        }
        let status = &lanes.status()[0];
        assert_eq!((status.connections, status.turned_away), (ON_THE_WAY, 10));
        assert_eq!(status.handed_over, ON_THE_WAY as u64);
        assert_eq!(begun(&mut receivers), [0, ON_THE_WAY]);
    }

    #[test]
    fn a_connection_stays_on_a_thread_of_its_lane_alone() {
        let lanes = [settings("a", 0, 2, None), settings("b", 1, 1, None)];
        let (lanes, _receivers) = Lanes::new(&lanes, 3);
        assert_eq!(lanes.others(), Sockets { first: 0, count: 3 });
        assert_eq!(lanes.sockets(ClassId(1)), Some(Sockets { first: 5, count: 1 }));
        assert_eq!(lanes.sockets(ClassId(2)), None);
        let stays = |class: Option<u16>| {
            let place = lanes.place(class.map(ClassId)).expect("there is no bound");
            lanes.stays(place).is_ok()
        };
        assert_eq!([stays(Some(0)), stays(Some(1)), stays(None)], [false, false, true]);
        OWN.set(Some(0));
        let on_its_thread = [stays(Some(0)), stays(Some(1)), stays(None)];
        lanes.hand_over(lanes.place(None).expect("there is no bound"), |_| {});
        OWN.set(None);
        assert_eq!(on_its_thread, [true, false, false]);
        let status = &lanes.status()[0];
        assert_eq!((status.connections, status.handed_on), (0, 1));
    }
}
