//! Colours and the style sheet of every plot.
//!
//! The first colour is black (white on dark), thick and never dashed, for what a plot is about; the
//! second is a dashed grey, for what it is compared with. The others are those of Okabe and Ito, which
//! people who see few colours can tell apart, darkened for a white ground. Nothing is told by colour
//! alone: marks differ, or there is a panel for each.
//! A page cannot tell an image which of its own themes is on, so the ground is opaque in both.

use std::fmt::Write;

/// How many colours there are.
pub const COLOURS: usize = 8;

/// Colour on white, colour on black.
const PALETTE: [(&str, &str); COLOURS] = [
    ("#111827", "#ffffff"),
    ("#7d8590", "#9aa4af"),
    ("#d08700", "#e69f00"),
    ("#008f68", "#2bbf95"),
    ("#b5548a", "#d987b4"),
    ("#0072b2", "#56b4e9"),
    ("#c94f00", "#f0703a"),
    ("#7a5c2e", "#c0a16b"),
];

/// The colour of the series at a place, of series that are alike; in the order of the terminal's.
pub fn series(place: usize) -> usize {
    [5, 2, 3, 4, 6, 7, 1, 0][place % COLOURS]
}

/// The class of lines of a colour.
pub fn stroke(colour: usize) -> String {
    format!("l s{colour}")
}

/// The class of the lines from a point's smallest to its largest value.
pub fn reach(colour: usize) -> String {
    format!("r s{colour}")
}

/// The class of the area between smallest and largest values.
pub fn band(colour: usize) -> String {
    format!("b f{colour}")
}

/// The style sheet.
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
        for (colour, (light, night)) in PALETTE.into_iter().enumerate() {
            let value = pick(light, night);
            write!(out, ".s{colour}{{stroke:{value}}}.f{colour}{{fill:{value}}}")
                .expect("a string takes everything");
        }
        out + "\n"
    };
    out += &sheet(false);
    out + &format!("@media (prefers-color-scheme:dark){{\n{}}}\n", sheet(true))
}
