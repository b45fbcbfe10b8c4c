//! Ids: small numbers that stand for names, and index tables.

use crate::fault::Fault;
use std::fmt::Display;

/// A small number that stands for a name.
pub trait Id: Copy + Eq {
    /// What such names are of, in the plural: "classes".
    const KIND: &'static str;
    /// How many names of the kind may ever be interned.
    const MAX: usize;
    /// The id of the name that was interned after `index` others.
    fn at(index: usize) -> Self;
    /// The place in tables by id.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($number:ty), $kind:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl $name {
            /// The place in tables by id.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Id for $name {
            const KIND: &'static str = $kind;
            const MAX: usize = $max;

            fn at(index: usize) -> Self {
                $name(index as $number)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A class, by its name. Says nothing of its importance: that is its rank in a plan.
    ClassId(u16), "classes", 4096
);
id!(
    /// A site, by its name.
    SiteId(u16), "sites", 4096
);
id!(
    /// A policer, by its name.
    PolicerId(u16), "policers", 65_535
);
id!(
    /// A pool, by its name.
    PoolId(u16), "pools", 256
);
id!(
    /// A resource that requests of a pool share beside its slots, by its name.
    ResourceId(u16), "resources", 256
);
id!(
    /// An adaptation: levels of quality, by its name.
    AdaptationId(u8), "adaptations", 255
);
id!(
    /// A server of the origin, by its address.
    ServerId(u16), "servers", 65_535
);

/// A lane of a pool: the requests of a class that need the same resource, or none. They wait for the same, and take about
/// as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u32);

impl LaneId {
    /// The place in tables by lane.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl AdaptationId {
    /// None: what a rule says of requests that always get full quality, whatever their class does.
    pub const NONE: AdaptationId = AdaptationId(u8::MAX);
}

impl PolicerId {
    /// None: what a rule says of requests that are subject to no rule's policer, whatever later rules say.
    pub const NONE: PolicerId = PolicerId(u16::MAX);
}

impl ResourceId {
    /// None: what a rule says of requests that need nothing, whatever their class does.
    pub const NONE: ResourceId = ResourceId(u16::MAX);
}

impl PoolId {
    /// The pool that takes requests which neither rule nor class sends to another.
    pub const DEFAULT: PoolId = PoolId(0);
    /// Its name.
    pub const DEFAULT_NAME: &'static str = "default";
}

/// There is no id for another of a kind. `counted`: which ones have the ids.
pub(super) fn exhausted<I: Id>(name: impl Display, counted: &str) -> Fault {
    let (max, kind) = (I::MAX, I::KIND);
    Fault::new(format!(
        "no room for {name}: a process has ids for {max} {kind}, counting {counted}; use former names, \
         or restart to forget them"
    ))
}
