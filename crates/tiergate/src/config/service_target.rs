//! `service_target` of a class: how long the origin may take with its requests.

use super::kind::Scalar;
use super::place::At;
use super::pool::Pools;
use super::section::{Kind, section};
use super::values::TIME;
use std::time::Duration;
use tiergate_core::control::{Quantile, ServiceTarget, Slots};
use tiergate_core::names::Route;

section! {
    /// How long the origin may take with a class's requests; exactly one of these. As many requests may take longer as the
    /// quantile leaves.
    pub(super) struct TargetKeys {
        /// The median.
        p50: Option<Duration> = TARGET.optional("none");
        /// The time of nine requests of ten.
        p90: Option<Duration> = TARGET.optional("none");
        /// The time of nineteen requests of twenty.
        p95: Option<Duration> = TARGET.optional("none");
        /// The time of 99 requests of 100.
        p99: Option<Duration> = TARGET.optional("none");
    }
}

/// Shorter ones are within what clocks and the network do; longer ones are a mistake in the unit.
const TARGET: Scalar<Duration, (Duration, Duration)> =
    Scalar { bounds: (Duration::from_millis(1), Duration::from_secs(600)), ..TIME };

/// How long the origin may take, where `route` is the class's, and its requests need something of so many slots.
pub(super) fn target(
    At { value: raw, place }: At<TargetKeys>,
    pools: &Pools,
    route: Route,
    resource: Option<&Slots>,
) -> Option<ServiceTarget> {
    let times = [raw.p50, raw.p90, raw.p95, raw.p99];
    let mut targets = Quantile::ALL.into_iter().zip(times);
    let mut given = targets.by_ref().filter_map(|(quantile, time)| Some((quantile, time?)));
    let Some((quantile, time)) = given.next() else {
        // One that is wrong has been reported.
        if !Quantile::ALL.iter().any(|it| place.has(it.name())) {
            place.fault("must have one of p50, p90, p95, p99: write { p99 = \"200ms\" }");
        }
        return None;
    };
    if let Some((other, _)) = given.next() {
        let [one, other] = [quantile, other].map(Quantile::name);
        place.fault_at(other, format!("must be the only quantile: remove it, or {one}"));
        return None;
    }
    // A number is the most that may be in progress, and what is typed in is not moved.
    match resource {
        Some(Slots::Fixed(slots)) => {
            place.fault(format!(
                "has no effect with slots = {slots} of the resource that the class needs: write slots = \"adaptive\" there, or remove this"
            ));
            return None;
        }
        Some(_) => return Some(ServiceTarget { time, quantile }),
        None => {}
    }
    let of = pools.splits.pools_of(route);
    if of.iter().all(|pool| pools.is_all_own(*pool)) {
        place.fault(
            "has no effect where every server of the class's pool has slots of its own: remove those, or this",
        );
        return None;
    }
    let mut of_all = of.into_iter().map(|pool| pools.slots(pool));
    if let Some(Slots::Fixed(slots)) = of_all.next()
        && of_all.all(|slots| matches!(slots, Slots::Fixed(_)))
    {
        place.fault(format!(
            "has no effect with slots = {slots} in the class's pool: write slots = \"adaptive\" there, or remove this"
        ));
        return None;
    }
    Some(ServiceTarget { time, quantile })
}
