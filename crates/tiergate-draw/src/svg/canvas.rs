//! A drawing, element by element. Numbers have one decimal, so that the same figures give the same
//! bytes everywhere.

use super::style::style;
use std::fmt::Write;

/// Where a text stands beside its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred on it.
    Middle,
    /// It ends there.
    End,
}

/// A point in pixels, from the top left.
pub type Point = (f64, f64);

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// To the right.
    pub width: f64,
    /// Downwards.
    pub height: f64,
}

impl Area {
    /// Right edge.
    pub fn right(&self) -> f64 {
        self.x + self.width
    }

    /// Lower edge.
    pub fn bottom(&self) -> f64 {
        self.y + self.height
    }
}

/// The elements drawn so far, later ones over earlier ones. Classes are those of the style sheet.
#[derive(Default)]
pub struct Canvas(String);

impl Canvas {
    /// A filled rectangle.
    pub fn rect(&mut self, class: &str, area: Area) {
        let Area { x, y, width, height } = area;
        self.add(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
        ));
    }

    /// A line from point to point.
    pub fn line(&mut self, class: &str, from: Point, to: Point) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    /// A line through the points.
    pub fn path(&mut self, class: &str, points: &[Point]) {
        let d = path_data(points);
        self.add(format_args!(r#"<path class="{class}" d="{d}"/>"#));
    }

    /// A filled shape with these corners.
    pub fn shape(&mut self, class: &str, corners: &[Point]) {
        let d = path_data(corners);
        self.add(format_args!(r#"<path class="{class}" d="{d}Z"/>"#));
    }

    /// A filled circle.
    pub fn circle(&mut self, class: &str, (x, y): Point, radius: f64) {
        self.add(format_args!(
            r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}"/>"#
        ));
    }

    /// A text at its point.
    pub fn text(&mut self, class: &str, at: Point, anchor: Anchor, text: &str) {
        self.turned_text(class, at, anchor, 0.0, text);
    }

    /// What a panel shows, and more faintly what its values are in.
    pub fn title(&mut self, (x, y): Point, title: &str, faint: &str) {
        let title = escaped(title);
        let faint = match faint {
            "" => String::new(),
            faint => format!(r#"<tspan class="faint unit" dx="6">{}</tspan>"#, escaped(faint)),
        };
        self.add(format_args!(
            r#"<text class="title" x="{x:.1}" y="{y:.1}">{title}{faint}</text>"#
        ));
    }

    /// A text turned by so many degrees, clockwise, about its point.
    pub fn turned_text(
        &mut self,
        class: &str,
        (x, y): Point,
        anchor: Anchor,
        degrees: f64,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let turn = match degrees {
            0.0 => String::new(),
            degrees => format!(r#" transform="rotate({degrees:.0} {x:.1} {y:.1})""#),
        };
        let text = escaped(text);
        self.add(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}"{anchor}{turn}>{text}</text>"#
        ));
    }

    /// The whole file, on an opaque ground. The title is what a screen reader says.
    pub fn finish(self, width: f64, height: f64, title: &str) -> String {
        let (body, title, style) = (self.0, escaped(title), style());
        let mut ground = Self::default();
        ground.rect("bg", Area { x: 0.0, y: 0.0, width, height });
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{title}</title>\n\
             <style>\n{style}</style>\n{}{body}</svg>\n",
            ground.0
        )
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{element}").expect("a string takes everything");
    }
}

/// How wide a text becomes at a size of so many pixels, by the widest font that is usual: no font
/// can be asked.
pub fn text_width(text: &str, size: f64) -> f64 {
    let width = |letter| match letter {
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | 'I' | ' ' | '.' | ',' | '\'' | '-' | '(' | ')' => 0.4,
        'm' | 'w' | 'M' | 'W' | '%' => 0.95,
        'A'..='Z' => 0.72,
        _ => 0.62,
    };
    text.chars().map(width).sum::<f64>() * size
}

fn path_data(points: &[Point]) -> String {
    let mut out = String::new();
    for (place, (x, y)) in points.iter().enumerate() {
        let letter = if place == 0 { 'M' } else { 'L' };
        write!(out, "{letter}{x:.1} {y:.1}").expect("a string takes everything");
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_break_the_file() {
        let mut canvas = Canvas::default();
        canvas.text("t", (1.0, 2.0), Anchor::End, "a < b & \"c\"");
        let file = canvas.finish(10.0, 20.0, "<title>");
        let expected = r#"<text class="t" x="1.0" y="2.0" text-anchor="end">a &lt; b &amp; &quot;c&quot;</text>"#;
        assert!(file.contains(expected), "{file}");
        assert!(file.contains("<title>&lt;title&gt;</title>"), "{file}");
    }

    #[test]
    fn a_path_goes_through_its_points() {
        assert_eq!(path_data(&[(0.0, 1.0), (2.25, 3.0)]), "M0.0 1.0L2.2 3.0");
        assert_eq!(path_data(&[]), "");
    }
}
