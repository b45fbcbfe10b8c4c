//! What `docs/lab.md` tells a reader who doubts is where it says: a test.

use std::path::Path;

/// A file and what is said to be in it.
#[derive(Debug, PartialEq)]
struct Reference<'a> {
    file: &'a str,
    symbols: Vec<&'a str>,
}

/// The references of a text: a link to a file of the repository, with symbols in brackets after it.
fn references(text: &str) -> Vec<Reference<'_>> {
    text.split("](../").skip(1).filter_map(reference).collect()
}

/// Of the text after `](../`.
fn reference(text: &str) -> Option<Reference<'_>> {
    let (file, rest) = text.split_once(") (`")?;
    let (symbols, _) = rest.split_once(')')?;
    // Without the first sign, every other part is between two of them.
    let symbols = symbols.split('`').step_by(2).collect::<Vec<_>>();
    let symbols = symbols.into_iter().filter(|symbol| !symbol.is_empty()).collect();
    (!file.contains(')')).then_some(Reference { file, symbols })
}

#[test]
fn a_reader_who_doubts_finds_what_is_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/lab.md")).expect("there is a page");
    let section = page.split("## For a reader who doubts").nth(1).expect("it has a section");
    let (settled, _) = section.split_once("**Not so yet**").expect("it says what is not so");
    for item in settled.split("\n* ").skip(1) {
        assert!(!references(item).is_empty(), "nothing settles: {item}");
    }
    for Reference { file, symbols } in references(settled) {
        let text = std::fs::read_to_string(root.join(file));
        let text = text.unwrap_or_else(|error| panic!("{file}: {error}"));
        for symbol in symbols {
            let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
            let name = symbol.rsplit("::").next().unwrap_or(symbol);
            assert!(words.clone().any(|word| word == name), "{file} has no {symbol}");
        }
    }
}

#[test]
fn references_are_files_with_symbols() {
    let text =
        "* All run: [a.rs](../x/a.rs) (`one`, `m::two`), [b](../b.toml) (`key`). See [c](../c.md).";
    let a = Reference { file: "x/a.rs", symbols: vec!["one", "m::two"] };
    let b = Reference { file: "b.toml", symbols: vec!["key"] };
    assert_eq!(references(text), [a, b]);
}
