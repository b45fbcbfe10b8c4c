//! What came out: of each resource, and of several sizes together.

use crate::calibrate::target::Target;
use crate::calibrate::watch::Watched;
use crate::calibrate::{Answer, Carried};
use tiergate_core::calibrate::{
    Bottleneck, Capacity, End, Finding, Fit, Point, Ramp, Resource, Step, Usage, bottleneck,
    capacity, fit,
};

/// Where the measurements come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    /// Whether the machine that was measured is the origin's.
    pub(super) is_here: bool,
    pub(super) processors: u32,
}

/// Of one resource.
pub(super) struct Measured {
    pub(super) target: Target,
    /// The answer to one request alone.
    pub(super) answer: Answer,
    pub(super) ramp: Ramp,
    /// `None`: interrupted.
    pub(super) end: Option<End>,
    pub(super) failure: Option<String>,
    /// A lower bound, unless [`Measured::is_capacity`].
    pub(super) capacity: Option<Capacity>,
    pub(super) finding: Finding,
}

impl Measured {
    /// `idle`: before any load.
    pub(super) fn new(
        target: Target,
        answer: Answer,
        carried: Carried,
        origin: &Origin,
        idle: &Usage,
    ) -> Self {
        let Carried { ramp, end, failure } = carried;
        let capacity = capacity(ramp.steps(), ramp.went_back());
        let usage = capacity.as_ref().map_or_else(Usage::default, |it| it.usage);
        let before = capacity.as_ref().map_or(*idle, |it| without_load(ramp.steps(), it, idle));
        let finding = bottleneck(&usage, &before, origin.is_here, origin.processors);
        Measured { target, answer, ramp, end, failure, capacity, finding }
    }

    /// Whether the capacity is the origin's, and not only a lower bound.
    pub(super) fn is_capacity(&self) -> bool {
        // Seen once, in a step that the end of the time may have cut short, it is not certain.
        let is_steady = self.capacity.as_ref().is_some_and(|it| it.is_steady && it.after.is_some());
        let is_origin = self.finding.what != Bottleneck::Generator;
        is_steady && is_origin && self.end.is_some_and(End::is_capacity)
    }
}

/// Utilizations without the load: what was seen before it, or of the processors what a step of little load leads to, if that is more:
/// others may have begun meanwhile.
fn without_load(steps: &[Step], capacity: &Capacity, idle: &Usage) -> Usage {
    let machine = |usage: &Usage| usage.of(Resource::Machine);
    let line = || {
        let little = steps.first()?;
        let (rate, most) = (little.rate(), capacity.rate.value);
        let (low, high) = (machine(&little.usage)?, machine(&capacity.usage)?);
        (rate > 0.0 && rate <= most / 2.0).then(|| (low * most - high * rate) / (most - rate))
    };
    match machine(idle) {
        Some(seen) => idle.with(Resource::Machine, line().unwrap_or(seen).max(seen)),
        None => *idle,
    }
}

/// Of all resources.
pub(super) struct Results {
    pub(super) origin: Origin,
    pub(super) watched: Watched,
    /// Before any load.
    pub(super) idle: Usage,
    pub(super) all: Vec<Measured>,
}

/// Costs of sizes: those that the origin itself bounds, and those that the link does.
pub(super) struct Costs {
    pub(super) origin: Option<Fit>,
    /// Sizes that the first is made from.
    pub(super) sizes: usize,
    /// Seconds of a MiB on the link, by the sizes that it bounds.
    pub(super) link: Option<f64>,
}

impl Results {
    pub(super) fn new(is_here: bool, processors: u32) -> Self {
        Results {
            origin: Origin { is_here, processors },
            watched: Watched::default(),
            idle: Usage::default(),
            all: Vec::new(),
        }
    }

    /// The costs of a request and of a MiB. Source: Abdelzaher, Shin and Bhatti (2002), 7.2: two lines, that of the end system and
    /// that of the network.
    pub(super) fn costs(&self) -> Costs {
        let known = self.all.iter().filter(|it| it.is_capacity());
        let point = |it: &Measured| {
            let capacity = it.capacity.as_ref().filter(|it| it.rate.value > 0.0)?;
            Some((Point::new(capacity.bytes, capacity.rate), it.finding.what == Bottleneck::Link))
        };
        let points: Vec<(Point, bool)> = known.filter_map(point).collect();
        let of = |link: bool| -> Vec<Point> {
            points.iter().filter(|it| it.1 == link).map(|it| it.0).collect()
        };
        let (origin, link) = (of(false), of(true));
        let mebibytes: f64 = link.iter().map(|it| it.bytes / f64::from(1 << 20)).sum();
        let seconds: f64 = link.iter().map(|it| it.seconds.value).sum();
        Costs {
            sizes: origin.len(),
            origin: fit(&origin),
            link: (mebibytes > 0.0).then(|| seconds / mebibytes),
        }
    }

    /// Why no capacity is known; `None`: one is, or a lower bound.
    pub(super) fn fault(&self) -> Option<String> {
        let last = self.all.last()?;
        let why = last.failure.as_deref().unwrap_or("requests failed");
        match last.end {
            None => Some("interrupted".to_owned()),
            Some(End::Failed) => Some(format!("{}: {why}", last.target)),
            Some(End::Refused) if last.capacity.is_none() => {
                Some(format!("{}: refuses (429, 503) requests one at a time", last.target))
            }
            Some(_) if last.capacity.is_none() => {
                Some(format!("{}: nothing was answered in time", last.target))
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tiergate_core::calibrate::{Order, Settings, Slice};

    /// An origin of 100 answers a second, however many are in progress.
    fn measured(time_max: Duration) -> Measured {
        let step = (Duration::from_millis(500), Duration::from_millis(500));
        let settings = Settings { warm_up: Duration::ZERO, step, time_max, ..Settings::default() };
        let mut ramp = Ramp::new(settings);
        let end = loop {
            let length = Duration::from_millis(250);
            let slice = Slice {
                length,
                answered: 25,
                cycles: length * ramp.concurrency(),
                latencies: vec![Duration::from_millis(10); 25],
                ..Slice::default()
            };
            if let Order::End(end) = ramp.take(&slice) {
                break end;
            }
        };
        let target = Target {
            authority: "127.0.0.1".into(),
            path: "/".into(),
            address: ([127, 0, 0, 1], 80).into(),
        };
        let whole = Duration::from_millis(10);
        let answer = Answer { status: http::StatusCode::OK, bytes: 2, first_byte: whole, whole };
        let carried = Carried { ramp, end: Some(end), failure: None };
        let origin = Origin { is_here: true, processors: 2 };
        Measured::new(target, answer, carried, &origin, &Usage::default())
    }

    #[test]
    fn a_capacity_that_was_seen_once_is_a_lower_bound() {
        let all: Vec<Measured> =
            (4..60).map(|quarters| measured(Duration::from_millis(250) * quarters)).collect();
        let is = |wanted: fn(&Measured) -> bool| all.iter().filter(|it| wanted(it)).count();
        assert!(is(|it| it.is_capacity()) > 0, "with time enough");
        let late = all.iter().skip(12).filter(|it| it.end == Some(End::Saturated));
        assert!(late.clone().count() > 0 && late.clone().all(Measured::is_capacity));
        let once = |it: &Measured| it.end == Some(End::Saturated) && !it.ramp.went_back();
        assert!(is(once) > 0, "with too little");
        assert_eq!(
            is(|it| it.end == Some(End::Saturated) && !it.ramp.went_back() && it.is_capacity()),
            0
        );
    }
}
