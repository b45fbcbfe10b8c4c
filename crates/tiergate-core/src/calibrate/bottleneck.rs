//! Which resource saturates first, from the utilizations at capacity.

use super::usage::{Resource, Usage};

/// In use as much, a resource is saturated.
pub const SATURATED: f64 = 0.9;
/// Swapped pages a second, and share of time waited for memory, beyond which memory is short.
const PAGING: f64 = 200.0;
const MEMORY_PRESSURE: f64 = 0.2;
/// The origin and the load generator must use such a part of busy processors: else others keep them busy.
const OURS: f64 = 0.5;
/// A thread that runs or waits for a processor for such a part of the time, while others keep all of them busy, is held up by that:
/// without them, what it waits for would be something else.
const HELD_UP: f64 = 0.4;

/// What bounds the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The load generator: the origin could do more.
    Generator,
    /// The processors of the origin.
    Processors,
    /// One thread of the origin, which uses one processor; others are idle.
    Thread,
    /// Memory: pages are swapped.
    Memory,
    /// A disk.
    Disk,
    /// The network link.
    Link,
    /// Nothing that was measured: workers, locks, or what is behind the origin.
    Concurrency,
    /// Not known: the processors of the origin were not measured.
    Unmeasured,
}

impl Bottleneck {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Bottleneck::Generator => "generator",
            Bottleneck::Processors => "processors",
            Bottleneck::Thread => "thread",
            Bottleneck::Memory => "memory",
            Bottleneck::Disk => "disk",
            Bottleneck::Link => "link",
            Bottleneck::Concurrency => "concurrency",
            Bottleneck::Unmeasured => "unmeasured",
        }
    }
}

/// The bottleneck, and what else was high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// What bounds the throughput.
    pub what: Bottleneck,
    /// The most used of all shares, except of memory, which may be full without being short.
    pub highest: Option<(Resource, f64)>,
    /// Another resource that was saturated too.
    pub also: Option<(Resource, f64)>,
    /// Processors are busy, but neither with the origin nor with the load generator.
    pub busy_with_others: bool,
    /// Processors are busy because of the load, but not with the origin's processes: with what these ask for, such as a backend
    /// on the same machine.
    pub busy_behind: bool,
}

/// Which resource is saturated.
///
/// `is_here`: whether the origin runs on the machine whose processors, memory and disks were measured. What the load generator
/// uses of its one processor is a share of `processors` of them. `before`: utilizations without the load, as far as they are known.
pub fn bottleneck(usage: &Usage, before: &Usage, is_here: bool, processors: u32) -> Finding {
    let of = |resource| usage.of(resource).unwrap_or(0.0);
    let machine = of(Resource::Machine);
    let generator = of(Resource::Generator) / f64::from(processors.max(1));
    let is_ours = usage.of(Resource::Origin).is_none_or(|it| it + generator >= OURS * machine);
    let came_with_load = |idle: f64| machine - idle >= OURS * machine;
    let with_us = is_ours || before.of(Resource::Machine).is_some_and(came_with_load);
    let busy_with_others = machine >= SATURATED && is_here && !with_us;
    let is_held_up = busy_with_others && of(Resource::Wanted) >= HELD_UP;
    let busy_behind = machine >= SATURATED && is_here && with_us && !is_ours;
    // What was full without the load says nothing of the load.
    let added = |resource| match before.of(resource).is_some_and(|it| it >= SATURATED) {
        true => 0.0,
        false => of(resource),
    };
    let used = if is_here && (with_us || is_held_up) { machine } else { 0.0 };
    // Of equals, the first: a thread that fills the only processor is a processor that is full.
    let shares = [
        (Bottleneck::Processors, Resource::Machine, used),
        (Bottleneck::Processors, Resource::Origin, of(Resource::Origin)),
        (Bottleneck::Link, Resource::Link, of(Resource::Link)),
        (Bottleneck::Thread, Resource::Thread, added(Resource::Thread)),
        (Bottleneck::Disk, Resource::Disk, if is_here { added(Resource::Disk) } else { 0.0 }),
    ];
    let first = shares.iter().rev().max_by(|one, other| one.2.total_cmp(&other.2)).copied();
    let highest = first.filter(|it| it.2 > 0.0).map(|(_, resource, share)| (resource, share));
    let saturated = first.filter(|it| it.2 >= SATURATED).map(|it| it.0);
    let short = of(Resource::Paging) >= PAGING || of(Resource::MemoryPressure) >= MEMORY_PRESSURE;
    let is_measured =
        usage.of(Resource::Origin).is_some() || (is_here && usage.of(Resource::Machine).is_some());
    let what = match saturated {
        _ if of(Resource::Generator) >= SATURATED => Bottleneck::Generator,
        // A disk that is busy with swapping is a consequence.
        _ if short && is_here => Bottleneck::Memory,
        Some(what) => what,
        None if is_measured => Bottleneck::Concurrency,
        None => Bottleneck::Unmeasured,
    };
    let also = shares.iter().find(|it| it.2 >= SATURATED && Some(it.0) != saturated);
    // A thread that is as busy as the processors says nothing more.
    let also = also.filter(|it| !(it.0 == Bottleneck::Thread && what == Bottleneck::Processors));
    let also = also.map(|it| (it.1, it.2));
    Finding { what, highest, also, busy_with_others, busy_behind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Resource::{Disk, Generator, Link, Machine, Memory, Origin, Paging, Thread, Wanted};

    fn found(readings: &[(Resource, f64)]) -> Bottleneck {
        let usage = readings.iter().fold(Usage::default(), |usage, it| usage.with(it.0, it.1));
        bottleneck(&usage, &Usage::default(), true, 2).what
    }

    #[test]
    fn the_fullest_resource_is_it() {
        assert_eq!(found(&[(Machine, 0.97), (Link, 0.4)]), Bottleneck::Processors);
        assert_eq!(found(&[(Machine, 0.3), (Link, 0.96)]), Bottleneck::Link);
        assert_eq!(found(&[(Machine, 0.92), (Link, 0.97)]), Bottleneck::Link);
        assert_eq!(found(&[(Machine, 0.2), (Disk, 0.99)]), Bottleneck::Disk);
        assert_eq!(found(&[(Machine, 0.55), (Thread, 0.98)]), Bottleneck::Thread);
        assert_eq!(found(&[(Machine, 1.0), (Thread, 1.0)]), Bottleneck::Processors);
        assert_eq!(found(&[(Machine, 0.4), (Link, 0.3), (Memory, 0.97)]), Bottleneck::Concurrency);
        assert_eq!(found(&[(Disk, 1.0), (Paging, 5000.0)]), Bottleneck::Memory);
        assert_eq!(found(&[(Machine, 0.9), (Generator, 0.97)]), Bottleneck::Generator);
        assert_eq!(found(&[(Link, 0.1)]), Bottleneck::Unmeasured);
        assert_eq!(found(&[]), Bottleneck::Unmeasured);
    }

    #[test]
    fn processors_that_others_keep_busy_are_not_the_origin_s_bottleneck() {
        let usage = Usage::default().with(Machine, 1.0).with(Origin, 0.03).with(Generator, 0.1);
        let finding = bottleneck(&usage, &Usage::default(), true, 2);
        assert_eq!((finding.what, finding.busy_with_others), (Bottleneck::Concurrency, true));
        assert_eq!(finding.highest, Some((Origin, 0.03)));
        let held_up = usage.with(Wanted, 0.7);
        let finding = bottleneck(&held_up, &Usage::default(), true, 2);
        assert_eq!((finding.what, finding.busy_with_others), (Bottleneck::Processors, true));
        let usage = Usage::default().with(Machine, 1.0).with(Origin, 0.7).with(Generator, 0.4);
        let finding = bottleneck(&usage, &Usage::default(), true, 2);
        assert_eq!((finding.what, finding.busy_with_others), (Bottleneck::Processors, false));
    }

    #[test]
    fn a_backend_on_the_same_machine_is_behind_the_origin() {
        let usage = Usage::default().with(Machine, 1.0).with(Origin, 0.05).with(Generator, 0.1);
        let of = |idle: f64| bottleneck(&usage, &Usage::default().with(Machine, idle), true, 2);
        let behind = of(0.03);
        assert_eq!((behind.what, behind.busy_behind), (Bottleneck::Processors, true));
        assert!(!behind.busy_with_others);
        let others = of(0.8);
        assert_eq!((others.what, others.busy_behind), (Bottleneck::Concurrency, false));
        assert!(others.busy_with_others);
    }

    #[test]
    fn what_was_full_before_the_load_is_not_its_bottleneck() {
        let usage = Usage::default().with(Machine, 0.3).with(Origin, 0.2).with(Disk, 1.0);
        let idle = Usage::default().with(Disk, 0.98);
        assert_eq!(bottleneck(&usage, &idle, true, 2).what, Bottleneck::Concurrency);
        assert_eq!(bottleneck(&usage, &Usage::default(), true, 2).what, Bottleneck::Disk);
    }

    #[test]
    fn of_another_machine_only_the_link_is_measured() {
        let usage = Usage::default().with(Machine, 1.0).with(Disk, 1.0).with(Link, 0.5);
        assert_eq!(bottleneck(&usage, &Usage::default(), false, 2).what, Bottleneck::Unmeasured);
        let full = usage.with(Link, 0.95);
        assert_eq!(bottleneck(&full, &Usage::default(), false, 2).what, Bottleneck::Link);
        let both = bottleneck(&full, &Usage::default(), true, 2);
        assert_eq!((both.what, both.also), (Bottleneck::Processors, Some((Link, 0.95))));
    }
}
