//! What a policy says of the number of slots.

use super::adaptive::AdaptiveLimit;
use super::law::{Bounds, Law};
use super::shared::SharedLimit;

/// How the number of slots is set.
#[derive(Clone, Debug, PartialEq)]
pub enum Slots {
    /// This many, at least 1.
    Fixed(u32),
    /// Found while serving, within bounds.
    Adaptive(Bounds),
    /// Found while serving, within bounds, at servers that get requests from other gateways, too.
    Shared(Bounds),
}

impl Default for Slots {
    fn default() -> Self {
        Slots::Adaptive(Bounds::default())
    }
}

impl Slots {
    /// The bounds that it is kept in.
    pub(super) fn bounds(&self) -> Bounds {
        match self {
            Slots::Fixed(slots) => {
                Bounds { slots_min: *slots, slots_max: *slots, slots_start: *slots }
            }
            Slots::Adaptive(bounds) | Slots::Shared(bounds) => bounds.clone(),
        }
    }

    /// Whether it is found while serving.
    pub fn is_adaptive(&self) -> bool {
        !matches!(self, Slots::Fixed(_))
    }

    /// Whether it is found together with other gateways.
    pub fn is_shared(&self) -> bool {
        matches!(self, Slots::Shared(_))
    }

    /// The law that sets it; it knows nothing of the origin yet.
    pub fn law(&self) -> Box<dyn Law> {
        match self {
            Slots::Fixed(slots) => Box::new(Fixed(*slots)),
            Slots::Adaptive(bounds) => Box::new(AdaptiveLimit::new(bounds.clone())),
            Slots::Shared(bounds) => Box::new(SharedLimit::new(bounds.clone())),
        }
    }
}

/// The law of a fixed limit: always the same number of slots, at least 1.
#[derive(Debug)]
struct Fixed(u32);

impl Law for Fixed {
    fn slots(&self) -> u32 {
        self.0.max(1)
    }
}
