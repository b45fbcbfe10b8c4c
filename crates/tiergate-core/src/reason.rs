//! Why a request was refused: one closed list, the same in logs, metrics, headers and the simulator.

/// Why a request did not get, or did not keep, its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The class's backlog was at its bound when the request arrived.
    QueueFull,
    /// More requests waited before it than are served before its deadline.
    DeadlineInfeasible,
    /// The request waited until its deadline and no slot came free.
    DeadlineExpired,
    /// It had waited longest while the delay in its class's backlog stood above CoDel's target.
    QueueDelay,
    /// The request's rule says that it is always refused.
    Rule,
    /// No origin server can be used: all are down or failing their health checks.
    OriginDown,
    /// The request's rule or class lets only so many through in a time, and that many there were.
    Policed,
    /// The site as a whole takes only so many requests in a time, and that many there were.
    SitePoliced,
    /// A trigger: so many waited, in the class itself or in others, that its requests are refused.
    BacklogTrigger,
    /// The origin was overloaded, and this was among the least important requests.
    Shed,
    /// Its flow was refused so often in a time that it is blocked for a while.
    Blocked,
    /// It was in service, and was preempted by a request of a class above. It has had a slot, so it is
    /// counted as finished ([`crate::outcome::End::Preempted`]) and not as refused.
    Preempted,
    /// The gateway is draining and takes no new work.
    Draining,
    /// A request of this class was waiting when a reload removed what it waited for.
    Reconfigured,
}

impl Reason {
    /// Every reason, in the order of their indices.
    pub const ALL: [Reason; 14] = [
        Reason::QueueFull,
        Reason::DeadlineInfeasible,
        Reason::DeadlineExpired,
        Reason::QueueDelay,
        Reason::Rule,
        Reason::OriginDown,
        Reason::Policed,
        Reason::SitePoliced,
        Reason::BacklogTrigger,
        Reason::Shed,
        Reason::Blocked,
        Reason::Preempted,
        Reason::Draining,
        Reason::Reconfigured,
    ];
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason's place in [`Reason::ALL`] and in every table that counts reasons.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The reason's name in logs, metrics and headers: lower case, words joined by underscores.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::QueueFull => "queue_full",
            Reason::DeadlineInfeasible => "deadline_infeasible",
            Reason::DeadlineExpired => "deadline_expired",
            Reason::QueueDelay => "queue_delay",
            Reason::Rule => "rule",
            Reason::OriginDown => "origin_down",
            Reason::Policed => "policed",
            Reason::SitePoliced => "site_policed",
            Reason::BacklogTrigger => "backlog_trigger",
            Reason::Shed => "shed",
            Reason::Blocked => "blocked",
            Reason::Preempted => "preempted",
            Reason::Draining => "draining",
            Reason::Reconfigured => "reconfigured",
        }
    }

    /// What the reason means, for a person.
    pub const fn meaning(self) -> &'static str {
        match self {
            Reason::QueueFull => "the class's queue was full",
            Reason::DeadlineInfeasible => {
                "too many waited before it to serve it before the deadline"
            }
            Reason::DeadlineExpired => "no slot came free before the deadline",
            Reason::QueueDelay => {
                "it had waited longest while the queue's delay stood above its target"
            }
            Reason::Rule => "a rule refuses such requests",
            Reason::OriginDown => "no origin server is usable",
            Reason::Policed => "more such requests came in a time than are let through",
            Reason::SitePoliced => "more requests came in a time than the site takes",
            Reason::BacklogTrigger => "more waited than the class's trigger allows",
            Reason::Shed => "under overload, other requests were more important",
            Reason::Blocked => "it was refused too often and came again at once",
            Reason::Preempted => "it was preempted by a more important request",
            Reason::Draining => "the gateway is shutting down",
            Reason::Reconfigured => "the configuration changed while the request waited",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_match_the_list() {
        for (place, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), place);
        }
    }
}
