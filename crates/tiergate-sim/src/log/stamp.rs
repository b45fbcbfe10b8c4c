//! Times as logs write them.

use super::line::Stamp;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// `17/May/2015:10:05:03 +0000`.
const COMBINED: &[BorrowedFormatItem<'_>] = format_description!(
    version = 2,
    "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] \
     [offset_hour sign:mandatory][offset_minute]"
);

/// `17/May/2015:10:05:03 +0000`.
pub(super) fn combined(text: &str) -> Option<Stamp> {
    let time = OffsetDateTime::parse(text, COMBINED).ok()?;
    Some(Stamp { ns: nanos(time)?, precise: false })
}

/// `2026-11-20T18:23:51.042Z`, or with an offset such as `+01:00`.
pub(super) fn rfc3339(text: &str) -> Option<Stamp> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(Stamp { ns: nanos(time)?, precise: text.contains('.') })
}

/// Since 1970; nothing was logged before.
fn nanos(time: OffsetDateTime) -> Option<u64> {
    time.unix_timestamp_nanos().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_their_zones() {
        let seconds = |stamp: Option<Stamp>| stamp.map(|stamp| (stamp.ns / 1_000_000) as f64 / 1e3);
        assert_eq!(seconds(combined("17/May/2015:10:05:03 +0000")), Some(1_431_857_103.0));
        assert_eq!(seconds(combined("17/May/2015:12:35:03 +0230")), Some(1_431_857_103.0));
        assert_eq!(seconds(combined("29/Feb/2024:00:00:00 -0100")), Some(1_709_168_400.0));
        assert_eq!(seconds(rfc3339("2026-11-20T18:23:51.042Z")), Some(1_795_199_031.042));
        assert_eq!(seconds(rfc3339("2026-11-20T19:23:51+01:00")), Some(1_795_199_031.0));
        for wrong in ["", "17/May/2015", "32/May/2015:10:05:03 +0000", "17/Mai/2015:10:05:03 +0000"]
        {
            assert_eq!(combined(wrong), None, "{wrong}");
        }
        for wrong in
            ["", "2026-11-20", "2026-11-20T18:23:51", "2026-13-20T18:23:51Z", "2026-11-20T1é"]
        {
            assert_eq!(rfc3339(wrong), None, "{wrong}");
        }
    }
}
