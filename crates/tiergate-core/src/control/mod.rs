//! Control: how many requests the origin should work on at once.

pub mod adaptive;
mod curve;
mod mix;
mod regain;
mod window;

use adaptive::AdaptiveLimit;

/// How the number of slots is set.
#[derive(Clone, Debug, PartialEq)]
pub enum Slots {
    /// So many, at least 1.
    Fixed(u32),
    /// Found while running.
    Adaptive(adaptive::Settings),
}

impl Default for Slots {
    fn default() -> Self {
        Slots::Adaptive(adaptive::Settings::default())
    }
}

/// The limit in force.
#[derive(Clone, Debug)]
pub(crate) enum Limit {
    Fixed(u32),
    Adaptive(Box<AdaptiveLimit>),
}

impl Limit {
    pub(crate) fn new(slots: &Slots) -> Self {
        match slots {
            Slots::Fixed(slots) => Limit::Fixed((*slots).max(1)),
            Slots::Adaptive(settings) => {
                Limit::Adaptive(Box::new(AdaptiveLimit::new(settings.clone())))
            }
        }
    }

    pub(crate) fn slots(&self) -> u32 {
        match self {
            Limit::Fixed(slots) => *slots,
            Limit::Adaptive(limit) => limit.slots(),
        }
    }
}
