//! The threads that serve, and what each is for.
//!
//! Each thread has listening sockets of its own, in the order of the threads, and a connection stays where the kernel put it. With lanes, the kernel puts it where it belongs, as far as it
//! can tell; the rest is handed over.

use super::orders::Order;
use crate::config::meant::{LaneSettings, Policy};
use crate::lanes::{Begins, Lanes};
use tokio::sync::mpsc;

/// A thread.
pub(super) struct Thread {
    /// What the system calls it.
    pub(super) name: String,
    pub(super) role: Role,
    /// The sockets that it is to accept from.
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// The connections that another thread has accepted for it; `None`: there is no such thread.
    pub(super) begins: Option<Begins>,
}

/// What a thread is for, beside what each does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Nothing else.
    Serves,
    /// It serves the lane of that number.
    Lane(usize),
}

/// Who orders threads to accept: one sender each.
pub(super) type Orders = Vec<mpsc::UnboundedSender<Order>>;

/// How many threads a policy has.
pub(super) fn count(policy: &Policy) -> usize {
    let of_lanes: usize = policy.lanes.iter().map(|it| it.threads).sum();
    policy.threads + of_lanes
}

/// The threads of a policy, the first of which is the process's own, its lanes, if it has any, and who is to be ordered to accept.
pub(super) fn of(policy: &Policy) -> (Vec<Thread>, Option<Lanes>, Orders) {
    let (mut threads, mut orders) = (Vec::new(), Vec::new());
    let mut add = |name: String, role: Role, begins: Option<Begins>| {
        let (sender, receiver) = mpsc::unbounded_channel();
        threads.push(Thread { name, role, orders: receiver, begins });
        orders.push(sender);
    };
    let name = |place: usize| format!("serve-{place}");
    if policy.lanes.is_empty() {
        (0..policy.threads).for_each(|place| add(name(place), Role::Serves, None));
        return (threads, None, orders);
    }
    let (lanes, begins) = Lanes::new(&policy.lanes, policy.threads);
    let mut begins = begins.into_iter();
    (0..policy.threads).for_each(|place| add(name(place), Role::Serves, begins.next()));
    for (number, LaneSettings { name, threads, .. }) in policy.lanes.iter().enumerate() {
        let name = format!("lane-{name}");
        (0..*threads).for_each(|_| add(name.clone(), Role::Lane(number), begins.next()));
    }
    (threads, Some(lanes), orders)
}
