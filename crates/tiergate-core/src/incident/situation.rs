//! What was counted.

use crate::account::ClassAccount;
use crate::outcome::End;
use crate::reason::Reason;
use crate::stored::Instead;

/// What the gateway as a whole is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It does not listen yet.
    Starting,
    /// It takes requests.
    #[default]
    Serving,
    /// It takes requests, and will soon take no new ones.
    Leaving,
    /// It takes no new ones and finishes those it has.
    Draining,
}

/// The gateway over the last seconds. Counts are of that time, states of its end. The default is a gateway that serves, enforces
/// its policy and has no requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Situation {
    /// What the gateway is doing.
    pub life: Life,
    /// Whether the policy is carried out; `false`: it is only observed.
    pub is_enforced: bool,
    /// The pools that have requests or servers, the default one first.
    pub pools: Vec<PoolSituation>,
    /// The classes, most important first, each over all pools.
    pub classes: Vec<ClassSituation>,
    /// Requests in progress.
    pub in_progress: u64,
    /// The client with the most refusals.
    pub flood: Option<Flood>,
    /// The part of the link that answers take, 0.0 to 1.0; `None`: its capacity is not known.
    pub link: Option<f64>,
    /// The part of the client connections that are in use, 0.0 to 1.0.
    pub connections: f64,
    /// The same of the file descriptors; `None`: not known.
    pub descriptors: Option<f64>,
    /// Sensors of the policy that say nothing.
    pub silent_sensors: Vec<String>,
    /// Whether the last reload was rejected.
    pub is_reload_rejected: bool,
    /// Seconds until the first certificate expires; negative: it has expired. `None`: there is none.
    pub certificate_expires_in_seconds: Option<i64>,
}

impl Default for Situation {
    fn default() -> Self {
        Situation {
            life: Life::Serving,
            is_enforced: true,
            pools: Vec::new(),
            classes: Vec::new(),
            in_progress: 0,
            flood: None,
            link: None,
            connections: 0.0,
            descriptors: None,
            silent_sensors: Vec::new(),
            is_reload_rejected: false,
            certificate_expires_in_seconds: None,
        }
    }
}

/// A pool of servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSituation {
    /// Its name; empty: the default pool.
    pub name: String,
    /// Slots in force.
    pub slots: u32,
    /// Slots in use.
    pub running: u32,
    /// Requests in the queues.
    pub waiting: u64,
    /// Requests that were refused because there was too much to do.
    pub shed: u64,
    /// Requests that had a slot and ended.
    pub finished: u64,
    /// Of them, those that the origin did not answer, or answered by an error.
    pub failed: u64,
    /// Its servers.
    pub servers: u32,
    /// Those that get no requests.
    pub servers_down: Vec<String>,
}

/// A class of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassSituation {
    /// Its name.
    pub name: String,
    /// Whether it uses only what is idle: what it lacks is no incident.
    pub is_background: bool,
    /// Requests that were served.
    pub served: u64,
    /// Requests that were refused because there was too much to do.
    pub shed: u64,
    /// Requests that were refused because so many came from where they came: policed, or blocked.
    pub policed: u64,
    /// Requests that were refused for any other reason.
    pub rejected: u64,
    /// Requests that the origin did not answer, or answered by an error.
    pub failed: u64,
    /// Requests whose client left the queue.
    pub left: u64,
}

impl ClassSituation {
    /// What a class's account has counted since a former state of it.
    pub fn between(before: &ClassAccount, now: &ClassAccount) -> Self {
        let mut counted = ClassSituation::default();
        for reason in Reason::ALL {
            let place = reason.index();
            *counted.place_of(reason) += now.refused[place].saturating_sub(before.refused[place]);
        }
        for end in End::ALL {
            let more = now.finished[end.index()].saturating_sub(before.finished[end.index()]);
            match end {
                End::Served | End::Upgraded => counted.served += more,
                End::Error | End::Failed | End::TimedOut | End::Pushback => counted.failed += more,
                // Nothing was lacking, as far as is known.
                End::Cancelled => {}
                End::Preempted => counted.shed += more,
            }
        }
        // A failure's stored copy is of a request that has finished, and its client was served.
        let stored = |it: &ClassAccount| it.stored.iter().sum::<u64>();
        counted.served += stored(now).saturating_sub(stored(before));
        let failure = Instead::Failure.index();
        let covered = now.stored[failure].saturating_sub(before.stored[failure]);
        counted.failed = counted.failed.saturating_sub(covered);
        counted.left = now.cancelled_waiting.saturating_sub(before.cancelled_waiting);
        counted
    }

    /// Adds what was counted of the class elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.served += other.served;
        self.shed += other.shed;
        self.policed += other.policed;
        self.rejected += other.rejected;
        self.failed += other.failed;
        self.left += other.left;
    }

    /// Where refusals for that reason are counted.
    fn place_of(&mut self, reason: Reason) -> &mut u64 {
        match reason {
            Reason::QueueFull
            | Reason::DeadlineInfeasible
            | Reason::LastingOverload
            | Reason::DeadlineExpired
            | Reason::QueueDelay
            | Reason::BacklogTrigger
            | Reason::Shed
            | Reason::Level
            | Reason::ConnectionsFull
            | Reason::Preempted => &mut self.shed,
            Reason::Policed | Reason::SitePoliced | Reason::Blocked => &mut self.policed,
            Reason::Rule => &mut self.rejected,
            Reason::OriginDown | Reason::Draining | Reason::Reconfigured => &mut self.failed,
        }
    }

    /// Requests whose end is known.
    pub fn ended(&self) -> u64 {
        self.served + self.shed + self.policed + self.rejected + self.failed + self.left
    }

    /// The part of them that was served, 0.0 to 1.0; those that a rule refuses are not to be served, and do not count. `None`:
    /// none has ended.
    pub fn served_share(&self) -> Option<f64> {
        share(self.served, self.ended() - self.rejected)
    }
}

/// A client with many refusals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flood {
    /// Its address.
    pub client: String,
    /// The part of all refusals that it got, 0.0 to 1.0.
    pub share: f64,
    /// Refusals of all clients.
    pub refusals: u64,
}

/// A part of a whole; `None`: there is no whole.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
