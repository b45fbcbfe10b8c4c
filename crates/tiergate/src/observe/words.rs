//! Numbers for people: short, of bounded width.

/// A duration in seconds, in at most 6 letters: `380µs`, `1.2ms`, `45ms`, `1.2s`, `2m05s`, `3h07m`.
pub fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    // Each bound is where rounding would need one letter more.
    match seconds {
        s if s < 0.000_000_5 => "0".to_owned(),
        s if s < 0.000_999_5 => format!("{:.0}µs", s * 1e6),
        s if s < 0.009_95 => format!("{:.1}ms", s * 1e3),
        s if s < 0.999_5 => format!("{:.0}ms", s * 1e3),
        s if s < 9.95 => format!("{s:.1}s"),
        s if s < 99.5 => format!("{s:.0}s"),
        s if s < 3_599.5 => format!("{}m{:02}s", whole / 60, whole % 60),
        s if s < 86_400.0 => format!("{}h{:02}m", whole / 3_600, whole / 60 % 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole / 3_600 % 24),
    }
}

/// A rate per second, in at most 5 letters: `0`, `0.4`, `38`, `9120`, `12.3k`, `150k`.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r < 0.05 => "0".to_owned(),
        r if r < 9.95 => format!("{r:.1}"),
        r if r < 9_999.5 => format!("{r:.0}"),
        r if r < 99_950.0 => format!("{:.1}k", r / 1e3),
        r if r < 999_500.0 => format!("{:.0}k", r / 1e3),
        r => format!("{:.1}M", r / 1e6),
    }
}

/// Why the limit changed, by the name of its cause; a name that is not known here as it is.
pub fn cause(name: &str) -> String {
    match name {
        "grew" => "more at once gives more throughput".to_owned(),
        "shrank" => "fewer at once give as much throughput".to_owned(),
        "probed" => "a probe above or below the limit".to_owned(),
        "failures" => "nearly every request took too long, or its client left".to_owned(),
        "pushback" => {
            "the origin refuses requests when so many are in progress, or one more is tried"
                .to_owned()
        }
        "reload" => "the configuration changed it".to_owned(),
        "adjusted" => "a controller changed its bounds".to_owned(),
        "target" => "a class's service target".to_owned(),
        "unused" => "more were not needed for a while".to_owned(),
        other => harmless(other).replace('_', " "),
    }
}

/// The text cut to `width` letters; a cut shows as `…`.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    if width == 0 { kept } else { kept + "…" }
}

/// The text with control characters (and what turns writing round) shown as `·`, for a terminal:
/// paths and names come from strangers.
pub fn harmless(text: &str) -> String {
    let turns = |letter| matches!(letter, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|letter| if letter.is_control() || turns(letter) { '·' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::control::Cause;

    #[test]
    fn spans_stay_short_at_every_bound() {
        for (seconds, text) in [
            (0.0, "0"),
            (0.000_38, "380µs"),
            (0.000_999_6, "1.0ms"),
            (0.009_96, "10ms"),
            (0.045, "45ms"),
            (0.999_6, "1.0s"),
            (59.6, "60s"),
            (125.0, "2m05s"),
            (3_599.6, "1h00m"),
            (11_220.0, "3h07m"),
            (90_000.0, "1d01h"),
        ] {
            assert_eq!(span(seconds), text);
        }
        let mut seconds = 1e-7;
        while seconds < 1e6 {
            assert!(span(seconds).chars().count() <= 6, "{seconds}: {}", span(seconds));
            seconds *= 1.01;
        }
    }

    #[test]
    fn rates_stay_short() {
        let shown = [0.0, 0.42, 9.96, 38.2, 9_999.6, 12_345.0, 99_960.0, 2e6].map(rate);
        assert_eq!(shown, ["0", "0.4", "10", "38", "10.0k", "12.3k", "100k", "2.0M"]);
    }

    #[test]
    fn causes_of_this_version_have_words_and_others_their_name() {
        for known in [
            Cause::Grew,
            Cause::Shrank,
            Cause::Probed,
            Cause::Failures,
            Cause::Pushback,
            Cause::Target,
            Cause::Unused,
            Cause::Reload,
            Cause::Adjusted,
        ] {
            assert!(cause(known.name()).contains(' '), "{known:?}");
        }
        assert_eq!(cause("looked_lower"), "looked lower");
    }

    #[test]
    fn texts_are_cut_and_made_harmless() {
        assert_eq!(cut("prefetch", 8), "prefetch");
        assert_eq!(cut("prefetches", 8), "prefetc…");
        assert_eq!(cut("ab", 0), "");
        assert_eq!(harmless("/a\x1b[31m\u{9b}b\u{202e}"), "/a·[31m·b·");
    }
}
