//! A request's verdict: classify → admit, without an await between.

use super::deadline;
use super::quality::Quality;
use crate::client::history;
use crate::client::peer::Peer;
use crate::clock;
use crate::door::{Entry, Left};
use crate::grpc;
use crate::observed::ObservedRequest;
use crate::session::SessionGuard;
use crate::shared::{Config, Shared};
use crate::stored::{StoredRequest, Target};
use std::cell::RefCell;
use std::task::Context;
use std::time::Duration;
use tiergate_core::adapt::Adapted;
use tiergate_core::class::ClassId;
use tiergate_core::classify::{Match, Scratch};
use tiergate_core::gate::{Arrival, Refused};
use tiergate_core::plan::Plan;
use tiergate_core::reason::Reason;
use tiergate_core::request::RequestView;
use tiergate_core::stored::Role;
use tiergate_wire::http1::RequestHead;

/// A request as it is judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestInput<'r> {
    /// What rules see of it.
    pub(super) view: &'r RequestView<'r>,
    /// The head as it goes to the origin.
    pub(super) head: &'r RequestHead<'r>,
    /// The connection's other end.
    pub(super) peer: &'r Peer,
    /// Whether the peer's word about its clients is trusted.
    pub(super) trusted: bool,
    /// Bytes that are held while it waits.
    pub(super) bytes: u32,
    /// The body is still to be read: the request is refused if it would be refused now, and else does
    /// not go to the gate yet.
    pub(super) gather: bool,
    /// No other request of its connection is in progress.
    pub(super) is_sole: bool,
}

/// What was found out about a request.
#[derive(Debug)]
pub(super) struct Judged<'d> {
    /// How it was classified.
    pub(super) arrival: Arrival,
    /// Its part in a session.
    pub(super) session: Option<Box<SessionGuard>>,
    /// What a policy that is observed makes of it.
    pub(super) observed: Option<Box<ObservedRequest>>,
    /// Its part in the store.
    pub(super) stored: Option<Box<StoredRequest>>,
    /// What it has left of a policer whose clients are told.
    pub(super) left: Left,
    /// Its slot, or the wait for one; `None`: its body is to be read first.
    pub(super) verdict: Result<Option<Entry<'d>>, Refused>,
}

thread_local! {
    /// What classification remembers of a request while it looks at it.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Judged<'_> {
    /// Of a request that is answered with an error, and is not taken to the gate: only classified.
    #[cold]
    pub(super) fn not_asked(config: &Config, input: &RequestInput<'_>) -> Self {
        let found = classify(config, input.view);
        // No answer of the origin's is taken for it, either.
        let arrival = arrival(config, &RequestInput { gather: true, ..*input }, &found, None);
        Judged {
            arrival,
            session: None,
            observed: None,
            stored: None,
            left: None,
            verdict: Ok(None),
        }
    }
}

fn classify(config: &Config, view: &RequestView<'_>) -> Match {
    SCRATCH.with_borrow_mut(|scratch| config.policy.classifier.classify(view, scratch))
}

/// Classifies a request and takes it to the gate.
pub(super) fn judge<'d>(
    shared: &'d Shared,
    config: &Config,
    input: &RequestInput<'_>,
    context: &Context<'_>,
) -> Judged<'d> {
    let found = classify(config, input.view);
    let open = |settings| {
        let RequestInput { view, peer, .. } = *input;
        Box::new(SessionGuard::open(&shared.sessions, settings, view, found.class, peer.secure))
    };
    let session = config.policy.session.as_ref().map(open);
    let mut arrival = arrival(config, input, &found, session.as_deref());
    adapt(shared, config, input, &found, &mut arrival);
    let stored = stored(config, input, &found, &mut arrival);
    let is_usable = |pool| config.pools.of(pool).is_usable();
    let may_stay = may_stay(shared, config, input, found.class);
    let refused = if found.refuse {
        Some(Refused::of(Reason::Rule))
    } else if !may_stay {
        Some(Refused::of(Reason::ConnectionsFull))
    } else if let Some(pool) = config.policy.plan.usable(arrival.pool, is_usable) {
        arrival.pool = pool;
        None
    } else {
        // Until a server is tried again.
        let wait = config.pools.of(arrival.pool).settings.retry_after;
        Some(Refused { wait, ..Refused::of(Reason::OriginDown) })
    };
    let (verdict, left) = match refused {
        Some(refused) if refused.reason == Reason::OriginDown && arrival.copy != Role::None => {
            match shared.door.arrive_without_server(clock::now(), arrival, refused) {
                Ok((entry, left)) => (Ok(Some(entry)), left),
                Err(refused) => (Err(refused), None),
            }
        }
        Some(refused) => {
            shared.door.refuse(arrival, refused.reason);
            (Err(refused), None)
        }
        None if input.gather => {
            let refused = shared.door.precheck(clock::now(), arrival);
            (refused.map_or(Ok(None), Err), None)
        }
        None => match shared.door.arrive(clock::now(), arrival, context) {
            Ok((entry, left)) => (Ok(Some(entry)), left),
            Err(refused) => (Err(refused), None),
        },
    };
    let observed = observe(shared, input, &arrival, &verdict);
    Judged { arrival, session, observed, stored, left, verdict }
}

/// Takes the request to a policy that is observed, if there is one; not while its body is still to be read.
fn observe(
    shared: &Shared,
    input: &RequestInput<'_>,
    arrival: &Arrival,
    verdict: &Result<Option<Entry<'_>>, Refused>,
) -> Option<Box<ObservedRequest>> {
    let observed = shared.observed.load();
    let policy = observed.as_ref()?;
    let known = match verdict {
        // The other policy has no copies: it would count a request that its server has to serve.
        Ok(None | Some(Entry::Stored(_))) => return None,
        Ok(Some(entry)) => (None, matches!(entry, Entry::Now(_))),
        // No policy has a say in these.
        Err(Refused { reason: why @ (Reason::OriginDown | Reason::ConnectionsFull), .. }) => {
            (Some(*why), false)
        }
        Err(_) => (None, false),
    };
    let limit_of = |plan: &Plan, pool| shared.slots_for(plan, pool);
    policy.arrive(limit_of, input.view, input.peer.listener, arrival, known)
}

/// Finds the quality of the answer, where something decides about it.
fn adapt(
    shared: &Shared,
    config: &Config,
    input: &RequestInput<'_>,
    found: &Match,
    arrival: &mut Arrival,
) {
    let plan = &config.policy.plan;
    let Some(id) = plan.adaptation_of(found) else { return };
    let Some(settings) = plan.adaptation(id) else { return };
    let client = settings.client(input.view);
    let known = shared.door.level(id, found.class, client, arrival.running);
    // One that is only observed, or that a reload has taken away meanwhile, has no levels; its trees are still ours.
    let full = Adapted { adaptation: id, level: settings.highest() };
    let is_usable = |pool| config.pools.of(pool).is_usable();
    // Worse than a level is only no answer: where its pool is down, the answer is of full quality, and where that has a pool that is
    // down, too, the request goes where it would have gone, without the tree, which need not be there.
    for adapted in [known.unwrap_or(full), full] {
        let pool = plan.level_pool(adapted);
        if pool.is_none_or(|pool| plan.usable(pool, is_usable).is_some()) {
            arrival.adapted = Some(adapted);
            arrival.pool = pool.unwrap_or(arrival.pool);
            return;
        }
    }
}

/// Looks for a copy of an earlier answer, where the rule has such. Other requests pay a look at two options.
fn stored(
    config: &Config,
    input: &RequestInput<'_>,
    found: &Match,
    arrival: &mut Arrival,
) -> Option<Box<StoredRequest>> {
    let age_max = found.stored.filter(|age_max| !age_max.is_zero() && !input.gather)?;
    let store = config.store.as_ref()?;
    if !matches!(input.view.method, b"GET" | b"HEAD") {
        return None;
    }
    let plan = &config.policy.plan;
    let full = plan.adaptation_of(found).and_then(|id| {
        let level = plan.adaptation(id)?.highest();
        plan.level_pool(Adapted { adaptation: id, level })
    });
    let pool = full.unwrap_or_else(|| plan.pool_of(found));
    let is_full = arrival.pool == pool && Quality::of(plan, arrival).is_none_or(|it| !it.is_less());
    let target = Target {
        head: input.head,
        view: input.view,
        secure: input.peer.secure,
        trusted: input.trusted,
        // A field that its peer may not send on says who it is all the same.
        identified: input.peer.has_certificate
            || !input.view.subject.is_empty()
            || config.policy.credentials.is_presented(input.view.fields),
        pool,
        brings: is_full.then(|| config.level_of(found.class)),
    };
    let (stored, role, until) = StoredRequest::of(store, &target, age_max)?;
    (arrival.copy, arrival.copy_until) = (role, until);
    Some(Box::new(stored))
}

/// Whether the connection may stay that brings a request of this class: see [`tiergate_core::admit::connections`].
fn may_stay(shared: &Shared, config: &Config, input: &RequestInput<'_>, class: ClassId) -> bool {
    let Some(standing) = &input.peer.standing else {
        return true;
    };
    let bounds = config.bounds;
    let (stays, evicted) = standing.brings(config.level_of(class), input.is_sole, bounds);
    if evicted > 0 || !stays {
        shared.tally().connections_evicted.add(evicted as u64);
        let report = &shared.connections_report;
        report.closed(clock::recent(), bounds, evicted);
        if !stays {
            report.refused(clock::recent(), bounds);
        }
    }
    stays
}

/// The request as it arrives at the gate: by its rules, its session, and what its connection has brought
/// so far.
fn arrival(
    config: &Config,
    input: &RequestInput<'_>,
    found: &Match,
    session: Option<&SessionGuard>,
) -> Arrival {
    let RequestInput { peer, trusted, .. } = *input;
    let mut arrival = Arrival {
        pool: config.policy.plan.pool_of(found),
        resource: config.policy.plan.resource_of(found),
        deadline: deadline_of(config, input, found),
        running: session.is_some_and(SessionGuard::is_running),
        // A trusted peer's connection is many clients': nothing is known of this one's past. A body that
        // is still to be read asks again.
        goes_on: trusted || peer.history.is_continuation(!input.gather),
        ..Arrival::matched(found, config.policy.plan.rule_ids(), input.bytes)
    };
    if config.policy.plan.shedding.is_none() {
        return Arrival { importance: None, ..arrival };
    }
    // Where sessions are known, a value that any client may send counts only for admitted sessions.
    let believed = session.is_none_or(SessionGuard::is_running);
    let said = found.importance.filter(|_| believed);
    if trusted {
        // Each request is worth what it is worth by itself.
        arrival.importance = said;
        arrival.connection = arrival.flow;
    } else {
        arrival.importance = peer.history.importance_after(said);
        arrival.requests = peer.history.answered();
        arrival.connection = history::hash_of(peer.address);
    }
    arrival
}

/// How long the request may wait: as its rule or class says, or less if a trusted peer says so. No peer
/// can make it longer than the policy has it.
fn deadline_of(config: &Config, input: &RequestInput<'_>, found: &Match) -> Option<Duration> {
    let sent = match config.policy.deadline_header(found) {
        Some(header) if input.trusted => deadline::sent(input.view, header),
        _ => None,
    };
    // Calls by gRPC say that they take trailers; a client may always say that it waits for less long.
    let of_call = match input.head.te_trailers && grpc::is_grpc(input.view.fields) {
        true => grpc::timeout(input.view.fields),
        false => None,
    };
    let sent = sent.into_iter().chain(of_call).min();
    let Some(sent) = sent else {
        return found.deadline;
    };
    let class =
        config.policy.plan.class(found.class).expect("the plan has the classes of its rules");
    Some(sent.min(found.deadline.unwrap_or(class.deadline)))
}
