//! What a request is known by: its id, and its place in a distributed trace.
//!
//! Peers whose word is not trusted can neither choose the id of a request in logs, nor have traces exported by asking for it.
//! Source: W3C Trace Context, <https://www.w3.org/TR/trace-context/>.

/// Longest request id that is taken from a peer, in bytes.
pub const REQUEST_ID_LEN_MAX: usize = 128;

/// The bit of [`TraceParent::flags`] that says that the sender may have recorded the request.
const SAMPLED: u8 = 0b01;
/// The bit that says that the trace id is random (level 2 of the specification).
const RANDOM: u8 = 0b10;

/// Whether a request id can be taken as it is: 1 to [`REQUEST_ID_LEN_MAX`] letters, digits and `-_.:;,=+/@`. Nothing of it needs to be
/// escaped in a log, a header or a URL's path.
pub fn is_request_id(value: &[u8]) -> bool {
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:;,=+/@".contains(byte);
    (1..=REQUEST_ID_LEN_MAX).contains(&value.len()) && value.iter().all(is_safe)
}

/// What `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; not 0.
    pub trace: u128,
    /// The span of the sender; not 0.
    pub span: u64,
    /// Flags; those that are not known are 0.
    pub flags: u8,
}

impl TraceParent {
    /// Whether the sender may have recorded the request.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Flags of which only those are left that are known.
    pub fn known_flags(flags: u8) -> u8 {
        flags & (SAMPLED | RANDOM)
    }
}

/// Whose traces are continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continues {
    /// Those of trusted peers; others' requests begin traces anew.
    Trusted,
    /// Everyone's. Whether a request is sampled is decided here all the same, unless the peer is trusted.
    All,
}

/// How requests are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// The share of requests that is sampled where no trusted peer has decided: 0.0 to 1.0.
    pub share: f64,
    /// Whose traces are continued.
    pub continues: Continues,
}

/// A request's place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The trace.
    pub id: u128,
    /// The span of the sender, if its trace is continued.
    pub parent: Option<u64>,
    /// The gateway's span for the whole request.
    pub span: u64,
    /// The gateway's span for its time at the origin.
    pub origin_span: u64,
    /// Whether the spans are exported.
    pub is_sampled: bool,
    /// What the origin is told.
    pub told: TraceParent,
}

/// Decides on a request's place. `given`: what a valid `traceparent` says; `trusted`: whether the peer that sent it is; `draw` gives random numbers.
///
/// A trusted peer's decision whether the request is sampled holds. Where a trace is continued that nobody records, the origin gets what the peer
/// sent: no span of the gateway is missing between the two then.
pub fn place(
    sampling: Sampling,
    given: Option<TraceParent>,
    trusted: bool,
    mut draw: impl FnMut() -> u64,
) -> Trace {
    let given = given.filter(|_| trusted || sampling.continues == Continues::All);
    let is_sampled = match given {
        Some(given) if trusted => given.is_sampled(),
        // 53 bits are what a fraction holds.
        _ => ((draw() >> 11) as f64) < sampling.share * (1u64 << 53) as f64,
    };
    let mut new_span = || draw().max(1);
    let (span, origin_span) = (new_span(), new_span());
    let id = match given {
        Some(given) => given.trace,
        None => (u128::from(new_span()) << 64) | u128::from(new_span()),
    };
    let flags = given.map_or(RANDOM, |given| given.flags & RANDOM);
    let told = match given {
        Some(given) if !is_sampled && !given.is_sampled() => given,
        _ => TraceParent { trace: id, span: origin_span, flags: flags | u8::from(is_sampled) },
    };
    Trace { id, parent: given.map(|given| given.span), span, origin_span, is_sampled, told }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: TraceParent = TraceParent { trace: 7 << 64, span: 9, flags: SAMPLED };

    fn draws() -> impl FnMut() -> u64 {
        let mut state = 1u64;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state
        }
    }

    fn sampling(share: f64, continues: Continues) -> Sampling {
        Sampling { share, continues }
    }

    #[test]
    fn ids_are_short_and_need_no_escape() {
        for good in ["a", "0af76519-16cd", "Root=1-67891233-abcdef;Parent=53;Sampled=0", "a/b:c@d"]
        {
            assert!(is_request_id(good.as_bytes()), "{good}");
        }
        for bad in ["", "a b", "a\"b", "a\\b", "<a>", "a\nb", "ä", &"a".repeat(129)] {
            assert!(!is_request_id(bad.as_bytes()), "{bad}");
        }
        assert!(is_request_id(&[b'a'; REQUEST_ID_LEN_MAX]));
    }

    #[test]
    fn a_trusted_peers_trace_and_decision_are_continued() {
        for share in [0.0, 1.0] {
            let sampling = sampling(share, Continues::Trusted);
            let trace = place(sampling, Some(GIVEN), true, draws());
            assert_eq!((trace.id, trace.parent, trace.is_sampled), (7 << 64, Some(9), true));
            let told = TraceParent { trace: 7 << 64, span: trace.origin_span, flags: SAMPLED };
            assert_eq!(trace.told, told);
            assert_ne!(trace.span, trace.origin_span);
            let unsampled = TraceParent { flags: RANDOM, ..GIVEN };
            let trace = place(sampling, Some(unsampled), true, draws());
            assert_eq!((trace.is_sampled, trace.told), (false, unsampled));
        }
    }

    #[test]
    fn a_stranger_begins_anew_and_forces_nothing() {
        let trace = place(sampling(0.0, Continues::Trusted), Some(GIVEN), false, draws());
        assert!(trace.id != GIVEN.trace && trace.parent.is_none() && !trace.is_sampled);
        assert_eq!(trace.told.flags, RANDOM);
        let trace = place(sampling(0.0, Continues::All), Some(GIVEN), false, draws());
        assert_eq!((trace.id, trace.parent, trace.is_sampled), (7 << 64, Some(9), false));
        // The flag changes, so the span does (§3.4).
        assert!(!trace.told.is_sampled() && trace.told.span != GIVEN.span);
    }

    #[test]
    fn the_share_is_what_is_sampled() {
        for (share, from, to) in [(0.0, 0, 0), (0.1, 900, 1100), (1.0, 10_000, 10_000)] {
            let mut draw = draws();
            let traces = (0..10_000)
                .map(|_| place(sampling(share, Continues::Trusted), None, false, &mut draw));
            let sampled = traces.filter(|trace| trace.is_sampled).count();
            assert!((from..=to).contains(&sampled), "{share}: {sampled}");
        }
    }
}
