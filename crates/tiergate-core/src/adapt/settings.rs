//! An adaptation as a plan has it.

use super::guarantee::Costs;
use crate::admit::inbound::Reference;
use crate::classify::flow::{Flow, FlowKey};
use crate::names::{PoolId, SiteId};
use crate::request::RequestView;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Levels of quality, and what moves between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Adaptation {
    /// The name in the policy, in status and in metrics.
    pub name: String,
    /// Whether it decides about levels. One that is only observed does not: every answer is of the highest level, and the trees of the
    /// others are closed to clients all the same.
    pub acts: bool,
    /// The source of the readings ([`crate::sense`]); [`Inbound::BACKLOG`]: the requests that wait in the default pool.
    ///
    /// [`Inbound::BACKLOG`]: crate::admit::inbound::Inbound::BACKLOG
    pub source: Box<str>,
    /// Where the reading is to stay.
    pub reference: Reference,
    /// Other readings that are to stay where they should: whichever is the furthest beyond decides. Up to [`Adaptation::ALSO_MAX`].
    pub also: Vec<Watched>,
    /// The levels, the lowest quality first: 1 to [`Adaptation::LEVELS_MAX`].
    pub levels: Vec<Level>,
    /// Whether a part of the clients may be refused when the lowest quality is still too much.
    pub refuses: bool,
    /// What tells clients apart.
    pub by: Flow,
    /// What requests cost, where sites have guarantees.
    pub costs: Option<Costs>,
    /// The sites whose guarantees it keeps: those with classes under it.
    pub sites: Vec<SiteId>,
    /// By what factor the gain of the loop may be larger than estimated until it oscillates, if nothing but the sampling is late: more
    /// than 2.
    pub gain_margin: f64,
}

/// A reading, and where it is to stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// As [`Adaptation::source`].
    pub source: Box<str>,
    /// Where the reading is to stay.
    pub reference: Reference,
}

/// What a level does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// What is put before the path: `/degraded_content`. It begins with `/` and does not end with it.
    pub tree: Option<Box<str>>,
    /// The pool that takes the request, in place of its rule's or class's.
    pub pool: Option<PoolId>,
}

impl Watched {
    /// Highest utilization that may be a reference: of one that is reached nothing more is to be seen. Parts of 10,000.
    const REFERENCE_MAX: u16 = 9900;

    /// Checks what the control relies on.
    fn check(&self) -> Result<(), &'static str> {
        match self.reference {
            Reference::Utilization(parts) if !(1..=Self::REFERENCE_MAX).contains(&parts) => {
                Err("reference must be more than 0% and at most 99%")
            }
            Reference::QueueLen(0) => Err("reference must be at least 1"),
            _ if self.source.is_empty() => Err("a source is needed"),
            _ => Ok(()),
        }
    }
}

impl Adaptation {
    /// Most adaptations of a plan.
    pub const COUNT_MAX: usize = 16;
    /// Most readings beside the first one.
    pub const ALSO_MAX: usize = 3;
    /// Most levels of an adaptation.
    pub const LEVELS_MAX: usize = 8;
    /// The gain margin without any other: the loop stands a gain that is twice what was estimated and a reading that is a period late.
    pub const GAIN_MARGIN: f64 = 10.0;

    /// Checks what the control relies on.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_tree = |it: &Level| {
            it.tree.as_deref().is_none_or(|it| it.starts_with('/') && !it.ends_with('/'))
        };
        self.watched().try_for_each(|it| it.check())?;
        let is_twice = |place: usize, it: &Watched| {
            self.watched().take(place).any(|before| before.source == it.source)
        };
        match self.reference {
            _ if self.also.len() > Self::ALSO_MAX => Err("also may name at most 3 readings"),
            _ if self.watched().enumerate().any(|(place, it)| is_twice(place, &it)) => {
                Err("also must name other sensors")
            }
            _ if self.levels.is_empty() => Err("a level is needed"),
            _ if self.levels.len() > Self::LEVELS_MAX => Err("there may be at most 8 levels"),
            _ if self.levels.len() == 1 && !self.refuses => {
                Err("one level leaves nothing to choose: it needs another, or refuse = true")
            }
            _ if !self.levels.iter().all(is_tree) => {
                Err("a tree begins with / and has none at its end")
            }
            _ if self.gain_margin.is_nan() || self.gain_margin <= 2.0 => {
                Err("gain_margin must be more than 2")
            }
            Reference::QueueLen(_) if self.costs.is_some() => {
                Err("costs are shares of what a sensor measures, and a queue's length is none")
            }
            _ => self.costs.map_or(Ok(()), |costs| costs.check()),
        }
    }

    /// All readings that it goes by, the first one first.
    pub fn watched(&self) -> impl Iterator<Item = Watched> + '_ {
        let first = Watched { source: self.source.clone(), reference: self.reference };
        std::iter::once(first).chain(self.also.iter().cloned())
    }

    /// The highest level: full quality.
    pub fn highest(&self) -> u8 {
        self.levels.len() as u8
    }

    /// What a level does; `None`: it is to be refused, or there is no such level.
    pub fn level(&self, level: u8) -> Option<&Level> {
        self.levels.get(usize::from(level).checked_sub(1)?)
    }

    /// Whose request it is, as a hash that is the same after a restart and on every gateway: what decides a client's level must not
    /// change with them. A client that finds it out gains no more than by trying.
    pub fn client(&self, view: &RequestView<'_>) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0, 0);
        hasher.write(self.name.as_bytes());
        let key = hasher.finish();
        self.by.of(view, FlowKey([key, key.rotate_left(32)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_spread_evenly_and_alike_everywhere() {
        let settings = Adaptation {
            name: "pages".to_owned(),
            acts: true,
            source: "cpu".into(),
            reference: Reference::Utilization(8000),
            also: Vec::new(),
            levels: vec![Level::default(); 2],
            refuses: false,
            by: Flow::CLIENT,
            costs: None,
            sites: Vec::new(),
            gain_margin: Adaptation::GAIN_MARGIN,
        };
        let client = |number: u32| {
            let client = std::net::Ipv4Addr::from(0x0a4d_0002 + number).into();
            settings.client(&RequestView { client, ..RequestView::EMPTY })
        };
        let below = |part: f64| {
            let end = (part * 2f64.powi(64)) as u64;
            (0..4096).filter(|number| client(*number) < end).count() as f64 / 4096.0
        };
        for part in [0.05, 0.25, 0.5, 0.75, 0.95] {
            assert!((below(part) - part).abs() < 0.03, "{part}: {}", below(part));
        }
        assert_eq!(
            client(0),
            17_562_988_715_340_479_760,
            "another hash would change every client's level"
        );
    }
}
