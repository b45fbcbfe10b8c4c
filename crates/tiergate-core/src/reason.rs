//! Why a request was refused: one closed list, the same in logs, metrics, headers and the simulator.

use crate::named::named;

named! {
    /// Why a request did not get, or did not keep, its slot.
    pub enum Reason {
        /// The class's backlog was at its bound when the request arrived.
        QueueFull = "queue_full",
        /// More requests waited before it than are served before its deadline.
        DeadlineInfeasible = "deadline_infeasible",
        /// The overload lasts, so that fewer may wait than would be served before their deadlines.
        LastingOverload = "lasting_overload",
        /// The request waited until its deadline and no slot came free.
        DeadlineExpired = "deadline_expired",
        /// It had waited longest while the delay in its class's backlog stood above CoDel's target.
        QueueDelay = "queue_delay",
        /// The request's rule says that it is always refused.
        Rule = "rule",
        /// No origin server can be used: all are down or failing their health checks.
        OriginDown = "origin_down",
        /// The request's rule or class lets only so many through in a time, and that many there were.
        Policed = "policed",
        /// The site as a whole takes only so many requests in a time, and that many there were.
        SitePoliced = "site_policed",
        /// A trigger: so many waited, in the class itself or in others, that its requests are refused.
        BacklogTrigger = "backlog_trigger",
        /// The origin was overloaded, and this was among the least important requests.
        Shed = "shed",
        /// Its client is one of those that are refused for now, so that the server is not used more than it should be
        /// ([`crate::adapt`]).
        Level = "level",
        /// Its connection would have taken one of those that are kept for connections of more important classes.
        ConnectionsFull = "connections_full",
        /// Its flow was refused so often in a time that it is blocked for a while.
        Blocked = "blocked",
        /// It was in service, and was preempted by a request of a class above. It has had a slot, so it is
        /// counted as finished ([`crate::outcome::End::Preempted`]) and not as refused.
        Preempted = "preempted",
        /// The gateway is draining and takes no new work.
        Draining = "draining",
        /// A request of this class was waiting when a reload removed what it waited for.
        Reconfigured = "reconfigured",
    }
}

impl Reason {
    /// Whether the server had too much to do, so that the request would have been served at another time.
    pub const fn is_for_want_of_capacity(self) -> bool {
        match self {
            Reason::QueueFull
            | Reason::DeadlineInfeasible
            | Reason::LastingOverload
            | Reason::DeadlineExpired
            | Reason::QueueDelay
            | Reason::BacklogTrigger
            | Reason::Shed => true,
            Reason::Level
            | Reason::Rule
            | Reason::OriginDown
            | Reason::Policed
            | Reason::SitePoliced
            | Reason::ConnectionsFull
            | Reason::Blocked
            | Reason::Preempted
            | Reason::Draining
            | Reason::Reconfigured => false,
        }
    }

    /// What the reason means, for a person.
    pub const fn meaning(self) -> &'static str {
        match self {
            Reason::QueueFull => "the class's queue was full",
            Reason::DeadlineInfeasible => {
                "too many waited before it to serve it before the deadline"
            }
            Reason::LastingOverload => "the overload lasts, so that only a short queue is of use",
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
            Reason::Level => "a part of the clients is refused until the server is less busy",
            Reason::ConnectionsFull => {
                "the client connections that are left are kept for more important requests"
            }
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
