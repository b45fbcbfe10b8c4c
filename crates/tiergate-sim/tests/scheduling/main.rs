//! Orders of service side by side, under one gate and the same clients: what each is for.

mod deadlines;
mod diffserver;
mod greedy;
mod queue;
