//! Why a plan cannot be built.

use crate::admit::{block, policer};
use crate::names::NamesExhausted;
use std::fmt;

/// What shares slots with others of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A class, among those of its site.
    Class,
    /// A site, among all.
    Site,
}

/// What is wrong with a class's or a site's part of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsFault {
    /// The minimum is not 0 to 1.
    Minimum,
    /// The weight is not more than 0.
    Weight,
    /// The share is not 0 to 1.
    Share,
    /// The reserve is not 0 to the share.
    Reserve,
    /// The share is 0 where capacity is fixed.
    NeverServed,
}

/// Why a plan cannot be built: the first fault found.
#[derive(Clone, Debug, PartialEq)]
pub enum PlanError {
    /// There are too few or too many of a kind.
    Count {
        /// Of which kind, in the plural.
        kind: &'static str,
        /// How many there must be at least.
        least: usize,
        /// How many there may be.
        most: usize,
        /// How many there are.
        found: usize,
    },
    /// Two of a kind have one name.
    Duplicate {
        /// Of which kind, in the plural.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Too many names were used since the process began.
    Names(NamesExhausted),
    /// A part of the slots makes no sense.
    Terms {
        /// Whose.
        kind: Kind,
        /// Its name.
        name: String,
        /// What is wrong.
        fault: TermsFault,
    },
    /// Parts of the slots add up to more than all.
    Sum {
        /// Whose.
        kind: Kind,
        /// Which parts: "shares".
        what: &'static str,
        /// What they add up to.
        sum: f64,
    },
    /// The ageing is not 0 or more.
    Ageing,
    /// A trigger of the class does not have 1 ≤ until ≤ waiting, there are too many, or it names a class
    /// that the plan does not have.
    Trigger {
        /// The class.
        class: String,
    },
    /// The class's site is not in the plan.
    NoSite {
        /// The class.
        class: String,
    },
    /// A policer that is referred to is not in the plan.
    NoPolicer,
    /// The delay beyond which requests are shed is 0.
    Shedding,
    /// The settings of blocking make no sense.
    Block(block::Fault),
    /// A policer's settings make no sense.
    Policer {
        /// Its name.
        name: String,
        /// What is wrong.
        fault: policer::Fault,
    },
}

impl From<NamesExhausted> for PlanError {
    fn from(exhausted: NamesExhausted) -> Self {
        PlanError::Names(exhausted)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Kind::Class { "class" } else { "site" })
    }
}

impl fmt::Display for TermsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TermsFault::Minimum => "minimum must be 0 to 1",
            TermsFault::Weight => "weight must be more than 0",
            TermsFault::Share => "share must be 0 to 1",
            TermsFault::Reserve => "reserve must be 0 to its share",
            TermsFault::NeverServed => {
                "share must be more than 0 where capacity is fixed, or nothing of it is ever served"
            }
        })
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Count { kind, least, most, found } => {
                write!(f, "a plan has {least} to {most} {kind}, got {found}")
            }
            PlanError::Duplicate { kind, name } => write!(f, "two {kind} are called `{name}`"),
            PlanError::Names(exhausted) => exhausted.fmt(f),
            PlanError::Terms { kind, name, fault } => write!(f, "{kind} `{name}`: {fault}"),
            PlanError::Sum { kind, what, sum } => {
                let whose = if *kind == Kind::Class { "classes'" } else { "sites'" };
                write!(f, "the {whose} {what} add up to {sum:.3}, more than 1")
            }
            PlanError::Ageing => f.write_str("ageing must be 0 or more points a second"),
            PlanError::Trigger { class } => {
                write!(f, "class `{class}`: a trigger must have 1 <= until <= waiting")
            }
            PlanError::NoSite { class } => write!(f, "class `{class}`: there is no such site"),
            PlanError::NoPolicer => f.write_str("a policer that is referred to does not exist"),
            PlanError::Shedding => {
                f.write_str("the delay beyond which requests are shed must be more than 0")
            }
            PlanError::Block(fault) => write!(f, "block: {fault}"),
            PlanError::Policer { name, fault } => write!(f, "policer `{name}`: {fault}"),
        }
    }
}

impl std::error::Error for PlanError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlanError::Names(exhausted) => Some(exhausted),
            _ => None,
        }
    }
}
