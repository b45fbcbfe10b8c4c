//! `transmit` of a class: its part of the link that answers leave by.

use super::kind::Scalar;
use super::parts::ROUNDING;
use super::place::At;
use super::section::{Kind, section};
use super::show;
use super::values::{FLAG, POINTS, TIME, points};
use std::time::Duration;
use tiergate_core::classify::score::Points;
use tiergate_core::transmit::Share;

section! {
    /// A class's part of the link that answers leave by. Of each `period` the class has the link for its `slice`, if it has anything to send; what nobody
    /// reserved or used is shared by weight among those with `extra = true`.
    pub(super) struct TransmitKeys {
        /// For how long of each period it has the link; those of all classes must fit: the sum of `slice` / `period` must not exceed 100%.
        slice: Option<Duration> = TIME.optional("none is reserved");
        /// How long a period is.
        /// Why: shorter ones send more evenly; a packet takes 1.2 ms on 10 Mbit/s.
        period: Duration = PERIOD.or("100ms");
        /// Whether it also has its part of what is left. If not, `slice` is also the most that it gets.
        extra: bool = FLAG.or(true);
        /// Its part of what is left, relative to the other classes'; more than 0.
        weight: Points = POINTS.or(1);
    }
}

const PERIOD: Scalar<Duration, (Duration, Duration)> =
    Scalar { bounds: (Share::PERIODS[0], Share::PERIODS[1]), ..TIME };

/// Its part of the link; `reserved`: of which those before have so much.
pub(super) fn share(At { value: raw, place }: At<TransmitKeys>, reserved: &mut f64) -> Share {
    let TransmitKeys { slice, period, extra, weight } = raw;
    if points(weight) == 0.0 {
        place.fault_at("weight", "must be more than 0, or nothing that is left is ever its");
    }
    let slice = slice.unwrap_or_default();
    if slice > period {
        let [slice, period] = [slice, period].map(show::time);
        place.fault_at("slice", format!("must be at most period, \"{period}\", got \"{slice}\""));
    } else if slice.is_zero() && !extra && !place.has("slice") {
        place.missing(
            "slice",
            "without extra = true nothing of it would ever be sent; write slice = \"2ms\"",
        );
    }
    let share = Share { slice, period, extra, weight: points(weight) };
    let before = *reserved;
    *reserved += if slice > period { 0.0 } else { share.part() };
    if *reserved > 1.0 + ROUNDING && before <= 1.0 + ROUNDING {
        let left = show::share((1.0 - before).max(0.0));
        let message = format!(
            "the slices add up to {:.1}% of the link: {left} was left for this one, which takes {}",
            *reserved * 100.0,
            show::share(share.part())
        );
        place.fault_at("slice", message);
    }
    share
}

/// What it has of the link: begins with a comma.
pub(super) fn words(share: &Share) -> String {
    let Share { slice, period, extra, weight } = *share;
    let sure = match slice.is_zero() {
        true => String::new(),
        false => {
            let [slice, period] = [slice, period].map(show::time);
            format!(", has the link for {slice} in {period} ({:.1}%)", share.part() * 100.0)
        }
    };
    match extra {
        true => format!("{sure}, of what is left of the link its part by weight {weight}"),
        false => format!("{sure} and no longer"),
    }
}
