//! All plots of an experiment in one drawing, under one legend.

mod look;
mod phases;
mod series;
mod time;

use super::words;
use crate::lab::result::{Along, ExperimentResult, Plot};
use look::colour;
use series::Series;
use tiergate_draw::svg::{Anchor, Area, Canvas, mark, stroke, text_width};

/// As wide as a page on GitHub shows it without shrinking.
const WIDTH: f64 = 860.0;
const MARGIN: f64 = 12.0;
const GAP: f64 = 20.0;

/// Height of a panel by phases.
const PHASES: f64 = 250.0;

/// The drawing as an SVG file; `None`: there is nothing to draw.
pub(crate) fn draw(experiment: &ExperimentResult) -> Option<String> {
    let drawn: Vec<Drawn> = experiment
        .plots
        .iter()
        .enumerate()
        .map(|(place, plot)| Drawn { plot, series: series::of_plot(experiment, place) })
        .filter(|drawn| !drawn.series.is_empty())
        .collect();
    let names = |name: &&str| drawn.iter().any(|d| d.series.iter().any(|s| s.name == **name));
    let names: Vec<&str> =
        experiment.contenders.iter().map(|c| c.name.as_str()).filter(names).collect();
    let mut canvas = Canvas::default();
    let (areas, bottom) = arrange(&drawn, legend_rows(&names) as f64 * 20.0 + MARGIN + 8.0)?;
    legend(&mut canvas, &names);
    for (drawn, area) in drawn.iter().zip(areas) {
        let draw = match drawn.plot.along {
            Along::Phases => phases::draw,
            Along::Time => time::draw,
        };
        draw(&mut canvas, area, drawn.plot, &experiment.phases, &drawn.series);
    }
    Some(canvas.finish(WIDTH, bottom, &experiment.title))
}

struct Drawn<'a> {
    plot: &'a Plot,
    series: Vec<Series>,
}

/// A place for each: by phases two in a row, the last alone if they are odd, by time one in a row;
/// and how far down that goes. `None`: there are none.
fn arrange(drawn: &[Drawn], top: f64) -> Option<(Vec<Area>, f64)> {
    let full = WIDTH - 2.0 * MARGIN;
    let half = (full - GAP) / 2.0;
    let mut areas: Vec<Area> = Vec::new();
    let (mut y, mut open) = (top, false);
    for (place, one) in drawn.iter().enumerate() {
        let by_phases = |d: &Drawn| d.plot.along == Along::Phases;
        let paired = by_phases(one) && (open || drawn.get(place + 1).is_some_and(by_phases));
        let height = if by_phases(one) { PHASES } else { time::height_of(&one.series) };
        let width = if paired { half } else { full };
        let x = if open { MARGIN + half + GAP } else { MARGIN };
        areas.push(Area { x, y, width, height });
        open = paired && !open;
        if !open {
            y += height + GAP;
        }
    }
    (!areas.is_empty()).then_some((areas, y - GAP + MARGIN))
}

/// Where the entries of the legend stand: row and left edge.
fn legend_places(names: &[&str]) -> Vec<(usize, f64)> {
    let (mut row, mut x) = (0, MARGIN);
    let place = |name: &&str| {
        let width = 36.0 + text_width(words::contender(name), 12.0) + 12.0;
        if x + width > WIDTH && x > MARGIN {
            (row, x) = (row + 1, MARGIN);
        }
        x += width;
        (row, x - width)
    };
    names.iter().map(place).collect()
}

fn legend_rows(names: &[&str]) -> usize {
    legend_places(names).last().map_or(0, |(row, _)| row + 1)
}

fn legend(canvas: &mut Canvas, names: &[&str]) {
    for (name, (row, x)) in names.iter().zip(legend_places(names)) {
        let y = MARGIN + 8.0 + row as f64 * 20.0;
        canvas.path(&stroke(colour(name)), &[(x, y), (x + 28.0, y)]);
        mark(canvas, colour(name), (x + 14.0, y));
        let class = if *name == "tiergate" { "strong" } else { "name" };
        canvas.text(class, (x + 35.0, y + 4.0), Anchor::Start, words::contender(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    #[test]
    fn whoever_has_figures_is_in_the_legend() {
        let results = sample::results();
        let drawing = draw(&results.experiments[0]).unwrap();
        for contender in &results.experiments[0].contenders {
            let entry = format!(">{}</text>", words::contender(&contender.name));
            assert_eq!(drawing.contains(&entry), contender.left_out.is_none(), "{entry}");
        }
        assert!(
            drawing.contains("Premium p99 latency<tspan class=\"faint unit\" dx=\"6\">(ms, log")
        );
        assert!(drawing.contains("prefers-color-scheme:dark"));
    }

    #[test]
    fn phases_are_marked_and_gaps_are_not_bridged() {
        let mut results = sample::results();
        let spike = &mut results.experiments[1];
        let drawing = draw(spike).unwrap();
        // Two lines between three phases, in six panels of each of the two plots.
        assert_eq!(drawing.matches("class=\"phase\"").count(), 2 * 6 * 2);
        // Without anything in front, nobody is answered for a while in the second plot.
        let lines = |drawing: &str| drawing.matches("<path class=\"l s1\"").count();
        assert_eq!(lines(&drawing), 1 + 1 + 2);
        spike.contenders.remove(0);
        assert_eq!(lines(&draw(spike).unwrap()), 0);
        spike.contenders.clear();
        assert_eq!(draw(spike), None);
    }

    #[test]
    fn panels_do_not_overlap_and_stay_inside() {
        let results = sample::results();
        let plots = [0, 0, 1, 0, 1, 0, 0, 0].map(|n| &results.experiments[n]);
        let drawn: Vec<Drawn> = plots
            .iter()
            .map(|e| Drawn { plot: &e.plots[0], series: series::of_plot(e, 0) })
            .collect();
        let (areas, bottom) = arrange(&drawn, 40.0).unwrap();
        for (place, area) in areas.iter().enumerate() {
            assert!(area.x >= 0.0 && area.right() <= WIDTH && area.bottom() <= bottom, "{area:?}");
            for other in &areas[..place] {
                let beside = other.right() <= area.x || other.bottom() <= area.y;
                assert!(beside, "{other:?} {area:?}");
            }
        }
        assert_eq!(areas.iter().filter(|a| a.width < WIDTH / 2.0).count(), 4);
    }

    #[test]
    fn a_long_legend_goes_on_in_the_next_row() {
        let names = ["none", "tiergate", "haproxy", "nginx", "apache", "envoy", "failsafe-go"];
        assert_eq!(legend_rows(&names), 1);
        let twice = [names, names].concat();
        assert_eq!(legend_rows(&twice), 2);
        for (name, (_, x)) in twice.iter().zip(legend_places(&twice)) {
            assert!(x + 35.0 + text_width(words::contender(name), 12.0) <= WIDTH, "{name}");
        }
    }
}
