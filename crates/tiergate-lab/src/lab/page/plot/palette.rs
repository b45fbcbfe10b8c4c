//! Colours and marks: the same contender looks the same in every plot.
//!
//! Tiergate is black (white on dark), thick and never dashed; the others have the colours of Okabe and
//! Ito, which people who see few colours can tell apart, darkened for a white ground. No one is
//! told by colour alone: marks differ, and time plots have a panel for each.
//! A page cannot tell an image which of its own themes is on, so the ground is opaque in both.

use super::svg::{Canvas, Point};
use std::fmt::Write;

/// Colour on white, colour on black.
const COLOURS: [(&str, &str); 8] = [
    ("#111827", "#ffffff"),
    ("#7d8590", "#9aa4af"),
    ("#d08700", "#e69f00"),
    ("#008f68", "#2bbf95"),
    ("#b5548a", "#d987b4"),
    ("#0072b2", "#56b4e9"),
    ("#c94f00", "#f0703a"),
    ("#7a5c2e", "#c0a16b"),
];

/// The place of a contender's colour.
pub(super) fn colour(name: &str) -> usize {
    match name {
        "tiergate" => 0,
        "none" => 1,
        "haproxy" => 2,
        "nginx" => 3,
        "apache" | "mod_qos" | "mod-qos" | "modqos" => 4,
        "envoy" => 5,
        "failsafe" | "failsafe-go" => 6,
        _ => 7,
    }
}

/// The class of a contender's lines.
pub(super) fn stroke(name: &str) -> String {
    format!("l s{}", colour(name))
}

/// The class of the lines from a contender's best to its worst round.
pub(super) fn reach(name: &str) -> String {
    format!("r s{}", colour(name))
}

/// The class of the area between a contender's best and worst round.
pub(super) fn band(name: &str) -> String {
    format!("b f{}", colour(name))
}

/// A contender's mark.
pub(super) fn mark(canvas: &mut Canvas, name: &str, (x, y): Point) {
    let place = colour(name);
    let class = format!("m f{place}");
    let polygon = |r: f64, corners: &[(f64, f64)]| -> Vec<Point> {
        corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect()
    };
    let square = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)];
    let diamond = [(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)];
    let up = [(0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)];
    let down = [(0.0, 1.0), (1.0, -0.8), (-1.0, -0.8)];
    match place {
        0 => canvas.circle(&class, (x, y), 4.5),
        1 => canvas.circle(&format!("o s{place}"), (x, y), 2.6),
        2 => canvas.shape(&class, &polygon(3.2, &square)),
        3 => canvas.shape(&class, &polygon(4.2, &up)),
        4 => canvas.shape(&class, &polygon(4.4, &diamond)),
        5 => canvas.shape(&class, &polygon(4.2, &down)),
        6 => canvas.circle(&class, (x, y), 3.4),
        _ => canvas.shape(&format!("o s{place}"), &polygon(2.8, &square)),
    }
}

/// The style sheet of every plot.
pub(super) fn style() -> String {
    let mut out = String::from(
        "text{font:12px system-ui,-apple-system,'Segoe UI','Noto Sans',sans-serif}\n\
         .title{font-size:13px;font-weight:600}.strong{font-weight:700}.small,.unit{font-size:11px}.unit{font-weight:400}\n\
         .grid,.axis,.phase,.l,.r{fill:none}.phase{stroke-dasharray:2 3}\n\
         .l{stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}.l.s0{stroke-width:3}\n\
         .l.s1{stroke-dasharray:5 4}.r{stroke-width:1.2}.o{stroke-width:1.6}\n\
         .halo{fill:none;stroke-width:5.5;stroke-linejoin:round}.b{opacity:.2;stroke:none}\n",
    );
    let sheet = |dark: bool| {
        let pick = |light: &'static str, night: &'static str| if dark { night } else { light };
        let ground = pick("#ffffff", "#0d1117");
        let mut out = format!(
            ".bg{{fill:{ground}}}.halo,.m{{stroke:{ground}}}.o{{fill:{ground}}}\n\
             text{{fill:{}}}.faint{{fill:{}}}.grid{{stroke:{}}}.axis,.phase{{stroke:{}}}\n",
            pick("#1f2328", "#e6edf3"),
            pick("#59636e", "#9198a1"),
            pick("#e4e8ec", "#262c36"),
            pick("#9aa4af", "#59636e"),
        );
        for (place, (light, night)) in COLOURS.into_iter().enumerate() {
            let colour = pick(light, night);
            write!(out, ".s{place}{{stroke:{colour}}}.f{place}{{fill:{colour}}}")
                .expect("a string takes everything");
        }
        out + "\n"
    };
    out += &sheet(false);
    out += &format!("@media (prefers-color-scheme:dark){{\n{}}}\n", sheet(true));
    out
}
