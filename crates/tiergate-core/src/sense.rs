//! Readings: what sensors tell the gate of the origin and of what it depends on.
//!
//! A sensor pushes its readings in, each named by its source. The last one of each source is
//! kept with its time; the law of the limit is told of every one. Each says for how long it holds, so
//! that a sensor that has gone silent is noticed.

use crate::time::Moment;
use std::time::Duration;

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// The share of a resource that is in use, 0.0 to 1.0.
    Utilization(f64),
    /// How many wait in some queue.
    QueueLen(u32),
    /// Something a second, 0.0 or more.
    Rate(f64),
    /// A number of any other meaning, such as a level or a temperature.
    Level(f64),
}

impl Quantity {
    /// The quantity's name in status.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::Utilization(_) => "utilization",
            Quantity::QueueLen(_) => "queue_len",
            Quantity::Rate(_) => "rate",
            Quantity::Level(_) => "level",
        }
    }

    /// The bare number.
    pub fn value(self) -> f64 {
        match self {
            Quantity::Utilization(value) | Quantity::Rate(value) | Quantity::Level(value) => value,
            Quantity::QueueLen(len) => f64::from(len),
        }
    }

    fn is_possible(self) -> bool {
        match self {
            Quantity::Utilization(share) => (0.0..=1.0).contains(&share),
            Quantity::QueueLen(_) => true,
            Quantity::Rate(rate) => rate.is_finite() && rate >= 0.0,
            Quantity::Level(level) => level.is_finite(),
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    /// Who took it, and of what: `db.cpu`. At most [`Sources::NAME_LEN_MAX`] bytes.
    pub source: &'a str,
    /// What was measured.
    pub quantity: Quantity,
    /// How long it holds. Without another one by then the source is stale.
    pub lasting: Duration,
}

/// Why a reading is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingError {
    /// The number cannot be: a share above 1, a rate below 0, not a number.
    Impossible,
    /// The source's name is empty or too long.
    Name,
    /// There are [`Sources::COUNT_MAX`] other sources, none of them stale.
    TooManySources,
}

/// A source, and what it said last.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Its name.
    pub name: Box<str>,
    /// Its last reading that was possible.
    pub quantity: Quantity,
    /// When that came.
    pub at: Moment,
    /// Until when it holds.
    pub until: Moment,
    /// Readings of it that were impossible.
    pub impossible: u64,
}

impl Source {
    /// Whether its last reading holds no more.
    pub fn is_stale(&self, now: Moment) -> bool {
        now > self.until
    }
}

/// The last reading of each source.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// Most sources that are kept apart. A new one takes the place of one that is stale.
    pub const COUNT_MAX: usize = 64;
    /// Longest name of a source, in bytes.
    pub const NAME_LEN_MAX: usize = 64;

    /// Keeps a reading. O(sources); allocates for a new source.
    pub(crate) fn take(&mut self, now: Moment, reading: Reading<'_>) -> Result<(), ReadingError> {
        let Reading { source, quantity, lasting } = reading;
        let known = self.list.iter().position(|it| &*it.name == source);
        if !quantity.is_possible() {
            if let Some(place) = known {
                self.list[place].impossible += 1;
            }
            return Err(ReadingError::Impossible);
        }
        if let Some(place) = known {
            let known = &mut self.list[place];
            (known.quantity, known.at, known.until) = (quantity, now, now + lasting);
            return Ok(());
        }
        if !(1..=Self::NAME_LEN_MAX).contains(&source.len()) {
            return Err(ReadingError::Name);
        }
        let name = source.into();
        let new = Source { name, quantity, at: now, until: now + lasting, impossible: 0 };
        if self.list.len() < Self::COUNT_MAX {
            self.list.push(new);
        } else {
            let stale = self.list.iter_mut().find(|it| it.is_stale(now));
            *stale.ok_or(ReadingError::TooManySources)? = new;
        }
        Ok(())
    }

    /// Every source, in the order in which they first came.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.list.iter()
    }
}
