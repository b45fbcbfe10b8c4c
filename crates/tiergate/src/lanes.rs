//! Lanes: connections of some classes are served by threads of their own, at a priority of the operating system's, from when they are
//! accepted to the last byte.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | whom it is the turn of | the thread that accepts | the same |
//! | open connections of a lane | the same; `/status` and metrics | the same; the lane's threads, at their ends |
//! | the priority in force | `/status` and metrics | each thread of the lane, at its start |
//!
//! Source: SILK's extended path (Bavier, Voigt et al. 2002, 4.3), as far as a gateway has one: what the thread does for a connection has the priority
//! of its class, and who accepts, for whom is not known yet, has one between.

use crate::config::meant::LaneSettings;
use crate::tally::Tally;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use tiergate_core::names::ClassId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// What begins the task of a connection, on the thread that serves it.
pub type Begin = Box<dyn FnOnce() + Send>;
/// Where a thread gets its connections from.
pub type Begins = mpsc::Receiver<Begin>;

/// How many connections may be on their way to a thread: as many as may wait to be accepted. Beyond, they are closed.
const ON_THE_WAY: usize = 4096;
/// How many may wait for room among all connections at once, so that who accepts does not wait with each.
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
    connections: Arc<AtomicUsize>,
    turned_away: Tally,
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

    /// Whether the thread whose turn it is has room.
    fn send(&self, begin: Begin) -> bool {
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        self.senders[turn].try_send(begin).is_ok()
    }
}

impl Lanes {
    /// Lanes beside so many threads, at least one; and where these threads and then those of the lanes get their connections from.
    pub fn new(settings: &[LaneSettings], threads: usize) -> (Lanes, Vec<Begins>) {
        let (others, mut receivers) = Threads::new(threads);
        let lane = |settings: &LaneSettings| {
            let (threads, of_lane) = Threads::new(settings.threads);
            receivers.extend(of_lane);
            Lane {
                settings: settings.clone(),
                threads,
                connections: Arc::default(),
                turned_away: Tally::default(),
                nice: AtomicI32::new(NONE),
            }
        };
        let lanes = settings.iter().map(lane).collect();
        (Lanes { lanes, others, entering: Arc::new(Semaphore::new(ENTERING)) }, receivers)
    }

    /// A place among those that wait for room among all connections; `None`: so many do that who accepts has to wait, too.
    pub fn may_wait(&self) -> Option<OwnedSemaphorePermit> {
        self.entering.clone().try_acquire_owned().ok()
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

    /// Has a connection served in its place; `begin` begins that, and is told that it is in a lane. Whether a thread has room for it: else it is closed.
    pub fn hand_over(
        &self,
        LanePlace(place): LanePlace,
        begin: impl FnOnce(Option<InLane>) + Send + 'static,
    ) -> bool {
        let (threads, turned_away, in_lane) = match place {
            None => (&self.others, None, None),
            Some((number, in_lane)) => {
                let lane = &self.lanes[number];
                (&lane.threads, Some(&lane.turned_away), Some(in_lane))
            }
        };
        let is_sent = threads.send(Box::new(|| begin(in_lane)));
        if !is_sent {
            turned_away.into_iter().for_each(Tally::one);
        }
        is_sent
    }

    /// A thread of the lane of that number begins.
    pub fn begins(&self, lane: usize) {
        let Lane { settings, nice, .. } = &self.lanes[lane];
        if take_priority(&format!("a thread of lane {}", settings.name), settings.nice) {
            nice.store(settings.nice, Ordering::Relaxed);
        }
    }

    /// The thread that accepts begins: whose connections come is not known, so that it stands between the most urgent lane and the others.
    pub fn accepts(&self) {
        let usual = rustix::process::getpriority_process(None).unwrap_or(0);
        let most_urgent = self.lanes.iter().map(|it| it.settings.nice).min().unwrap_or(usual);
        if most_urgent < usual {
            take_priority("the thread that accepts", (usual + most_urgent).div_euclid(2));
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
        assert_eq!(begun(&mut receivers), [0, ON_THE_WAY]);
        let waiting: Vec<_> = (0..=ENTERING).map(|_| lanes.may_wait()).collect();
        assert_eq!(waiting.iter().flatten().count(), ENTERING);
    }
}
