//! Which policy shares the slots out, and what a plan says of each child: the nouns.

/// A group of classes that is served as one, such as one of several hosts behind one gateway.
///
/// Shares and minimums of its classes are of its part of the slots: of its own share where capacity is
/// shared or fixed between sites, of its part by weight where that decides, else of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// Which of its classes is served next.
    pub policy: Policy,
    /// As of a class, among the sites: [`crate::class::Class::minimum`].
    pub minimum: f64,
    /// As of a class, among the sites: [`crate::class::Class::weight`].
    pub weight: f64,
    /// As of a class, among the sites: [`crate::class::Class::share`].
    pub share: f64,
    /// As of a class, among the sites: [`crate::class::Class::reserve`].
    pub reserve: f64,
}

impl Site {
    /// A site with every default.
    pub fn named(name: impl Into<String>) -> Self {
        let policy = Policy::default();
        Site { name: name.into(), policy, minimum: 0.0, weight: 1.0, share: 0.0, reserve: 0.0 }
    }

    /// What the plan says of it among sites.
    pub fn terms(&self) -> Terms {
        let Site { minimum, weight, share, reserve, .. } = *self;
        Terms { minimum, weight, share, reserve }
    }
}

/// Which of several classes, or sites, gets the next slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Policy {
    /// The most important that waits; but each is sure of its minimum, which is lent while it is not used.
    #[default]
    Strict,
    /// Slots in proportion to weights, counted in work: start-time fair queueing.
    Weighted,
    /// Each has its share; what one does not use is lent, except its reserve (WebQoS §4.4).
    Shared,
    /// Each has its share and never more (WebQoS §4.4).
    Fixed,
    /// The request of the earliest deadline, whatever its class.
    Deadline,
    /// The request of the highest score, whatever its class; a request gains `ageing` points a second
    /// while it waits (0: it may wait until its deadline).
    Score {
        /// Points a second.
        ageing: f64,
    },
    /// The request that came first, whatever its class. What other policies are compared with.
    Fifo,
}

impl Policy {
    /// Whether it shares slots out by [`Terms::share`].
    pub const fn is_by_share(self) -> bool {
        matches!(self, Policy::Shared | Policy::Fixed)
    }

    /// Whether it compares single requests, whatever their class.
    pub const fn compares(self) -> bool {
        matches!(self, Policy::Deadline | Policy::Score { .. } | Policy::Fifo)
    }
}

/// What a request is said to cost the origin, for shares by weight and turns of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Costing {
    /// Every request costs the same.
    Requests,
    /// The time that it holds its slots: by what requests of its rule took, put right when it is known.
    #[default]
    Seconds,
    /// The bytes of its answer, likewise.
    Bytes,
}

/// What the plan says of one child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Part of the slots that it is sure of under [`Policy::Strict`], 0.0 to 1.0.
    pub minimum: f64,
    /// Its part of the work, relative to the others', under [`Policy::Weighted`]. More than 0.
    pub weight: f64,
    /// Its part of the slots under [`Policy::Shared`] and [`Policy::Fixed`], 0.0 to 1.0.
    pub share: f64,
    /// What of its share is never lent under [`Policy::Shared`], 0.0 to `share`.
    pub reserve: f64,
}

impl Terms {
    /// The part of the slots that it is sure of under the policy.
    pub const fn sure(&self, policy: Policy) -> f64 {
        match policy {
            Policy::Strict => self.minimum,
            Policy::Shared | Policy::Fixed => self.share,
            Policy::Weighted | Policy::Deadline | Policy::Score { .. } | Policy::Fifo => 0.0,
        }
    }
}
