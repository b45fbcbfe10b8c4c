//! Transmit: which answer may send how many bytes now.

mod virtual_queue;

pub use virtual_queue::VirtualQueue;
