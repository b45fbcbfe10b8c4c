//! The backlog: requests that wait for a slot. Who is next in a class, who leaves when it is full, who
//! has waited too long.
//!
//! | file | its idea |
//! |---|---|
//! | `discipline` | what a class says: order, turns, bounds |
//! | `waiter` | a waiting request, and the ticket that names it |
//! | `class_queue` | requests of a class served after the same others: of running sessions, all others, the late |
//! | `flows` | a flow's list and account |
//! | `queues` | a waiter joins its queues and leaves them |
//! | `next` | which request of a class is next, what its service is charged, which is overdue |
//! | `room` | which request leaves when a class is full |
//! | `codel` | which request leaves when a delay stands |
//! | `reload` | every waiter keeps its place under another plan |
//!
//! A waiter is in the list of its flow (where flows are not told apart, all are one flow), and by its
//! class's settings in a heap by rank and in one by worth. One that was granted a slot or refused leaves
//! all of them at once and stays in the slab until its owner takes the news. Every change costs
//! O(log n) and, once the tables have grown, allocates nothing.

mod class_queue;
mod codel;
mod discipline;
mod flows;
mod next;
mod queues;
mod reload;
mod room;
#[cfg(test)]
mod tests;
mod waiter;

pub(crate) use codel::DROPS_MAX;
pub(crate) use discipline::Discipline;
pub(crate) use flows::FlowTurn;
pub(crate) use queues::Backlog;
pub(crate) use room::Room;
pub(crate) use waiter::Ticket;
pub(crate) use waiter::{Granted, State, Waiter};
