//! The page of results: `docs/results.md` and a drawing for each experiment, made from the figures
//! and nothing else. The same results give the same bytes.

mod head;
pub(crate) mod judge;
mod plot;
mod section;
pub(crate) mod spread;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod unknown;
mod verdict;
pub(crate) mod words;

use super::result::Results;
use anyhow::{Context, Result, ensure};
use judge::Overall::{Ahead, Behind, Level, Mixed};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tiergate_draw::Table;

/// Who is ahead of whom, in a few lines for a terminal: a row for each experiment.
pub(crate) fn summary(results: &Results) -> Table {
    let mut table =
        Table::new(["<experiment", "<ahead of", "<level with", "<mixed with", "<behind"]);
    for experiment in &results.experiments {
        let peers = experiment.contenders.iter().filter(|c| c.name != "tiergate");
        let compared: Vec<_> =
            peers.map(|peer| (&peer.name, verdict::cell(experiment, &peer.name))).collect();
        let names = |overall| {
            let those =
                compared.iter().filter(|(_, cell)| *cell == verdict::Cell::Compared(overall));
            those.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let cells = [Ahead, Level, Mixed, Behind].map(names);
        table.row([experiment.name.clone()].into_iter().chain(cells));
    }
    table
}

/// Writes `results.md` and `results/NAME.svg` in that directory, and removes drawings in `results`
/// that no longer belong to an experiment.
pub(crate) fn write(results: &Results, docs: &Path) -> Result<()> {
    let drawings = docs.join("results");
    fs::create_dir_all(&drawings).with_context(|| format!("cannot make {}", drawings.display()))?;
    let mut page = head::head(results);
    let mut kept = BTreeSet::new();
    for experiment in &results.experiments {
        ensure!(head::is_name(experiment), "no name for a file: {:?}", experiment.name);
        let file = format!("{}.svg", experiment.name);
        let drawing = plot::draw(experiment);
        if let Some(drawing) = &drawing {
            put(&drawings.join(&file), drawing)?;
            kept.insert(file.clone());
        }
        let link = drawing.map(|_| format!("results/{file}"));
        page += &section::section(experiment, link.as_deref());
    }
    remove_others(&drawings, &kept)?;
    put(&docs.join("results.md"), &(page.trim_end().to_owned() + "\n"))
}

fn put(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn remove_others(drawings: &Path, kept: &BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(drawings)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".svg") && !kept.contains(&name) {
            let file = entry.path();
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(())
}
