//! How names and numbers are written.

use super::spread::Spread;
use crate::lab::result::Unit;
use tiergate_draw::number::thousands;

/// A contender as people call it; a name that is not known here stays as it is.
pub(crate) fn contender(name: &str) -> &str {
    match name {
        "none" => "Nothing in front",
        "tiergate" => "Tiergate",
        "fifo" => "Tiergate, FIFO",
        "fixed" => "Tiergate, fixed rates",
        "estimate" => "Tiergate, link estimated",
        "pool" => "Tiergate, fixed pool",
        "rate" => "Tiergate, fixed rate",
        "syn" => "Tiergate, SYNs in the kernel",
        "head" => "Tiergate, requests in the kernel",
        "user" => "Tiergate, not in the kernel",
        "haproxy" => "HAProxy",
        "nginx" => "nginx",
        "apache" | "mod_qos" | "mod-qos" | "modqos" => "Apache mod_qos",
        "envoy" => "Envoy",
        "failsafe" | "failsafe-go" => "failsafe-go",
        other => other,
    }
}

/// What stands behind a number.
pub(crate) fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "%",
        Unit::Ms => "ms",
        Unit::S => "s",
        Unit::Us => "µs",
        Unit::Rate => "/s",
        Unit::Megabits => "Mb/s",
        Unit::Ratio => "×",
    }
}

/// A value without its unit: one decimal for shares, else three significant digits.
pub(crate) fn number(value: f64, unit: Unit) -> String {
    at_precision(value, unit, decimals(value, unit))
}

/// A value with its unit: `99.8 %`; `none` where there is no value.
pub(crate) fn quantity(value: Option<f64>, of: Unit) -> String {
    value.map_or("none".into(), |value| format!("{} {}", number(value, of), unit(of)))
}

/// The median, and ± half the range as precisely as the median, or the range itself where ± would
/// suggest a share above 100 % that no round has; nothing to say about one round.
pub(crate) fn median_and_half(spread: &Spread, unit: Unit) -> (Option<String>, Option<String>) {
    let (Some(median), Some((min, max))) = (spread.median, spread.range) else {
        return (None, None);
    };
    let half = at_precision(spread.half(), unit, decimals(median, unit));
    let half = match half.chars().all(|c| matches!(c, '0' | '.')) {
        true => "±0".into(),
        false if unit == Unit::Share && max <= 1.0 && median + spread.half() > 1.0 + 1e-9 => {
            format!("{}–{}", number(min, unit), number(max, unit))
        }
        false => format!("±{half}"),
    };
    let several = spread.rounds - spread.missing > 1;
    (Some(number(median, unit)), several.then_some(half))
}

/// `a, b and c`.
pub(crate) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// On one line, without what Markdown takes for markup: for what programs have said.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    for letter in one_line(text).chars() {
        match letter {
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '*' | '_' | '`' | '[' | ']' | '|' | '\\' | '~' => out.extend(['\\', letter]),
            letter => out.push(letter),
        }
    }
    out
}

/// On one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ended like a sentence.
pub(crate) fn sentence(text: &str) -> String {
    let text = one_line(text);
    let ended = text.is_empty() || text.ends_with(['.', '!', '?', ':']);
    if ended { text } else { text + "." }
}

fn decimals(value: f64, unit: Unit) -> usize {
    match (unit, value.abs()) {
        (Unit::Share, _) => 1,
        // Times of recovery are counted in whole seconds.
        (Unit::S, value) if (1.0..99.95).contains(&value) => 1,
        // As they will be after rounding: 9.996 is 10.0, not 10.00.
        (_, value) if value < 9.995 => 2,
        (_, value) if value < 99.95 => 1,
        _ => 0,
    }
}

fn at_precision(value: f64, unit: Unit, decimals: usize) -> String {
    let value = if unit == Unit::Share { value * 100.0 } else { value };
    if decimals == 0 && value >= 999.5 {
        return thousands(value.round() as u64);
    }
    let text = format!("{value:.decimals$}");
    // A rounded negative nothing is nothing.
    let nothing = text.starts_with('-') && text.chars().all(|c| matches!(c, '-' | '0' | '.'));
    if nothing { text[1..].into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::result::Better;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        assert_eq!(number(0.9984, Unit::Share), "99.8");
        assert_eq!(number(1.0312, Unit::Share), "103.1");
        assert_eq!(number(-0.0001, Unit::Share), "0.0");
        assert_eq!(number(0.84, Unit::Ms), "0.84");
        assert_eq!(number(9.996, Unit::Ms), "10.0");
        assert_eq!(number(412.4, Unit::Ms), "412");
        assert_eq!(number(1234.5, Unit::Rate), "1,235");
        assert_eq!(quantity(Some(41.23), Unit::Ms), "41.2 ms");
        assert_eq!(quantity(None, Unit::Ms), "none");
        assert_eq!(quantity(Some(6.43), Unit::Megabits), "6.43 Mb/s");
    }

    #[test]
    fn the_spread_is_as_precise_as_the_median() {
        let of = |rounds: &[f64]| {
            let rounds: Vec<_> = rounds.iter().copied().map(Some).collect();
            median_and_half(&Spread::of(&rounds, Better::Lower).unwrap(), Unit::Ms)
        };
        assert_eq!(of(&[180.0, 182.2, 190.0]), (Some("182".into()), Some("±5".into())));
        assert_eq!(of(&[41.0, 41.2, 41.4]), (Some("41.2".into()), Some("±0.2".into())));
        assert_eq!(of(&[41.0, 41.0]), (Some("41.0".into()), Some("±0".into())));
        assert_eq!(of(&[41.0]), (Some("41.0".into()), None));
    }

    #[test]
    fn no_spread_suggests_more_than_everything() {
        let of = |rounds: [f64; 3]| {
            let spread = Spread::of(&rounds.map(Some), Better::Higher).unwrap();
            median_and_half(&spread, Unit::Share).1.unwrap()
        };
        assert_eq!(of([0.914, 1.0, 1.0]), "91.4–100.0");
        assert_eq!(of([0.9999, 1.0, 1.0]), "±0");
        assert_eq!(of([0.9, 0.92, 0.96]), "±3.0");
        assert_eq!(of([0.98, 1.02, 1.04]), "±3.0", "goodput may be above the capacity");
    }

    #[test]
    fn sentences_and_lists() {
        let words = ["a", "b", "c"].map(String::from);
        assert_eq!(list(&words), "a, b and c");
        assert_eq!(list(&words[..1]), "a");
        assert_eq!(sentence(" it\n failed "), "it failed.");
        assert_eq!(sentence("it failed!"), "it failed!");
        assert_eq!(plain("cannot\nfind `a|b` <c>"), "cannot find \\`a\\|b\\` &lt;c>");
    }
}
