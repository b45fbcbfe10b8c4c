//! README's figures follow from what was measured: a test.
//!
//! A figure is a number with a unit, outside code. Its source is named by a comment, which a reader of the page does not see:
//! `<!-- result: EXPERIMENT CONTENDER "MEASURE" -->` right after a figure, or `<!-- figures from FILE -->` in a paragraph, a list item, or by
//! itself before a table. What was never measured is listed in `readme.toml`.

use super::page::spread::Spread;
use super::page::words;
use super::result::{Results, Unit};
use serde::Deserialize;
use std::path::Path;

/// Units that make a number a figure; longer ones first.
const UNITS: [&str; 11] =
    ["requests/s", "bytes", "times", "Mb/s", "KiB", "MiB", "ms", "µs", "s", "%", "×"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    given: Vec<NotMeasured>,
}

/// A figure that is set, chosen or promised.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotMeasured {
    text: String,
    why: String,
}

/// A number as it is written, its unit, and where it ends.
#[derive(Clone, Debug, PartialEq)]
struct Figure<'a> {
    number: &'a str,
    unit: &'a str,
    end: usize,
}

impl Figure<'_> {
    fn words(&self) -> String {
        format!("{} {}", self.number, self.unit)
    }
}

/// The figures of a text, in their order.
fn figures(text: &str) -> Vec<Figure<'_>> {
    numbers(text).into_iter().filter_map(|(number, end)| with_unit(text, number, end)).collect()
}

fn with_unit<'a>(text: &'a str, number: &'a str, end: usize) -> Option<Figure<'a>> {
    let rest = &text[end..];
    let after = rest.strip_prefix([' ', '\u{a0}', '\n']).unwrap_or(rest);
    let unit = UNITS.into_iter().find(|unit| {
        let beyond = after.strip_prefix(*unit);
        beyond.is_some_and(|beyond| !beyond.starts_with(|c: char| c.is_alphanumeric()))
    })?;
    let end = text.len() - after.len() + unit.len();
    Some(Figure { number, unit: &after[..unit.len()], end })
}

/// The numbers of a text and where they end: digits, with commas and a point between; not parts of a word, an address or a version.
fn numbers(text: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find(|c: char| c.is_ascii_digit()).map(|place| at + place) {
        let length = text[begin..].find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ','));
        let whole = &text[begin..length.map_or(text.len(), |length| begin + length)];
        at = begin + whole.len();
        let number = whole.trim_end_matches(['.', ',']);
        let before = text[..begin].chars().next_back();
        let alone = !before.is_some_and(|c| c.is_alphanumeric() || "./:-_".contains(c));
        if alone && number.matches('.').count() < 2 {
            found.push((number, begin + number.len()));
        }
    }
    found
}

/// Whether a value is that number once it is rounded to its decimals.
fn rounds_to(value: f64, number: &str) -> bool {
    let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{value:.decimals$}") == number.replace(',', "")
}

/// What is wrong with the figures of a text; `read` gives the text of a file.
fn faults(
    readme: &str,
    results: &Results,
    given: &[NotMeasured],
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut from_before: Option<String> = None;
    for block in blocks(&without_code(readme)) {
        let source = between(&block, "<!-- figures from ", " -->").map(str::to_owned);
        let alone = source.is_some() && block.trim().starts_with("<!--");
        let source = source.or(from_before.take());
        if alone {
            from_before = source;
            continue;
        }
        let text = source.as_ref().map(|file| (file, read(file)));
        let is_table = block.starts_with('|');
        match text {
            Some((file, None)) => faults.push(format!("no file {file}")),
            Some((file, Some(text))) if is_table => {
                let rows = block.lines().filter(|row| row.contains(|c: char| c.is_ascii_digit()));
                let missing = rows.filter(|row| !text.lines().any(|line| line == *row));
                faults.extend(missing.map(|row| format!("not in {file}: {row}")));
            }
            Some((file, Some(text))) => {
                let known = |figure: &Figure<'_>| {
                    numbers(&text).iter().any(|(number, _)| {
                        let value = number.replace(',', "").parse();
                        value.is_ok_and(|value| rounds_to(value, figure.number))
                    })
                };
                let missing = figures(&block).into_iter().filter(|figure| !known(figure));
                faults.extend(missing.map(|figure| format!("not in {file}: {}", figure.words())));
            }
            None => faults.extend(of_results(&block, results, given)),
        }
    }
    faults
}

/// What is wrong with the figures of a block that names no file.
fn of_results(block: &str, results: &Results, given: &[NotMeasured]) -> Vec<String> {
    let fault = |figure: &Figure<'_>| {
        let words = figure.words();
        let Some(marker) = block[figure.end..].strip_prefix("<!-- result: ") else {
            let is_given = given.iter().any(|given| given.text == words);
            return (!is_given).then(|| format!("no source: {words}"));
        };
        let marker = marker.split(" -->").next().unwrap_or_default();
        let Some((value, unit)) = result(marker, results) else {
            return Some(format!("no such result: {marker}"));
        };
        let value = if unit == Unit::Share { value * 100.0 } else { value };
        let same = rounds_to(value, figure.number) && words::unit(unit) == figure.unit;
        (!same).then(|| format!("{words}, but {marker} is {value} {}", words::unit(unit)))
    };
    figures(block).iter().filter_map(fault).collect()
}

/// The median that a marker names.
fn result(marker: &str, results: &Results) -> Option<(f64, Unit)> {
    let (names, measure) = marker.split_once(" \"")?;
    let (experiment, contender) = names.split_once(' ')?;
    let experiment = results.experiments.iter().find(|e| e.name == experiment)?;
    let measure = measure.strip_suffix('"')?;
    let place = experiment.measures.iter().position(|m| m.name == measure)?;
    let measure = &experiment.measures[place];
    let contender = experiment.contender(contender)?;
    Some((Spread::of_measure(contender, place, measure.better)?.median?, measure.unit))
}

/// Without code blocks and code in a line, which are as long as before in lines.
fn without_code(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        if !inside && !fence {
            let parts = line.split('`').enumerate();
            out.extend(parts.filter(|(place, _)| place % 2 == 0).map(|(_, part)| part));
        }
        out.push('\n');
    }
    out
}

/// Paragraphs, tables and list items.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in text.lines() {
        if line.is_empty() || line.starts_with("* ") {
            blocks.push(String::new());
        }
        if let Some(last) = blocks.last_mut().filter(|_| !line.is_empty()) {
            *last += line;
            last.push('\n');
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(inside, _)| inside)
}

#[test]
fn the_readme_says_what_was_measured() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).ok();
    let text = read("docs/results/results.json").expect("there are results");
    let results: Results = serde_json::from_str(&text).expect("they can be read");
    let given = read("crates/tiergate-lab/readme.toml").expect("there is a list");
    let Given { given } = toml::from_str(&given).expect("it can be read");
    assert!(given.iter().all(|given| !given.why.is_empty()));
    let readme = read("README.md").expect("there is a README");
    let faults = faults(&readme, &results, &given, &read);
    assert!(faults.is_empty(), "README.md:\n{}", faults.join("\n"));
    let unused = given.iter().find(|given| !readme.contains(&given.text));
    assert!(unused.is_none(), "readme.toml: {} is no longer in README.md", unused.unwrap().text);
}

#[test]
fn figures_are_numbers_with_units() {
    let found = |text| figures(text).iter().map(Figure::words).collect::<Vec<_>>();
    assert_eq!(
        found("96.9 % of 1,234 requests/s, 1.5 s."),
        ["96.9 %", "1,234 requests/s", "1.5 s"]
    );
    assert_eq!(found("HAProxy 2.6.12, 127.0.0.1:8080, p99, 4 servers, HTTP/1.1 times"), [""; 0]);
    assert!(rounds_to(96.93, "96.9") && rounds_to(4210.0, "4,210") && !rounds_to(96.96, "96.9"));
}

#[test]
fn a_figure_that_differs_or_has_no_source_is_a_fault() {
    let results = super::page::tests::sample::results();
    let read = |file: &str| (file == "a.md").then(|| "| a | 7 % |\n\n1.584 times".to_owned());
    let given = [NotMeasured { text: "2 KiB".into(), why: "set".into() }];
    let faults = |text: &str| faults(text, &results, &given, &read);
    let marker = "<!-- result: overload-ramp tiergate \"premium p99\" -->";
    let none = [""; 0];
    assert_eq!(
        faults(&format!("It takes 182 ms{marker}, with 2 KiB. `9 s`\n\n```\n8 s\n```\n")),
        none
    );
    assert_eq!(faults(&format!("It takes 181 ms{marker}.")).len(), 1);
    assert_eq!(faults(&format!("It takes 182 s{marker}.")).len(), 1, "another unit");
    assert_eq!(faults("It takes 182 ms."), ["no source: 182 ms"]);
    assert_eq!(faults("182 ms<!-- result: overload-ramp nobody \"premium p99\" -->").len(), 1);
    assert_eq!(faults("* 1.58 times<!-- figures from a.md -->\n* 3 s"), ["no source: 3 s"]);
    assert_eq!(faults("<!-- figures from a.md -->\n\n| a | 7 % |\n"), none);
    assert_eq!(faults("<!-- figures from a.md -->\n\n| a | 8 % |\n"), ["not in a.md: | a | 8 % |"]);
    assert_eq!(faults("1.59 times<!-- figures from a.md -->"), ["not in a.md: 1.59 times"]);
    assert_eq!(faults("1 s<!-- figures from b.md -->"), ["no file b.md"]);
}
