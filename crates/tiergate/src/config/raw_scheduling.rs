//! Who gets the next slot, as written: the policy between sites and classes, and classes themselves.

use super::error::{Faults, Place};
use super::raw::Police;
use super::read::{At, OneOrMany, Read, read_at, table, unknown, wrong};
use super::rule_values::{FlowText, PointsNumber};
use super::scheduling_values::{CostText, FullText, LateText, OrderText, PolicyText};
use super::values::{Share, Size, Time};

table! {
    /// Who gets the next free slot.
    struct Scheduling {
        /// Which class is served next: "strict" (the default), "weighted", "shared", "fixed",
        /// "deadline", "score", "fifo". Of a site that says another, that one.
        policy: PolicyText,
        /// Points a second that waiting requests gain where policy = "score". Default 1.
        ageing: PointsNumber,
        /// What a request costs, for weights and turns: "seconds" of its slots (the default),
        /// "requests" (each the same), "bytes" of its answer.
        cost: CostText,
        /// Which site is served next, where there are several. Default "strict".
        between_sites: PolicyText,
        /// How many requests of all classes together may wait. By default only each class is bounded.
        #[schemars(range(min = 1, max = 1_000_000))]
        queue: u64,
    }
}

table! {
    /// A group of classes that is served as one.
    struct Site {
        /// Its name, by which classes belong to it.
        #[schemars(required, regex(pattern = "^[A-Za-z0-9_.-]{1,64}$"))]
        name: String,
        /// Which of its classes is served next. By default as `[scheduling]` says.
        policy: PolicyText,
        /// Points a second that waiting requests gain where policy = "score".
        ageing: PointsNumber,
        /// Its part of the work, relative to the others', where between_sites = "weighted". Default 1.
        weight: PointsNumber,
        /// Share of the slots that it is sure of, where between_sites = "strict". Default "0%".
        minimum: Share,
        /// Its share of the slots, where between_sites = "shared" or "fixed". Default "0%".
        share: Share,
        /// The part of its share that is kept free for it, where between_sites = "shared".
        reserve: Share,
    }
}

table! {
    /// A tier of service.
    struct Class {
        /// Its name in rules, logs and metrics.
        #[schemars(required, regex(pattern = "^[A-Za-z0-9_.-]{1,64}$"))]
        name: String,
        /// Longest time that a request waits for a slot; then it is refused. Default "2s".
        deadline: Time,
        /// Share of the slots that the class is sure of while it has requests waiting. Default "0%".
        minimum: Share,
        /// How many requests may wait at once; more are refused at once. Default 10000.
        #[schemars(range(max = 1_000_000))]
        queue: u64,
        /// The policer that its requests come under; beyond it 429.
        police: Police,
        /// What fairness inside the class is counted by; by default the policy's `flow`.
        flow: FlowText,
        /// Backlogs at which its requests are refused.
        refuse_at: Vec<At<Trigger>>,
        /// The site that it belongs to. Needed where there are several.
        site: String,
        /// Its part of the work, relative to the others', where policy = "weighted". Default 1.
        weight: PointsNumber,
        /// Its share of the slots, where policy = "shared" or "fixed". Default "0%".
        share: Share,
        /// The part of its share that is kept free for it, where policy = "shared". Default "0%".
        reserve: Share,
        /// In which order its requests get slots. By default "deadline" or "score" where the site's policy
        /// is that, else "fifo".
        order: OrderText,
        /// Whether its flows are served in turn. Default true.
        fair: bool,
        /// The delay that may stand in its queue. Without it, only the deadline bounds the wait.
        codel: Codel,
        /// Who leaves when its queue is full: "refuse-new" (the default), "drop-oldest", or
        /// "drop-least" (the lowest score).
        when_full: FullText,
        /// What becomes of a request whose deadline passes: "refuse" (the default), or "last".
        late: LateText,
        /// Bytes of requests that may wait at once. Default "256MiB".
        queue_bytes: Size,
        /// Whether GET and HEAD that are in service may be preempted by a class above. Default false.
        preemptible: bool,
        /// Streams (SSE, gRPC) at once that hold no slot; further ones keep theirs. Default
        /// 10000.
        #[schemars(range(max = 10_000_000))]
        streams: u64,
    }
}

table! {
    /// A backlog at which a class is refused.
    struct Trigger {
        /// Whose waiting requests count: "total" (all), "own", a class, or a list of classes.
        #[schemars(required)]
        backlog: OneOrMany<String>,
        /// From so many waiting on.
        #[schemars(required, range(min = 1, max = 1_000_000))]
        waiting: u64,
        /// Until there are fewer than so many. By default `waiting`.
        #[schemars(range(min = 1, max = 1_000_000))]
        until: u64,
    }
}

table! {
    /// CoDel (RFC 8289): the delay that may stand in a class's queue.
    struct Codel {
        /// The delay. Default "5ms".
        target: Time,
        /// How long a longer one is borne before requests are dropped. Default "100ms".
        interval: Time,
    }
}
