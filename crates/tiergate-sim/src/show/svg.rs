//! The report as a drawing: goodput and waits of each class over time, behind each front, on the same
//! scales.

use super::Compared;
use super::chart::round_up;
use super::text::{figure, time_ms};
use crate::report::Report;
use crate::trial::Front;
use std::fmt::Write;

/// Pixels: a panel, and the room around it.
const PANEL: (f64, f64) = (300.0, 170.0);
const LEFT: f64 = 62.0;
const GAP: f64 = 22.0;
const TOP: f64 = 128.0;
const BETWEEN: f64 = 86.0;

/// Steps between marks.
const STEPS: &[f64] = &[1.0, 2.0, 5.0];

/// The colours of Okabe and Ito, which people who see few colours can tell apart; on white, on black.
const COLOURS: [(&str, &str); 8] = [
    ("#0072b2", "#56b4e9"),
    ("#d08700", "#e69f00"),
    ("#008f68", "#2bbf95"),
    ("#b5548a", "#d987b4"),
    ("#c94f00", "#f0703a"),
    ("#7a5c2e", "#c0a16b"),
    ("#7d8590", "#9aa4af"),
    ("#111827", "#ffffff"),
];

/// A whole SVG file.
pub fn svg(it: &Compared) -> String {
    let columns = it.reports.len() as f64;
    let (width, height) = (
        LEFT + columns * PANEL.0 + (columns - 1.0) * GAP + 20.0,
        TOP + 2.0 * PANEL.1 + BETWEEN + 46.0,
    );
    let asked: Vec<usize> = (0..it.classes.len())
        .filter(|class| it.reports.iter().any(|(_, report)| report.class(*class).arrived > 0))
        .collect();
    let mut body = String::new();
    text(&mut body, "title", 16.0, 26.0, "start", &it.title);
    legend(&mut body, it, &asked);
    let rate = |report: &Report, class| -> Vec<Option<f64>> {
        report.series.coarser(2).goodput(class).into_iter().map(Some).collect()
    };
    let wait = |report: &Report, class| report.series.coarser(2).wait_p99_ms(class);
    type Values<'v> = &'v dyn Fn(&Report, usize) -> Vec<Option<f64>>;
    let lines: [(&str, Values<'_>, bool); 2] = [
        ("Good answers, requests/s", &rate, false),
        ("99th percentile of the wait until the server begins, logarithmic", &wait, true),
    ];
    for (row, (what, values, logarithmic)) in lines.into_iter().enumerate() {
        let all = || {
            it.reports.iter().flat_map(|(_, report)| {
                asked.iter().flat_map(move |class| values(report, *class)).flatten()
            })
        };
        let scale = Scale::of(all(), logarithmic);
        let y = TOP + row as f64 * (PANEL.1 + BETWEEN);
        text(&mut body, "head", 16.0, y - 32.0, "start", what);
        for (column, (front, report)) in it.reports.iter().enumerate() {
            let x = LEFT + column as f64 * (PANEL.0 + GAP);
            let title = match front {
                Front::Policy => "policy",
                Front::Fifo => "FIFO with the same limit",
                Front::Nothing => "no gateway",
            };
            text(&mut body, "", x, y - 10.0, "start", title);
            panel(&mut body, (x, y), &scale, report.seconds(), column == 0);
            for class in asked.iter().rev() {
                line(&mut body, (x, y), &scale, &values(report, *class), *class);
            }
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n\
         <style>\n{}</style>\n<rect class=\"bg\" width=\"{width:.0}\" height=\"{height:.0}\"/>\n{body}</svg>\n",
        escaped(&it.title),
        style()
    )
}

/// What each colour is, and what became of the class: goodput of the policy and of the others.
fn legend(body: &mut String, it: &Compared, asked: &[usize]) {
    let mut x = 16.0;
    for &class in asked {
        let good: Vec<String> = it
            .reports
            .iter()
            .map(|(_, report)| figure(report.class(class).good as f64 / report.seconds()))
            .collect();
        let words = format!("{}  {}/s", it.classes[class], good.join(" · "));
        put(
            body,
            format_args!(
                r#"<line class="l s{}" x1="{x:.1}" y1="46" x2="{:.1}" y2="46"/>"#,
                class % 8,
                x + 22.0
            ),
        );
        text(body, "", x + 28.0, 50.0, "start", &words);
        x += 28.0 + words.chars().count() as f64 * 6.6 + 26.0;
    }
    let names: Vec<&str> = it
        .reports
        .iter()
        .map(|(front, _)| match front {
            Front::Policy => "policy",
            Front::Fifo => "FIFO",
            Front::Nothing => "no gateway",
        })
        .collect();
    let what = format!("good answers over the whole run: {}", names.join(" · "));
    text(body, "faint", 16.0, 68.0, "start", &what);
}

fn panel(body: &mut String, (x, y): (f64, f64), scale: &Scale, seconds: f64, labelled: bool) {
    let (width, height) = PANEL;
    for &mark in &scale.marks {
        let at = y + height * (1.0 - scale.at(mark));
        put(
            body,
            format_args!(
                r#"<line class="grid" x1="{x:.1}" y1="{at:.1}" x2="{:.1}" y2="{at:.1}"/>"#,
                x + width
            ),
        );
        if labelled {
            text(body, "faint", x - 7.0, at + 4.0, "end", &scale.label(mark));
        }
    }
    put(
        body,
        format_args!(
            r#"<line class="axis" x1="{x:.1}" y1="{0:.1}" x2="{1:.1}" y2="{0:.1}"/>"#,
            y + height,
            x + width
        ),
    );
    let step = round_up(seconds / 5.0, STEPS);
    for n in 0..=(seconds / step + 1e-9) as usize {
        let second = n as f64 * step;
        let at = x + width * second / seconds;
        put(
            body,
            format_args!(
                r#"<line class="axis" x1="{at:.1}" y1="{:.1}" x2="{at:.1}" y2="{:.1}"/>"#,
                y + height,
                y + height + 4.0
            ),
        );
        let unit = if n == 0 { " s" } else { "" };
        let label = format!(
            "{}{unit}",
            if second >= 1000.0 { figure(second) } else { format!("{second}") }
        );
        text(body, "faint", at, y + height + 18.0, "middle", &label);
    }
}

fn line(
    body: &mut String,
    (x, y): (f64, f64),
    scale: &Scale,
    values: &[Option<f64>],
    class: usize,
) {
    let mut d = String::new();
    let mut pen_down = false;
    for (place, value) in values.iter().enumerate() {
        let Some(value) = value else {
            pen_down = false;
            continue;
        };
        let at = x + PANEL.0 * (place as f64 + 0.5) / values.len() as f64;
        let height = y + PANEL.1 * (1.0 - scale.at(*value));
        // A point without neighbours is a short line, or it would not be seen.
        let lone = !pen_down && values.get(place + 1).is_none_or(Option::is_none);
        let letter = if pen_down { 'L' } else { 'M' };
        write!(d, "{letter}{at:.1} {height:.1}").expect("a string takes everything");
        if lone {
            d.push_str("h0.1");
        }
        pen_down = true;
    }
    if !d.is_empty() {
        put(body, format_args!(r#"<path class="l s{}" d="{d}"/>"#, class % 8));
    }
}

struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    marks: Vec<f64>,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let (low, high) =
            values.fold((f64::MAX, 0.0), |(low, high): (f64, f64), it| (low.min(it), high.max(it)));
        if logarithmic {
            // From 0.1 ms, below which nobody waits, to the next power of ten.
            let powers = high.max(10.0).log10().ceil() as i32;
            let lowest = (low.max(0.1).log10().floor() as i32).min(powers - 1);
            let marks = (lowest..=powers).map(|power| 10f64.powi(power)).collect();
            return Scale { low: 10f64.powi(lowest), high: 10f64.powi(powers), logarithmic, marks };
        }
        let step = round_up(high.max(1e-3) / 4.0, STEPS);
        let steps = (high.max(1e-3) / step).ceil();
        let marks = (0..=steps as usize).map(|n| n as f64 * step).collect();
        Scale { low: 0.0, high: steps * step, logarithmic, marks }
    }

    fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.logarithmic { value.max(self.low).ln() } else { value };
        ((place(value) - place(self.low)) / (place(self.high) - place(self.low))).clamp(0.0, 1.0)
    }

    fn label(&self, mark: f64) -> String {
        match self.logarithmic {
            true => time_ms(mark).replace(".00", "").replace(".0", "").replace("0.10", "0.1"),
            false => figure(mark).trim_end_matches(".00").trim_end_matches(".0").to_owned(),
        }
    }
}

fn style() -> String {
    let mut out = String::from(
        "text{font:12px system-ui,-apple-system,'Segoe UI','Noto Sans',sans-serif}\n\
         .title{font-size:15px;font-weight:600}.head{font-weight:600}\n\
         .grid,.axis,.l{fill:none}.l{stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}\n",
    );
    let sheet = |dark: bool| {
        let pick = |light: &'static str, night: &'static str| if dark { night } else { light };
        let mut out = format!(
            ".bg{{fill:{}}}text{{fill:{}}}.faint{{fill:{}}}.grid{{stroke:{}}}.axis{{stroke:{}}}\n",
            pick("#ffffff", "#0d1117"),
            pick("#1f2328", "#e6edf3"),
            pick("#59636e", "#9198a1"),
            pick("#e4e8ec", "#262c36"),
            pick("#9aa4af", "#59636e"),
        );
        for (place, (light, night)) in COLOURS.into_iter().enumerate() {
            let colour = pick(light, night);
            write!(out, ".s{place}{{stroke:{colour}}}").expect("a string takes everything");
        }
        out + "\n"
    };
    out += &sheet(false);
    out + &format!("@media (prefers-color-scheme:dark){{\n{}}}\n", sheet(true))
}

fn text(body: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let words = escaped(words);
    put(
        body,
        format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#
        ),
    );
}

fn put(body: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(body, "{element}").expect("a string takes everything");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
