//! Who is ahead, in sentences made from the figures.

use super::judge::{Comparison, Judged, Overall, Standing, compare, lead};
use super::spread::valid;
use super::words::{self, list, plain, quantity, sentence};
use crate::lab::result::{ContenderResult, ExperimentResult};

/// What a cell of the summary says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Compared(Overall),
    /// The peer took no part, or had no valid round.
    LeftOut,
    /// Tiergate itself has no figures here.
    NoTiergate,
}

impl Cell {
    /// A mark, for those who look for the odd one out, and a word.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Compared(Overall::Ahead) => "▲ ahead",
            Self::Compared(Overall::Level) => "= level",
            Self::Compared(Overall::Behind) => "▼ **behind**",
            Self::Compared(Overall::Mixed) => "◆ **mixed**",
            Self::LeftOut => "–",
            Self::NoTiergate => "no figures",
        }
    }
}

/// Where Tiergate stands against a contender.
pub(super) fn cell(experiment: &ExperimentResult, peer: &str) -> Cell {
    let Some(peer) = experiment.contender(peer) else {
        return Cell::LeftOut;
    };
    let has_figures = |tiergate: &&ContenderResult| valid(tiergate).next().is_some();
    match experiment.contender("tiergate").filter(has_figures) {
        Some(tiergate) => compare(&experiment.measures, tiergate, peer)
            .map_or(Cell::LeftOut, |comparison| Cell::Compared(comparison.overall)),
        None => Cell::NoTiergate,
    }
}

/// The list of an experiment: a sentence for each contender that could be compared, the author's
/// remarks after it.
pub(super) fn verdicts(experiment: &ExperimentResult) -> String {
    let Some(tiergate) = experiment.contender("tiergate") else {
        return "Tiergate has no figures here, so there is no comparison.\n".into();
    };
    let mut out = String::new();
    for peer in experiment.contenders.iter().filter(|c| c.name != "tiergate") {
        let comparison = compare(&experiment.measures, tiergate, peer);
        let remark = experiment.remarks.get(&peer.name).map(|remark| sentence(remark));
        let said = comparison.map(|comparison| against(&peer.name, &comparison));
        let parts: Vec<String> = [said, remark].into_iter().flatten().collect();
        if !parts.is_empty() {
            let name = plain(words::contender(&peer.name));
            out += &format!("- **{name}:** {}\n", parts.join(" "));
        }
    }
    if let Some(remark) = experiment.remarks.get("tiergate") {
        out += &format!("- **Tiergate:** {}\n", sentence(remark));
    }
    out
}

/// In which measures Tiergate is behind, for the list under the summary; `None`: in none.
pub(super) fn shortfall(experiment: &ExperimentResult, peer: &str) -> Option<String> {
    let [tiergate, peer] = ["tiergate", peer].map(|name| experiment.contender(name));
    let behind = figures(&compare(&experiment.measures, tiergate?, peer?)?, Standing::Behind);
    (!behind.is_empty()).then(|| list(&behind))
}

fn against(peer: &str, comparison: &Comparison) -> String {
    let [ahead, behind] =
        [Standing::Ahead, Standing::Behind].map(|standing| list(&figures(comparison, standing)));
    let level = comparison.judged.iter().filter(|j| j.standing == Standing::Level && !j.discounted);
    let level: Vec<String> = level.map(|j| plain(&j.measure.name)).collect();
    let first = match comparison.overall {
        Overall::Ahead => format!("Tiergate is **ahead** in {ahead}"),
        Overall::Behind => format!("Tiergate is **behind** in {behind}"),
        Overall::Mixed => format!("**mixed**: Tiergate is behind in {behind}, ahead in {ahead}"),
        Overall::Level if level.is_empty() => "**level**".into(),
        Overall::Level => format!("**level** in {}", list(&level)),
    };
    let level = match comparison.overall {
        overall if overall == Overall::Level || level.is_empty() => String::new(),
        _ => format!("; level in {}", list(&level)),
    };
    let discounted = comparison.judged.iter().filter(|j| j.discounted);
    let discounted: String = discounted.map(|j| discount(peer, j)).collect();
    format!("{first}{level}.{discounted}")
}

/// `premium answered (99.8 % against 61.2 %)`, for every measure with that standing.
fn figures(comparison: &Comparison, standing: Standing) -> Vec<String> {
    let those = comparison.judged.iter().filter(|j| j.standing == standing);
    those.map(|j| format!("{} ({})", plain(&j.measure.name), both(j).join(" against "))).collect()
}

fn both(judged: &Judged) -> [String; 2] {
    [&judged.tiergate, &judged.peer].map(|spread| quantity(spread.median, judged.measure.unit))
}

fn discount(peer: &str, judged: &Judged) -> String {
    let [ours, theirs] = both(judged);
    let name = plain(&judged.measure.name);
    let peer = plain(words::contender(peer));
    let whose = match lead(judged.measure.better, judged.peer.median, judged.tiergate.median) {
        lead if lead > 0.0 => format!("{peer}'s {theirs} of {name} do not count against {ours}"),
        _ => format!("Tiergate's {ours} of {name} do not count against {theirs}"),
    };
    format!(" {whose}, because it answered far fewer requests.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    #[test]
    fn every_peer_is_told_about_with_figures() {
        let results = sample::results();
        let text = verdicts(&results.experiments[0]);
        let line = |name: &str| {
            let begin = format!("- **{name}:** ");
            text.lines().find_map(|l| l.strip_prefix(&begin)).expect(name)
        };
        assert!(
            line("Envoy").starts_with("Tiergate is **ahead** in premium answered (99.8 % against")
        );
        let nginx = line("nginx");
        let expected = "nginx's 97.0 ms of premium p99 do not count against 182 ms, because it answered far fewer requests.";
        assert!(nginx.contains(expected), "{nginx}");
        assert!(nginx.ends_with("It cannot tell premium from basic once its limit is full."));
        assert!(!text.contains("mod_qos"), "who is left out cannot be compared");
    }

    #[test]
    fn being_behind_is_said_plainly() {
        let results = sample::results();
        let spike = &results.experiments[1];
        assert_eq!(cell(spike, "haproxy"), Cell::Compared(Overall::Behind));
        let text = verdicts(spike);
        let expected = "- **HAProxy:** Tiergate is **behind** in people's p99 during the spike (140 ms against 81.0 ms); level in";
        assert!(text.contains(expected), "{text}");
        let short = shortfall(spike, "haproxy").unwrap();
        assert_eq!(short, "people's p99 during the spike (140 ms against 81.0 ms)");
        assert_eq!(shortfall(&results.experiments[0], "envoy"), None);
    }

    #[test]
    fn without_tiergate_there_is_nothing_to_say() {
        let mut results = sample::results();
        let first = &mut results.experiments[0];
        assert_eq!(cell(first, "mod_qos"), Cell::LeftOut);
        first.contenders.retain(|c| c.name != "tiergate");
        assert_eq!(cell(first, "envoy"), Cell::NoTiergate);
        assert!(verdicts(first).contains("no figures"));
    }
}
