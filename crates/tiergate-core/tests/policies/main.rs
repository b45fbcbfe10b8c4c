//! What each policy promises, over time: clients that always have something to ask against a gate whose
//! requests take a given time.

mod busy;
mod preemption;
mod shares;
mod sites;
mod streams;
mod weights;
mod wide;
