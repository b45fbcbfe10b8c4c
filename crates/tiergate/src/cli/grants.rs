//! Of `tiergate check`: whether the processors that workers are to have reserved can be granted on this machine.

use crate::config::Fault;
use crate::config::meant::{Policy, Workers};
use tiergate_core::workers::{Capacity, Refused, Reservation, Wanted, refused};

/// The workers that reserve processors, in the policy's order.
fn wanted(policy: &Policy) -> Vec<(&Workers, Wanted)> {
    let wanted = |it| {
        let (workers, reservation) = Workers::reservation(it)?;
        Some((it, Wanted { workers, reservation }))
    };
    policy.workers.iter().filter_map(wanted).collect()
}

/// What the kernel cannot grant, and what it can.
pub(super) fn faults(policy: &Policy, capacity: Capacity) -> Vec<Fault> {
    let wanted = wanted(policy);
    let asked: Vec<Wanted> = wanted.iter().map(|(_, wanted)| *wanted).collect();
    let fault = |it: Refused| {
        let (of, asked) = wanted[it.place];
        of.place.clone().fault(message(capacity, it, asked))
    };
    refused(capacity, &asked).into_iter().map(fault).collect()
}

fn message(capacity: Capacity, it: Refused, asked: Wanted) -> String {
    let Wanted { workers, reservation } = asked;
    let part = percent(reservation.part());
    let mut can = Vec::new();
    if it.workers_max > 0 {
        can.push(format!("{} with this slice", workers_of(it.workers_max)));
    }
    let slice = reservation.period.mul_f64(it.part_max.clamp(0.0, 1.0));
    if slice >= Reservation::SLICE_MIN {
        let slice = slice.as_micros() as f64 / 1000.0;
        can.push(format!("slice = \"{slice}ms\" to each of {workers}"));
    }
    let can = match can.is_empty() {
        true => "it can grant none of them".to_owned(),
        false => format!("it can grant {}", can.join(", or ")),
    };
    format!(
        "cannot be granted on this machine: {} with {part} of a processor each take {}, and of the {} that the kernel gives to \
         reservations ({} of each of {} processors) {} are left; {can}",
        workers_of(workers),
        percent(asked.sum()),
        percent(capacity.total()),
        percent((capacity.realtime - capacity.ordinary).max(0.0)),
        capacity.processors,
        percent(it.left),
    )
}

fn workers_of(count: u32) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
}

fn percent(part: f64) -> String {
    format!("{}%", (part * 1000.0).round() / 10.0)
}

/// For `tiergate check`: each pool's workers, and what is reserved.
pub(super) fn words(policy: &Policy, capacity: Option<Capacity>) -> Vec<String> {
    let mut lines: Vec<String> = policy.workers.iter().map(Workers::words).collect();
    let reserved: f64 = wanted(policy).iter().map(|(_, wanted)| wanted.sum()).sum();
    if let Some(capacity) = capacity.filter(|_| reserved > 0.0) {
        let (reserved, total) = (percent(reserved), percent(capacity.total()));
        lines.push(format!(
            "reserved: {reserved} of a processor, of {total} that the kernel of this machine gives"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    const TWO: Capacity = Capacity { processors: 2, realtime: 0.95, ordinary: 0.05 };

    #[test]
    fn what_cannot_be_granted_is_refused_with_what_can() {
        let text = "[origin]\nservers = [\"a:1\"]\n\
                    workers = { command = [\"w\"], scheduling = { slice = \"60ms\" } }\n\
                    [[pool]]\nname = \"premium\"\nservers = [\"b:1\"]\n[pool.workers]\n\
                    command = [\"w\", \"{n}\"]\ncount = 4\n\
                    scheduling = { slice = \"40ms\", period = \"100ms\", extra = false }\n";
        let policy = parse(text, "p.toml").expect("a policy");
        let [fault] = &faults(&policy, TWO)[..] else { panic!("one of them does not fit") };
        assert_eq!((fault.line, fault.key.as_str()), (10, "pool[1].workers.scheduling"));
        assert_eq!(
            fault.message,
            "cannot be granted on this machine: 4 workers with 40% of a processor each take 160%, and of the 180% that the kernel \
             gives to reservations (90% of each of 2 processors) 120% are left; it can grant 3 workers with this slice, or \
             slice = \"30ms\" to each of 4"
        );
        assert_eq!(faults(&policy, Capacity { processors: 3, ..TWO }), []);
        let words = words(&policy, Some(Capacity { processors: 3, ..TWO }));
        assert_eq!(
            words[1],
            "premium: 4 started by `w {n}`, killed 10s after SIGTERM; scheduling 40ms in 100ms"
        );
        assert_eq!(
            words[2],
            "reserved: 220% of a processor, of 270% that the kernel of this machine gives"
        );
    }
}
