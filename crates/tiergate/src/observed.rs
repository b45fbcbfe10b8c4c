//! A policy that is observed beside the one in force: it decides about the same requests, is counted and logged, and changes
//! nothing. It is another file's (`tiergate run --observe`), or the whole of the file of which parts have `mode = "observe"`.
//!
//! | state | who reads | who writes | lock |
//! |---|---|---|---|
//! | the shadow | every thread | every thread | its own, shortly, after the gate's and never with it |

use crate::clock;
use crate::config::class_name;
use crate::config::meant::Policy;
use crate::observe::snapshot::{ObservedClass, ObservedSnapshot, policers, rule_hits};
use crate::request::record::Record;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tiergate_core::adapt::LevelNumber;
use tiergate_core::classify::Scratch;
use tiergate_core::classify::flow::FlowKey;
use tiergate_core::fault::Fault;
use tiergate_core::gate::Arrival;
use tiergate_core::names::{ClassId, PoolId, RuleId};
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::request::RequestView;
use tiergate_core::sense::Reading;
use tiergate_core::shadow::{Enforced, Observed, Seen, Shadow};

/// A policy that is observed.
#[derive(Debug)]
pub struct ObservedPolicy {
    /// Its file.
    pub path: PathBuf,
    policy: Policy,
    shadow: Arc<Mutex<Shadow>>,
}

thread_local! {
    /// What classification by the observed policy remembers of a request while it looks at it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl ObservedPolicy {
    /// Observes a policy, from `former` on, if there is one: what was counted stays. `key`: what flows are hashed with; `limit_of`: how many
    /// slots a pool of a plan would have in force.
    ///
    /// # Errors
    /// As of any plan; nothing has changed then.
    pub fn new(
        path: PathBuf,
        mut policy: Policy,
        former: Option<&ObservedPolicy>,
        key: FlowKey,
        limit_of: impl Fn(&Plan, PoolId) -> u32,
    ) -> Result<Self, Fault> {
        policy.classifier.set_flow_key(key);
        let limit_of = |pool| limit_of(&policy.plan, pool);
        let known = former.and_then(|former| Some((former.shadow()?, former.shadow.clone())));
        let shadow = match known {
            Some((mut shadow, shared)) => {
                shadow.reconfigure(clock::now(), &policy.plan, limit_of)?;
                drop(shadow);
                shared
            }
            None => Arc::new(Mutex::new(Shadow::new(&policy.plan, limit_of)?)),
        };
        Ok(ObservedPolicy { path, policy, shadow })
    }

    /// The shadow; `None`: something has panicked with it, and nothing is observed any more. Nothing else shall end for that.
    fn shadow(&self) -> Option<MutexGuard<'_, Shadow>> {
        self.shadow.lock().ok()
    }

    /// A request comes, and this is what the policy in force made of it; `limit_of`: as of [`ObservedPolicy::new`]; `listener`: where it came in; `refused`: why it is refused whatever the policy;
    /// `granted`: it has its slot.
    pub(crate) fn arrive(
        self: &Arc<Self>,
        limit_of: impl Fn(&Plan, PoolId) -> u32,
        view: &RequestView<'_>,
        listener: SocketAddr,
        enforced: &Arrival,
        (refused, granted): (Option<Reason>, bool),
    ) -> Option<Box<ObservedRequest>> {
        let view = RequestView { listener: self.policy.listener_at(listener), ..*view };
        let found =
            SCRATCH.with_borrow_mut(|scratch| self.policy.classifier.classify(&view, scratch));
        let plan = &self.policy.plan;
        let mut arrival = Arrival {
            pool: plan.pool_of(&found),
            resource: plan.resource_of(&found),
            running: enforced.running,
            goes_on: enforced.goes_on,
            importance: None,
            ..Arrival::matched(&found, plan.rule_ids(), enforced.bytes)
        };
        let now = clock::now();
        let mut shadow = self.shadow()?;
        shadow.limits_are(now, |pool| limit_of(plan, pool));
        let mut level = None;
        if let Some(id) = plan.adaptation_of(&found)
            && let Some(settings) = plan.adaptation(id)
        {
            let client = settings.client(&view);
            arrival.adapted = shadow.gate().level(id, found.class, client, arrival.running);
            level =
                arrival.adapted.map(|it| (it.level.min(settings.highest()), settings.highest()));
            let pool = arrival.adapted.and_then(|adapted| plan.level_pool(adapted));
            arrival.pool = pool.unwrap_or(arrival.pool);
        }
        let refused = found.refuse.then_some(Reason::Rule).or(refused);
        let request = shadow.arrive(now, arrival, refused, granted)?;
        let (policy, seen) = (self.clone(), OnceLock::new());
        let (class, rule) = (found.class, arrival.rule);
        Some(Box::new(ObservedRequest { policy, class, rule, level, request, seen }))
    }

    /// Takes a reading of a sensor.
    pub(crate) fn observe(&self, reading: Reading<'_>) {
        if let Some(mut shadow) = self.shadow() {
            shadow.observe(clock::now(), reading);
        }
    }

    /// Its numbers, copied.
    pub fn snapshot(&self) -> Option<ObservedSnapshot> {
        let mut shadow = self.shadow()?;
        shadow.tick(clock::now());
        let gate = shadow.gate();
        // Of what the gate has: a reload may be putting another plan in force.
        let plan = gate.plan();
        let class = |id: &ClassId| ObservedClass {
            name: class_name(plan, *id).to_owned(),
            waiting: gate.pools().map(|pool| pool.state(*id).waiting).sum(),
            accounts: gate
                .all_pools()
                .filter_map(|pool| pool.account().classes.get(id.index()).cloned())
                .collect(),
            tally: shadow.tally(*id),
        };
        Some(ObservedSnapshot {
            path: self.path.display().to_string(),
            untracked: shadow.untracked(),
            classes: plan.class_ids().iter().map(class).collect(),
            rule_hits: rule_hits(gate),
            policers: policers(gate),
            adaptations: gate
                .adaptations()
                .map(|it| (it.settings.name.clone(), it.answered))
                .collect(),
        })
    }
}

/// A request that the observed policy decides about, too. Dropped without a word, its client has left.
#[derive(Debug)]
pub(crate) struct ObservedRequest {
    policy: Arc<ObservedPolicy>,
    class: ClassId,
    /// The rule that decided the class.
    rule: Option<RuleId>,
    /// The level that decides the quality of its answer, and the highest.
    level: Option<(LevelNumber, LevelNumber)>,
    request: Observed,
    /// What was decided until it was told how the request ended in force.
    seen: OnceLock<Seen>,
}

/// What the observed policy has decided so far, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedVerdict<'a> {
    /// The class.
    pub class: &'a str,
    /// `admitted`, `waits` or `refused`.
    pub verdict: &'static str,
    /// Why it would be refused.
    pub reason: Option<Reason>,
    /// The number of the rule that decided the class.
    pub rule: Option<u32>,
    /// The level of its answer, and the highest.
    pub level: Option<(LevelNumber, LevelNumber)>,
}

impl ObservedRequest {
    /// What was decided so far.
    pub(crate) fn verdict(&self) -> ObservedVerdict<'_> {
        let now = || self.policy.shadow().map_or(Seen::Unknown, |it| it.seen(self.request));
        let seen = match self.seen.get().copied().unwrap_or(Seen::Waits) {
            // It may have decided meanwhile.
            Seen::Waits | Seen::Unknown => now(),
            seen => seen,
        };
        let (verdict, reason) = match seen {
            Seen::Admitted => ("admitted", None),
            Seen::Waits | Seen::Unknown => ("waits", None),
            Seen::Refused(reason) => ("refused", Some(reason)),
        };
        let plan = &self.policy.policy.plan;
        let rule = self.rule.and_then(|rule| plan.rule(rule)).map(|label| label.number);
        let (class, level) = (class_name(plan, self.class), self.level);
        ObservedVerdict { class, verdict, reason, rule, level }
    }

    /// It has got its slot in force.
    pub(crate) fn granted(&self) {
        if let Some(mut shadow) = self.policy.shadow() {
            shadow.granted(self.request);
        }
    }

    /// It has given its slot back in force, after so long.
    pub(crate) fn freed(&self, held: Duration, outcome: Outcome) {
        self.tell(Enforced::Served { held, outcome });
    }

    /// How it has ended in force, if that was not told yet.
    pub(crate) fn ended(&self, record: &Record) {
        let since = clock::now().since(record.arrived);
        self.tell(match (record.reason, record.waited.filter(|_| record.granted)) {
            (Some(reason), None) => Enforced::Refused(reason),
            (None, None) => Enforced::Gone,
            // What is left of it at the server is not seen here.
            (_, Some(waited)) => Enforced::Served {
                held: since.saturating_sub(waited),
                outcome: Outcome {
                    end: record.end.unwrap_or(End::Cancelled),
                    first_byte: record.first_byte,
                    bytes: record.sent.bytes,
                    left: None,
                },
            },
        });
    }

    fn tell(&self, enforced: Enforced) {
        if self.seen.get().is_some() {
            return;
        }
        if let Some(mut shadow) = self.policy.shadow() {
            let _ = self.seen.set(shadow.ended(clock::now(), self.request, enforced));
        }
    }
}

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        self.tell(Enforced::Gone);
    }
}
