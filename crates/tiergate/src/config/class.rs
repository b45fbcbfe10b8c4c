//! `[[class]]`: tiers of service.

use super::adaptation::{self, Adaptations};
use super::dscp::{self, MARK};
use super::kind::{Choice, list, one_or_many};
use super::lookup::{Classes, Interning, class_name, find};
use super::mode::{MODE, Mode};
use super::parts::{self, Part, Sums};
use super::place::{At, Place};
use super::policer::{Police, PoliceKind, Policers};
use super::pool::Pools;
use super::resource::{self, Resources};
use super::route::{self, To, ToKind, route};
use super::rule_values::FLOW;
use super::scheduling::{QUEUE_MAX, default_order};
use super::section::{Kind, section, table};
use super::service_target::{self, TargetKeys};
use super::show;
use super::transmit::{self, TransmitKeys};
use super::values::{FLAG, Name, POINTS, SHARE, TEXT, TIME, bytes, check_unique, whole};
use std::time::Duration;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId, Codel, Late, Order, WhenFull};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::score::Points;
use tiergate_core::control::ServiceTarget;
use tiergate_core::mark::Label;
use tiergate_core::names::Route;
use tiergate_core::plan::Plan;
use tiergate_core::schedule::{Policy, Site, SiteId};

section! {
    /// A tier of service.
    pub(super) struct ClassKeys {
        /// Its name in rules, logs and metrics.
        name: Option<String> = Name.required("write name = \"…\"");
        /// Whether it is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: in force there is no such class, and none of the rules that name it.
        mode: Mode = MODE.or("enforce");
        /// Longest time that a request waits for a slot; then it is refused. A request that is not expected
        /// to meet it is refused at once: if the requests ahead of it are expected to take more than nine
        /// tenths of that time, or less where waits vary ([ADR
        /// 8](adr/0008-infeasible-deadlines-are-refused-at-once.md)); for requests that do not continue a
        /// connection, an eighth less ([ADR 13](adr/0013-continuations-before-new-connections.md)).
        /// Why: long enough to ride out a burst, shorter than the patience of people and of most client
        /// timeouts; what is in the background may wait.
        deadline: Option<Duration> = TIME.optional("`\"2s\"`; of a background class `\"10min\"`");
        /// Whether requests are also refused, and expire, once they have waited so long that clients would leave
        /// while they are served, as learned from those that did. Where none were seen leaving (behind a proxy they
        /// cannot be), requests are refused that would wait for more than a sixteenth of the deadline, or than a
        /// response takes, once requests were refused because of their deadlines for as long as a deadline; more
        /// where slots would be idle otherwise; with `order = "fifo"`, without shedding, and
        /// unless a [policer's `control`](#policer-rate-limits) keeps the queue at a length that is served in half of the deadline.
        /// Why: a request whose client is about to leave is work for nobody; see [ADR
        /// 16](adr/0016-patience-is-learned.md).
        learn_patience: bool = FLAG.or(true);
        /// Share of the slots that the class is guaranteed while it has requests waiting; the unused part is
        /// lent to other classes. The sum must not exceed 100%.
        /// Why: importance alone decides; set a minimum if a class must not starve.
        minimum: f64 = SHARE.or("0%");
        /// The policer that all of its requests are subject to: its name, or `{ rate, burst, … }`; beyond it
        /// 429.
        police: Option<At<Police>> = PoliceKind.placed().optional("none");
        /// Backlog lengths at which the class is refused, below: `[{ backlog = "total", waiting = 200 }, …]`.
        /// Why: the deadline already bounds the wait.
        refuse_at: Vec<At<TriggerKeys>> =
            list(table(), Trigger::COUNT_MAX, "backlogs").or_none("none");
        /// How many requests may wait at once, in each pool; further ones are refused at once.
        /// Why: at 1 to 2 KiB each, less than 20 MiB; the deadline usually takes effect long before.
        queue: u32 = whole(0..=QUEUE_MAX).or(10_000);
        /// The unit of fair queueing inside the class: see [flows](#flows-the-unit-of-fairness).
        flow: Option<Flow> = FLOW.optional("the policy's `flow`");
        /// The site that it belongs to. Required if there are several.
        site: Option<String> = TEXT.optional("the only one");
        /// The pool that takes its requests, unless a rule names another; `"default"`: that of `[origin]`. Or several with
        /// weights, `{ stable = 95, canary = 5 }`: see [pools by weight](#pools-by-weight).
        pool: Option<To> = ToKind.optional("`\"default\"`");
        /// The [resource](#resource-what-only-some-requests-need) that its requests need, unless a rule names another.
        resource: Option<String> = TEXT.optional("none");
        /// The [adaptation](#adaptation-worse-answers-instead-of-none) that decides the quality of its answers, unless a rule names another.
        adaptation: Option<String> = TEXT.optional("none: it is full");
        /// Its part of the work, relative to the other classes of its site, with `policy = "weighted"`; more
        /// than 0.
        weight: Points = POINTS.or(1);
        /// Its share of its site's slots, with `policy = "shared"` or `"fixed"`; the sum must not exceed
        /// 100%.
        share: Option<f64> = SHARE.optional("`\"0%\"`");
        /// The part of its share that is kept free for it and never lent, with `policy = "shared"`; at most
        /// `share`.
        /// Why: reserved capacity is wasted while the class does not use it.
        reserve: f64 = SHARE.or("0%");
        /// The order in which its requests get slots: `"fifo"`; `"adaptive-lifo"`: FIFO, but newest first
        /// while the class is overloaded; `"deadline"`: the earliest deadline first; `"score"`: the highest
        /// score first.
        /// Why: for LIFO: under overload, the client that has waited longest is about to give up anyway.
        order: Option<Order> = Choice(&[
            ("fifo", Order::Fifo),
            ("adaptive-lifo", Order::AdaptiveLifo),
            ("deadline", Order::Deadline),
            ("score", Order::Score),
        ]).optional("`\"deadline\"` or `\"score\"` where the site's policy is that, else `\"fifo\"`");
        /// Whether its flows are served by fair queueing, so that a greedy flow delays only itself; with the orders `fifo` and
        /// `adaptive-lifo`.
        /// Why: one client in a loop should not starve the others of its class.
        fair: bool = FLAG.or(true);
        /// CoDel (RFC 8289), `{ target, interval }`: once the queueing delay has been above `target` for
        /// `interval`, the requests that have waited longest are refused (reason `queue_delay`), at an
        /// increasing rate until the delay is below `target`.
        codel: Option<At<CodelKeys>> = table().placed().optional("none");
        /// What is dropped when its queue is full: `"refuse-new"`; `"drop-oldest"`; `"drop-least"`: the
        /// lowest score.
        when_full: WhenFull = Choice(&[
            ("refuse-new", WhenFull::RefuseNew),
            ("drop-oldest", WhenFull::DropOldest),
            ("drop-least", WhenFull::DropLeast),
        ]).or("refuse-new");
        /// What happens to a request whose deadline passes: `"refuse"`; or `"last"`: it is served after all
        /// requests that can still meet theirs, until it has waited for twice its deadline.
        late: Late = Choice(&[("refuse", Late::Refuse), ("last", Late::Last)]).or("refuse");
        /// Total bytes of waiting requests (heads, and bodies that were read), in each pool.
        queue_bytes: u64 = bytes(0..=u64::MAX).or("256MiB");
        /// Whether its GET and HEAD requests in service may be preempted by more important classes: see
        /// [preemption](#preemption).
        preemptible: bool = FLAG.or(false);
        /// Whether it uses only what is idle at the origin, so that the other classes do not feel it: see [background
        /// classes](#background-classes). All that follow it must be background classes, too.
        background: bool = FLAG.or(false);
        /// Its part of the [link](#link-what-answers-leave-by), `{ slice = "2ms", period = "20ms", extra = false }`, below. Not of a background class.
        transmit: Option<At<TransmitKeys>> = table().placed().optional("where another class has one, `{ extra = true, weight = 1 }`");
        /// How long the origin may take with its requests, `{ p99 = "200ms" }`, from the slot to the first byte of the response:
        /// the limit is kept so low that it does, see [service targets](#service-targets). Only with `slots = "adaptive"`.
        /// Why: less time at the origin may cost throughput, and nobody but you knows what it is worth.
        service_target: Option<At<TargetKeys>> = table().placed().optional("none");
        /// The code point (DSCP) of the packets of its answers, refusals included: a name of RFC 4594 (`"af41"`, `"ef"`, `"cs1"`,
        /// `"le"`) or a number from 0 to 63, see [marked answers](#marked-answers).
        /// Why: networks treat packets by it only where somebody has set them up to.
        dscp: Option<u8> = MARK.optional("what the system gives them, mostly 0; in the background with `link.mark`, `\"le\"`");
        /// The priority of the socket while it carries its answers (`SO_PRIORITY`), by which queues of this machine sort packets, as Linux numbers them:
        /// 0 as all, 1 and 2 after all others, 6 before.
        /// Why: the queues that an operator puts there, not the gateway, say what becomes of it.
        socket_priority: Option<u8> = whole(0..=Label::PRIORITY_MAX.into()).optional("0; in the background with `link.mark`, 1");
        /// How many concurrent [streams](#streams) hold no slot, in each pool; further streams keep their slots, and so do all of a background class.
        /// Why: each costs a connection to the origin and two buffers, no more than a waiting request.
        streams: u32 = whole(0..=10_000_000).or(10_000);
    }
}

section! {
    /// A backlog at which a class is refused.
    pub(super) struct TriggerKeys {
        /// Whose waiting requests count: `"total"`: those of all classes; `"own"`: those of this class; or
        /// the name of a class, or a list of names.
        backlog: Vec<At<String>> = one_or_many(TEXT, usize::MAX, "classes")
            .needed("write backlog = \"total\", \"own\", or a class");
        /// The class is refused once this many wait.
        waiting: Option<u32> = whole(1..=QUEUE_MAX).required("write waiting = 100");
        /// Once refused, it is admitted again when fewer than this many wait; a value below `waiting`
        /// prevents flapping.
        until: Option<u32> = whole(1..=QUEUE_MAX).optional("`waiting`");
    }
}

section! {
    /// CoDel (RFC 8289): the delay that may stand in a class's queue.
    pub(super) struct CodelKeys {
        /// The acceptable queueing delay.
        /// Why: RFC 8289 §4.3: 5 to 10 % of the interval.
        target: Duration = TIME.or("5ms");
        /// How long the delay may stay above `target` before requests are refused.
        /// Why: a round trip on the Internet (RFC 8289 §4.2).
        interval: Option<Duration> =
            TIME.optional("`\"100ms\"`, or twenty times `target` if that is more");
    }
}

/// The classes, most important first; one class with every default if none is given, `place` being that of
/// the policy.
pub(super) fn classes(
    raw: Vec<At<ClassKeys>>,
    sites: &[Site],
    between: Policy,
    (mut known, site_ids): (Interning<'_, ClassId>, &[SiteId]),
    (pools, resources, adaptations): (&Pools, &Resources, &Adaptations),
    place: &Place,
    policers: &mut Policers<'_>,
) -> Classes {
    let between = (sites.len() > 1).then_some(between);
    if raw.is_empty() {
        // Where slots are divided, it has them all.
        let share = if sites[0].policy.is_by_share() { 1.0 } else { 0.0 };
        let order = default_order(&sites[0], between);
        let site = site_ids[0];
        let class = Class { order, share, site, ..Class::named("default") };
        let ids = vec![known.id(&class.name, place)];
        return Classes { ids, list: vec![class], flows: vec![None] };
    }
    let raw: Vec<_> = raw.into_iter().filter(|raw| raw.value.name.is_some()).collect();
    // A backlog may be that of a class further down.
    let names: Vec<String> = raw.iter().filter_map(|raw| raw.value.name.clone()).collect();
    let id = |(name, raw): (&String, &At<ClassKeys>)| known.id(name, &raw.place.key("name"));
    let ids: Vec<ClassId> = names.iter().zip(&raw).map(id).collect();
    let mut sums = vec![Sums::default(); sites.len()];
    let mut background = Background::default();
    let mut reserved = 0.0;
    let mut resolve = |(index, At { value: raw, place }): (usize, At<ClassKeys>)| {
        let before = names[..index].iter().map(String::as_str);
        check_unique("class", &names[index], before, &place.key("name"));
        let site = site_of(raw.site.as_deref(), sites, &place);
        let of_site = &sites[site];
        background.check(&raw, &names[index], of_site, &place);
        let ClassKeys { weight, minimum, share, reserve, .. } = raw;
        let part = Part { weight, minimum, share, reserve };
        if raw.queue == 0 {
            warn_of_waiting(&names[index], &place);
        }
        let part = part.resolve(of_site.policy, &mut sums[site], &place);
        let own = format!("class.{}", names[index]);
        let pool = raw.pool.as_ref().and_then(|to| route(to, pools, &place.key("pool")));
        let pool = pool.unwrap_or_default();
        let resource = raw.resource.and_then(|name| resources.named(&name, &place.key("resource")));
        let adaptation =
            raw.adaptation.and_then(|name| adaptations.named(&name, &place.key("adaptation")));
        let trigger = |raw| trigger(raw, index, (&names, &ids));
        let class = Class {
            name: names[index].clone(),
            policer: raw.police.and_then(|police| policers.of_place(police, &own)),
            deadline: raw.deadline.unwrap_or(if raw.background {
                Class::DEADLINE_BACKGROUND
            } else {
                Class::DEADLINE_DEFAULT
            }),
            patience: raw.learn_patience,
            queue_len_max: raw.queue,
            refuse_at: raw.refuse_at.into_iter().filter_map(trigger).collect(),
            minimum: part.minimum,
            weight: part.weight,
            share: part.share,
            reserve: part.reserve,
            site: site_ids[site],
            pool,
            resource,
            adaptation,
            order: raw.order.unwrap_or_else(|| default_order(of_site, between)),
            fair: raw.fair,
            codel: raw.codel.map(codel),
            when_full: raw.when_full,
            late: raw.late,
            queue_bytes_max: raw.queue_bytes,
            preemptible: raw.preemptible,
            service_target: raw.service_target.and_then(|raw| {
                service_target::target(
                    raw,
                    pools,
                    pool,
                    resource.and_then(|id| resources.slots(id)),
                )
            }),
            background: raw.background,
            transmit: raw.transmit.map(|raw| transmit::share(raw, &mut reserved)),
            dscp: raw.dscp,
            socket_priority: raw.socket_priority,
            streams_max: raw.streams,
        };
        (class, raw.flow)
    };
    let last = raw.last().map(|raw| raw.place.clone());
    let (list, flows) = raw.into_iter().enumerate().map(&mut resolve).unzip();
    if let Some(last) = last.filter(|_| !background.has_other) {
        last.fault_at("background", "at least one class must not be in the background");
    }
    Classes { ids, list, flows }
}

/// Background classes as far as they were read.
#[derive(Default)]
struct Background {
    /// The last of them.
    last: Option<String>,
    /// Whether any class is none.
    has_other: bool,
}

impl Background {
    /// They come after all others, and are sure of nothing.
    fn check(&mut self, raw: &ClassKeys, name: &str, site: &Site, place: &Place) {
        if !raw.background {
            self.has_other = true;
            if let Some(last) = &self.last {
                place.fault(format!("must come before the background class {last:?}: move it up"));
            }
            return;
        }
        self.last = Some(name.to_owned());
        if site.policy == Policy::Fixed {
            let message = "needs another policy than \"fixed\" of its site: where each class has its share, nothing is left";
            place.fault_at("background", message);
        }
        let share = raw.share.unwrap_or(0.0);
        for (key, _) in [("minimum", raw.minimum), ("share", share)].iter().filter(|it| it.1 > 0.0)
        {
            place.fault_at(key, "a background class is sure of nothing: leave it out");
        }
        if raw.transmit.is_some() {
            place.fault_at(
                "transmit",
                "a background class has only what is idle of the link: leave it out",
            );
        }
    }
}

/// The site that a class belongs to; where there is only one, the class need not name it.
fn site_of(name: Option<&str>, sites: &[Site], class: &Place) -> usize {
    let Some(name) = name else {
        if sites.len() > 1 && !class.has("site") {
            class.missing("site", &format!("write site = {:?}", sites[0].name));
        }
        return 0;
    };
    let names = sites.iter().map(|site| site.name.as_str());
    find("site", name, names, &class.key("site")).unwrap_or(0)
}

/// Tells which keys say how requests wait of a class whose requests never do.
fn warn_of_waiting(name: &str, place: &Place) {
    for key in ["deadline", "order", "codel", "when_full", "late", "queue_bytes"] {
        if place.has(key) {
            place.warn(format!(
                "class {name}: {key} has no effect: by queue = 0 its requests never wait; leave one of them out"
            ));
        }
    }
}

/// The delay that may stand in a queue.
fn codel(At { value: raw, place }: At<CodelKeys>) -> Codel {
    let target = raw.target;
    // Where only the target is given, the interval follows it: RFC 8289 §4.3 has them 1:20.
    let interval = raw.interval.unwrap_or(Duration::from_millis(100).max(target * 20));
    if target >= interval {
        let [target, interval] = [target, interval].map(show::time);
        let message = format!("must be more than target, \"{target}\", got \"{interval}\"");
        place.fault_at("interval", message);
    }
    Codel { target, interval }
}

/// A backlog at which the class `own` is refused.
fn trigger(
    At { value: raw, place }: At<TriggerKeys>,
    own: usize,
    (names, ids): (&[String], &[ClassId]),
) -> Option<Trigger> {
    let waiting = raw.waiting?;
    let is_total = raw.backlog.iter().any(|name| name.value == "total");
    let class = |name: &At<String>| match name.value.as_str() {
        "own" => Some(ids[own]),
        "total" => None,
        other => {
            let names = names.iter().map(String::as_str);
            find("class", other, names, &name.place).map(|index| ids[index])
        }
    };
    let classes = raw.backlog.iter().filter_map(class).collect();
    let of = if is_total { Backlogs::All } else { Backlogs::Of(classes) };
    let until = raw.until.unwrap_or(waiting);
    if until > waiting {
        place.fault_at("until", format!("must be at most {waiting}, got {until}"));
    }
    Some(Trigger { of, waiting, until })
}

/// For `tiergate check`: what a class's requests get.
pub(crate) fn words(class: &Class, plan: &Plan) -> String {
    let mut words = match class.queue_len_max {
        0 => "never waits".to_owned(),
        len => format!("waits at most {}, at most {len} in the queue", show::time(class.deadline)),
    };
    if class.background {
        words += ", in the background: only what is idle";
    }
    words += &class.transmit.map_or(String::new(), |share| transmit::words(&share));
    let site = plan.site_of(class);
    if class.minimum > 0.0 {
        words += &parts::words(Policy::Strict, &class.terms());
    }
    if plan.sites.len() > 1 {
        words += &format!(", site {}", site.name);
    }
    if class.pool != Route::default() {
        words += &format!(", pool {}", route::words(class.pool, plan));
    }
    if let Some(id) = class.resource {
        words += &format!(", needs {}", resource::name(id, plan));
    }
    if let Some(id) = class.adaptation {
        words += &format!(", quality by {}", adaptation::name(id, plan));
    }
    if site.policy != Policy::Strict {
        words += &parts::words(site.policy, &class.terms());
    }
    words += &served_words(class, site);
    for Trigger { of, waiting, until } in &class.refuse_at {
        let of = match of {
            Backlogs::All => "all classes".to_owned(),
            Backlogs::Of(classes) => {
                let ids = plan.class_ids().iter().filter(|id| classes.contains(id));
                ids.map(|id| class_name(plan, *id)).collect::<Vec<_>>().join(" and ")
            }
        };
        words += &format!(", refused from {waiting} waiting of {of} until fewer than {until}");
    }
    if let Some(policer) = class.policer {
        words += &format!(", policed by {}", plan.policer(policer).map_or("", |it| &it.name));
    }
    words
}

/// How its requests are served, as far as it is not the default: begins with a comma, or is empty.
fn served_words(class: &Class, site: &Site) -> String {
    let mut words = String::new();
    words += match class.order {
        Order::Fifo => "",
        // As the site's policy, which has its own line.
        Order::Deadline if site.policy == Policy::Deadline => "",
        Order::Score if matches!(site.policy, Policy::Score { .. }) => "",
        Order::AdaptiveLifo => ", the newest first under overload",
        Order::Deadline => ", the earliest deadline first",
        Order::Score => ", the highest score first",
    };
    if !class.fair {
        words += ", whatever their flow";
    }
    if let Some(Codel { target, interval }) = class.codel {
        let [target, interval] = [target, interval].map(show::time);
        words += &format!(", dropped while a delay of {target} stands for {interval}");
    }
    words += match class.when_full {
        WhenFull::RefuseNew => "",
        WhenFull::DropOldest => ", the oldest leaves a full queue",
        WhenFull::DropLeast => ", the lowest score leaves a full queue",
    };
    words += match class.late {
        Late::Refuse => "",
        Late::Last => ", the late last, until twice the deadline",
    };
    if class.queue_bytes_max != Class::QUEUE_BYTES_MAX_DEFAULT {
        words += &format!(", at most {} in the queue", show::bytes(class.queue_bytes_max));
    }
    if class.preemptible {
        words += ", GET and HEAD preempted by classes above";
    }
    if let Some(ServiceTarget { time, quantile }) = class.service_target {
        let (quantile, time) = (quantile.name(), show::time(time));
        words += &format!(", {quantile} at the origin kept at {time}");
    }
    if let Some(dscp) = class.dscp {
        words += &format!(", answers marked {}", dscp::shown(dscp));
    }
    if let Some(priority) = class.socket_priority {
        words += &format!(", socket priority {priority}");
    }
    if class.streams_max != Class::STREAMS_MAX_DEFAULT {
        words += &format!(", at most {} streams", class.streams_max);
    }
    words
}
