//! How much more load there may be: until a class is shed (its success buffer), and until what matters most is shed, too, or the
//! gateway comes to a bound of its own, so that goodput falls (the failure buffer).
//!
//! Load is counted in slots that it would hold: requests a second times the time that each holds its slots (Little's law). A load
//! `g` times as large has `g` times as many requests of each class. [`allocation`] says what each class gets of the slots
//! when all want more than there is; the success buffer of a class is the largest growth `g - 1` at which it still gets all that
//! it wants. A buffer of 1.0 means that the load may double; 0 or less, that the class is being shed: so much of the load had to go.
//!
//! It is an estimate: an adaptive limit that was never reached may be too low or too high, and an origin under more load may take
//! longer for each request.
//!
//! Source: Netflix, "Enhancing Netflix Reliability with Service-Level Prioritized Load Shedding" (2024), whose buffers are of the
//! utilisation of processors; Google, "Site Reliability Engineering" (2016), ch. 21, on criticality.

mod allocation;
mod buffers;
#[cfg(test)]
mod tests;

pub use allocation::allocation;
pub use buffers::{
    BUFFER_MAX, Demand, FailureBound, bounded_buffer, failure_buffer, success_buffers,
};
