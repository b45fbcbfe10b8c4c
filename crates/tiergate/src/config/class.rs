//! `[[class]]`: tiers of service.

use super::kind::{Choice, list, one_or_many};
use super::lookup::find;
use super::parts::{self, Part, Sums};
use super::place::{At, Place};
use super::policer::{Police, PoliceKind, Policers};
use super::rule_values::FLOW;
use super::scheduling::{QUEUE_MAX, default_order};
use super::section::{Kind, section, table};
use super::show;
use super::values::{Flag, Name, PointsNumber, SHARE, TEXT, TIME, bytes, check_unique, whole};
use std::time::Duration;
use tiergate_core::admit::trigger::{Backlogs, Trigger};
use tiergate_core::class::{Class, ClassId, Codel, Late, Order, WhenFull};
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::score::Points;
use tiergate_core::plan::Plan;
use tiergate_core::schedule::{Policy, Site, SiteId};

section! {
    /// A tier of service.
    #[derive(Clone, Debug)]
    pub(super) struct ClassKeys {
        /// Its name in rules, logs and metrics.
        name: Option<String> = Name.required("write name = \"…\"");
        /// Longest time that a request waits for a slot; then it is refused. A request that cannot meet it
        /// is refused at once: one behind more requests than its class is expected to have served in nine
        /// tenths of that time, or less where that varies ([ADR
        /// 8](adr/0008-infeasible-deadlines-are-refused-at-once.md)); an eighth less for requests that are no
        /// continuation ([ADR 13](adr/0013-continuations-before-new-connections.md)).
        /// Why: long enough to ride out a burst, shorter than the patience of people and of most client
        /// timeouts.
        deadline: Duration = TIME.or("2s");
        /// Share of the slots that the class is guaranteed while it has requests waiting; what it does not
        /// use is lent to the others; all together at most 100%.
        /// Why: importance alone decides, unless you fear that a class starves.
        minimum: f64 = SHARE.or("0%");
        /// The policer that all of its requests are subject to: its name, or `{ rate, burst, … }`; beyond it
        /// 429.
        police: Option<At<Police>> = PoliceKind.placed().optional("none");
        /// Backlogs at which it is refused, `[{ backlog = "total", waiting = 200 }, …]`.
        /// Why: the deadline bounds the wait.
        refuse_at: Vec<At<TriggerKeys>> =
            list(table(), Trigger::COUNT_MAX, "backlogs").or_none("none");
        /// How many requests may wait at once; further ones are refused at once.
        /// Why: at 1 to 2 KiB each below 20 MiB; the deadline bounds the wait long before.
        queue: u32 = whole(0..=QUEUE_MAX).or(10_000);
        /// What fairness inside the class is counted by.
        flow: Option<Flow> = FLOW.optional("the policy's `flow`");
        /// The site that it belongs to. Must be given where there are several.
        site: Option<String> = TEXT.optional("the only one");
        /// Its part of the work relative to the other classes of its site, with `policy = "weighted"`; more
        /// than 0.
        weight: Points = PointsNumber.or(1);
        /// Its share of its site's slots, with `policy = "shared"` or `"fixed"`; all together at most 100%.
        share: Option<f64> = SHARE.optional("`\"0%\"`");
        /// The part of its share that is kept free for it and never lent, with `policy = "shared"`; at most
        /// `share`.
        /// Why: what is kept free is lost while it is not used.
        reserve: f64 = SHARE.or("0%");
        /// In which order its requests get slots: `"fifo"`; `"adaptive-lifo"`: the newest first while the
        /// class is overloaded; `"deadline"`: the earliest deadline first; `"score"`: the highest score
        /// first.
        /// Why: under overload, the client that has waited longest is about to leave anyway.
        order: Option<Order> = Choice(&[
            ("fifo", Order::Fifo),
            ("adaptive-lifo", Order::AdaptiveLifo),
            ("deadline", Order::Deadline),
            ("score", Order::Score),
        ]).optional("`\"deadline\"` or `\"score\"` where the site's policy is that, else `\"fifo\"`");
        /// Whether its flows are served in turn, so that a flow which sends much delays only itself.
        /// Why: one client in a loop should not starve the others of its class.
        fair: bool = Flag.or(true);
        /// CoDel (RFC 8289), `{ target, interval }`: while a queueing delay of more than `target` stands for
        /// `interval`, the requests that waited longest are refused (reason `queue_delay`), the more often the
        /// longer it lasts.
        codel: Option<At<CodelKeys>> = table().placed().optional("none");
        /// What is dropped when its queue is full: `"refuse-new"`; `"drop-oldest"`; `"drop-least"`: the
        /// lowest score.
        when_full: WhenFull = Choice(&[
            ("refuse-new", WhenFull::RefuseNew),
            ("drop-oldest", WhenFull::DropOldest),
            ("drop-least", WhenFull::DropLeast),
        ]).or("refuse-new");
        /// What becomes of a request whose deadline passes: `"refuse"`, or `"last"`: it is served after all
        /// that are in time, until it has waited twice its deadline.
        late: Late = Choice(&[("refuse", Late::Refuse), ("last", Late::Last)]).or("refuse");
        /// Bytes of requests (heads, and bodies that were read) that may wait at once.
        queue_bytes: u64 = bytes(0..=u64::MAX).or("256MiB");
        /// Whether GET and HEAD in service are preempted by a class above, below.
        preemptible: bool = Flag.or(false);
        /// Concurrent streams of events or messages that hold no slot, below; further ones keep theirs.
        /// Why: each costs a connection to the origin and two buffers, no more than a waiting request.
        streams: u32 = whole(0..=10_000_000).or(10_000);
    }
}

section! {
    /// A backlog at which a class is refused.
    #[derive(Clone, Debug)]
    pub(super) struct TriggerKeys {
        /// Whose waiting requests count: `"total"`: all; `"own"`; the name of a class, or a list of them.
        backlog: Vec<At<String>> = one_or_many(TEXT, usize::MAX, "classes")
            .needed("write backlog = \"total\", \"own\", or a class");
        /// The class is refused from so many on.
        waiting: Option<u32> = whole(1..=QUEUE_MAX).required("write waiting = 100");
        /// And until there are fewer than so many; less than `waiting` keeps it from flapping.
        until: Option<u32> = whole(1..=QUEUE_MAX).optional("`waiting`");
    }
}

section! {
    /// CoDel (RFC 8289): the delay that may stand in a class's queue.
    #[derive(Clone, Debug)]
    pub(super) struct CodelKeys {
        /// The delay.
        /// Why: RFC 8289 §4.3: a queue that stands for a twentieth of the interval is no burst any more.
        target: Duration = TIME.or("5ms");
        /// How long a longer delay is tolerated before requests are dropped.
        /// Why: a round trip on the Internet (RFC 8289 §4.2).
        interval: Option<Duration> =
            TIME.optional("`\"100ms\"`, or twenty times `target` if that is more");
    }
}

/// The classes, most important first, and what fairness is counted by in each; one class with every
/// default if none is given.
pub(super) fn classes(
    raw: Vec<At<ClassKeys>>,
    sites: &[Site],
    between: Policy,
    policers: &mut Policers,
) -> (Vec<Class>, Vec<Option<Flow>>) {
    let between = (sites.len() > 1).then_some(between);
    if raw.is_empty() {
        // Where slots are divided, it has them all.
        let share = if sites[0].policy.is_by_share() { 1.0 } else { 0.0 };
        let order = default_order(&sites[0], between);
        return (vec![Class { order, share, ..Class::named("default") }], vec![None]);
    }
    let raw: Vec<_> = raw.into_iter().filter(|raw| raw.value.name.is_some()).collect();
    // A backlog may be that of a class further down.
    let names: Vec<String> = raw.iter().filter_map(|raw| raw.value.name.clone()).collect();
    let mut sums = vec![Sums::default(); sites.len()];
    let mut resolve = |(index, At { value: raw, place }): (usize, At<ClassKeys>)| {
        let before = names[..index].iter().map(String::as_str);
        check_unique("class", &names[index], before, &place.key("name"));
        let site = site_of(raw.site.as_deref(), sites, &place);
        let of_site = &sites[site.index()];
        let ClassKeys { weight, minimum, share, reserve, .. } = raw;
        let part = Part { weight, minimum, share, reserve };
        let part = part.resolve(of_site.policy, &mut sums[site.index()], &place);
        let own = format!("class.{}", names[index]);
        let trigger = |raw| trigger(raw, ClassId(index as u16), &names);
        let class = Class {
            name: names[index].clone(),
            policer: raw.police.and_then(|police| policers.find(police, &own)),
            deadline: raw.deadline,
            queue_len_max: raw.queue,
            refuse_at: raw.refuse_at.into_iter().filter_map(trigger).collect(),
            minimum: part.minimum,
            weight: part.weight,
            share: part.share,
            reserve: part.reserve,
            site,
            order: raw.order.unwrap_or_else(|| default_order(of_site, between)),
            fair: raw.fair,
            codel: raw.codel.map(codel),
            when_full: raw.when_full,
            late: raw.late,
            queue_bytes_max: raw.queue_bytes,
            preemptible: raw.preemptible,
            streams_max: raw.streams,
        };
        (class, raw.flow)
    };
    raw.into_iter().enumerate().map(&mut resolve).unzip()
}

/// The site that a class belongs to; where there is only one, the class need not name it.
fn site_of(name: Option<&str>, sites: &[Site], class: &Place) -> SiteId {
    let Some(name) = name else {
        if sites.len() > 1 && !class.has("site") {
            class.missing("site", &format!("write site = {:?}", sites[0].name));
        }
        return SiteId(0);
    };
    let names = sites.iter().map(|site| site.name.as_str());
    SiteId(find("site", name, names, &class.key("site")).unwrap_or(0) as u16)
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
    own: ClassId,
    names: &[String],
) -> Option<Trigger> {
    let waiting = raw.waiting?;
    let mut of = Backlogs::NONE;
    for At { value: name, place } in raw.backlog {
        of = match name.as_str() {
            "total" => Backlogs::ALL,
            "own" => of.and(own),
            _ => {
                let found = find("class", &name, names.iter().map(String::as_str), &place);
                found.map_or(of, |index| of.and(ClassId(index as u16)))
            }
        };
    }
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
    let site = &plan.sites[class.site.index()];
    if class.minimum > 0.0 {
        words += &parts::words(Policy::Strict, &class.terms());
    }
    if plan.sites.len() > 1 {
        words += &format!(", site {}", site.name);
    }
    if site.policy != Policy::Strict {
        words += &parts::words(site.policy, &class.terms());
    }
    words += &served_words(class, site);
    for Trigger { of, waiting, until } in &class.refuse_at {
        let of = match *of == Backlogs::ALL {
            true => "all classes".to_owned(),
            false => {
                let classes = plan.classes.iter().zip((0..).map(ClassId));
                let names = classes.filter(|(_, id)| of.has(*id));
                names.map(|(class, _)| class.name.as_str()).collect::<Vec<_>>().join(" and ")
            }
        };
        words += &format!(", refused from {waiting} waiting of {of} until fewer than {until}");
    }
    if let Some(policer) = class.policer {
        words += &format!(", policed by {}", plan.policers[policer.index()].name);
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
    if class.streams_max != Class::STREAMS_MAX_DEFAULT {
        words += &format!(", at most {} streams", class.streams_max);
    }
    words
}
