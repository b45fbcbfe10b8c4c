//! How an origin answers: properly, or in one of the ways in which servers fail.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// One way to answer. Requests ask for one (`?say=cut`); a whole server can be told one for all.
#[derive(Clone, Copy, Debug, EnumString, Eq, IntoStaticStr, PartialEq, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Say {
    /// The proper answer, after the usual service time.
    Ok,
    /// Half of the answer, then the end of the connection.
    Cut,
    /// The connection is closed without an answer.
    Close,
    /// The connection is reset without an answer.
    Reset,
    /// Bytes that are no HTTP.
    Garbage,
    /// Half of a head, then silence.
    Stall,
    /// The proper answer, late.
    Slow,
    /// The proper answer, in small pieces.
    Trickle,
    /// Status 503.
    Unavailable,
    /// Status 429.
    TooMany,
    /// The proper answer before the upload is read, of which nothing is read then.
    Early,
    /// Interim answers (102 and 103) before the proper one.
    Interim,
    /// A second answer that no request asked for, together with the proper one.
    Surplus,
    /// A head longer than the gateway accepts.
    LongHead,
    /// A length and chunks at once.
    TwoLengths,
}

impl Say {
    /// Its name in requests.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the client must get the proper answer all the same.
    pub(crate) fn is_proper(self) -> bool {
        matches!(
            self,
            Say::Ok | Say::Slow | Say::Trickle | Say::Early | Say::Interim | Say::Surplus
        )
    }
}

/// Modes of a whole server: those after which its health check fails, too.
pub(crate) const MODES: [Say; 6] =
    [Say::Close, Say::Cut, Say::Garbage, Say::Reset, Say::Unavailable, Say::Stall];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for say in Say::VARIANTS {
            assert_eq!(say.name().parse::<Say>(), Ok(*say));
        }
        assert_eq!(Say::LongHead.name(), "long-head");
    }
}
