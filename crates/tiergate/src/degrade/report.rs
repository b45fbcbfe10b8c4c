//! What a run did, in tables and as JSON.

use super::answer::{Page, Why};
use super::kind::Kind;
use super::manifest::Entry;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tiergate_draw::number::{figure, thousands};
use tiergate_draw::{Cell, Paint, Table, Tone};

/// Files that could not be made smaller, of which this many are shown, the largest.
const LARGEST: usize = 10;
/// Most files with faults that a table shows; JSON has all.
const SHOWN_MAX: usize = 20;

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Files of the degraded tree.
    pub items: Vec<Item>,
    /// Files, directories and links that were made.
    pub made: usize,
    /// Those that are as they were.
    pub kept: usize,
    /// Those that were removed, as their sources are gone.
    pub removed: usize,
    /// What is not in the degraded tree, or not as it would be, and why.
    pub left_out: Vec<(PathBuf, String)>,
    /// What could not be read or written, and why.
    pub failed: Vec<(PathBuf, String)>,
    /// Whether it ended early.
    pub interrupted: bool,
}

/// A file of the degraded tree.
#[derive(Debug)]
pub struct Item {
    path: PathBuf,
    kind: Kind,
    /// Bytes of the source, and of what was made.
    before: u64,
    after: u64,
    why: Option<Why>,
    page: Page,
}

impl Item {
    pub(super) fn of(path: &Path, entry: &Entry) -> Self {
        let Entry { source, made, why, page, .. } = entry.clone();
        let kind = Kind::of(path);
        Item { path: path.to_owned(), kind, before: source.len, after: made.len, why, page }
    }
}

/// Files of a kind.
#[derive(Clone, Copy, Default)]
struct Sum {
    files: u64,
    before: u64,
    after: u64,
}

impl Sum {
    fn of<'a>(items: impl Iterator<Item = &'a Item>) -> Self {
        items.fold(Sum::default(), |sum, item| Sum {
            files: sum.files + 1,
            before: sum.before + item.before,
            after: sum.after + item.after,
        })
    }

    /// The part that is saved; below 0 if there is more than before.
    fn saved(&self) -> f64 {
        if self.before == 0 { 0.0 } else { 1.0 - self.after as f64 / self.before as f64 }
    }

    fn row(&self, name: &str) -> [Cell; 5] {
        // Rounded first, so that there is no `-0.0%`.
        let saved = format!("{:.1}%", (self.saved() * 1000.0).round() / 10.0 + 0.0);
        let tone = if self.saved() > 0.0 { Tone::Good } else { Tone::Plain };
        let (before, after) = (size(self.before), size(self.after));
        [name.into(), thousands(self.files).into(), before.into(), after.into(), Cell(saved, tone)]
    }
}

impl Report {
    /// For a terminal.
    pub fn text(&self, paint: Paint) -> String {
        let mut table = Table::new(["<kind", "files", "before", "after", "saved"]);
        for (kind, sum) in self.kinds() {
            table.row(sum.row(kind.name()));
        }
        table.row(Sum::of(self.items.iter()).row("all"));
        let mut text = table.render(paint);
        let page = self.page();
        if page != Page::default() {
            text += &format!(
                "\nPages that were changed: {} embedded objects, {} of them left out; {} images load lazily\n",
                thousands(page.objects),
                thousands(page.fewer),
                thousands(page.lazy)
            );
        }
        let did = if self.dry_run { ["would be made", "to remove"] } else { ["made", "removed"] };
        text += &format!(
            "\n{} {}, {} as they were, {} {}\n",
            thousands(self.made as u64),
            did[0],
            thousands(self.kept as u64),
            thousands(self.removed as u64),
            did[1]
        );
        let largest = self.largest();
        if !largest.is_empty() {
            let mut table = Table::new(["size", "<file", "<why"]);
            for item in largest {
                let why = item.why.as_ref().map_or(String::new(), Why::words);
                let why = without_controls(&why);
                table.row([size(item.before), shown(&item.path), why]);
            }
            text += "\nLargest files that are not smaller\n";
            text += &table.render(paint);
        }
        text += &list("Copied as they are", &self.suspect(), Tone::Plain, paint);
        text += &list("Left out", &self.left_out, Tone::Plain, paint);
        text + &list("Failed", &self.failed, Tone::Bad, paint)
    }

    /// For programs. Sizes are in bytes.
    pub fn json(&self) -> Value {
        let sum = |name: &str, sum: Sum| json!({ "kind": name, "files": sum.files, "bytes_before": sum.before, "bytes_after": sum.after });
        let kinds = self.kinds().map(|(kind, it)| sum(kind.name(), it));
        let pairs = |list: &[(PathBuf, String)]| -> Vec<Value> {
            list.iter()
                .map(|(path, why)| json!({ "path": path.to_string_lossy(), "why": why }))
                .collect()
        };
        let largest = self.largest().into_iter().map(|item| {
            let why = item.why.as_ref().map(Why::words);
            json!({ "path": item.path.to_string_lossy(), "bytes": item.before, "why": why })
        });
        json!({
            "dry_run": self.dry_run,
            "interrupted": self.interrupted,
            "made": self.made,
            "kept": self.kept,
            "removed": self.removed,
            "kinds": kinds.collect::<Vec<_>>(),
            "all": sum("all", Sum::of(self.items.iter())),
            "pages": self.page(),
            "largest_not_smaller": largest.collect::<Vec<_>>(),
            "copied_as_they_are": pairs(&self.suspect()),
            "left_out": pairs(&self.left_out),
            "failed": pairs(&self.failed),
        })
    }

    fn kinds(&self) -> impl Iterator<Item = (Kind, Sum)> {
        let sum = |kind| (kind, Sum::of(self.items.iter().filter(|it| it.kind == kind)));
        Kind::ALL.into_iter().map(sum).filter(|(_, sum)| sum.files > 0)
    }

    fn page(&self) -> Page {
        self.items.iter().fold(Page::default(), |sum, item| Page {
            objects: sum.objects + item.page.objects,
            fewer: sum.fewer + item.page.fewer,
            lazy: sum.lazy + item.page.lazy,
        })
    }

    /// The largest files that are no smaller than before. Of pages that is not the purpose.
    fn largest(&self) -> Vec<&Item> {
        let mut items: Vec<&Item> =
            self.items.iter().filter(|it| it.after >= it.before && it.why.is_some()).collect();
        items.sort_by_key(|item| (std::cmp::Reverse(item.before), &item.path));
        items.truncate(LARGEST);
        items
    }

    /// Files that are as they were because something is wrong with them.
    fn suspect(&self) -> Vec<(PathBuf, String)> {
        let why = |item: &Item| {
            let why = item.why.as_ref().filter(|why| why.is_reported())?;
            Some((item.path.clone(), why.words()))
        };
        self.items.iter().filter_map(why).collect()
    }
}

/// Paths with reasons under a title; nothing if there are none.
fn list(title: &str, list: &[(PathBuf, String)], tone: Tone, paint: Paint) -> String {
    if list.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{} ({})\n", paint.tone(tone, title), thousands(list.len() as u64));
    for (path, why) in list.iter().take(SHOWN_MAX) {
        text += &format!("  {}: {}\n", shown(path), without_controls(why));
    }
    match list.len().saturating_sub(SHOWN_MAX) {
        0 => text,
        more => text + &format!("  and {} more: --json has all\n", thousands(more as u64)),
    }
}

/// A path without characters that a terminal would act on.
fn shown(path: &Path) -> String {
    without_controls(&path.to_string_lossy())
}

/// A reason may name a path, or quote what a file has.
fn without_controls(text: &str) -> String {
    let one = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(one).collect()
}

/// A number of bytes as people read it: `12.3 KiB`.
fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let (mut number, mut unit) = (bytes as f64, "B");
    for larger in units {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, larger);
    }
    format!("{} {unit}", figure(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_do_nothing_to_a_terminal() {
        assert_eq!(shown(Path::new("a\n\x1b[31mé.css")), "a\\n\\u{1b}[31mé.css");
        let mut report = Report::default();
        report.failed.push(("a".into(), "/site/\x1b[31m is no directory".into()));
        assert!(!report.text(Paint::PLAIN).contains('\x1b'));
    }

    #[test]
    fn sums_and_lists_are_bounded() {
        let item = |number: u64, why: Option<Why>| Item {
            path: format!("{number:03}.jpg").into(),
            kind: Kind::Jpeg,
            before: 1000 + number,
            after: if why.is_some() { 1000 + number } else { 100 },
            why,
            page: Page::default(),
        };
        let mut report = Report::default();
        report.items.extend((0..30).map(|number| item(number, Some(Why::NotItsType))));
        report.items.push(item(99, None));
        let text = report.text(Paint::PLAIN);
        // The ten largest, and twenty of thirty with a fault.
        assert_eq!(text.matches(".jpg").count(), 30, "{text}");
        assert!(text.contains("029.jpg") && text.contains("3.2%"), "{text}");
        assert!(text.contains("Copied as they are (30)") && text.contains("and 10 more"), "{text}");
        assert_eq!(report.json()["copied_as_they_are"].as_array().map(Vec::len), Some(30));
    }
}
