//! The page of results: `docs/results.md` and a drawing for each experiment, made from the figures
//! and nothing else. The same results give the same bytes.

mod beside;
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
    for experiment in &results.experiments {
        ensure!(head::is_name(experiment), "no name for a file: {:?}", experiment.name);
    }
    remove_drawings(&drawings)?;
    let mut page = head::head(results);
    for experiment in &results.experiments {
        let link = format!("results/{}.svg", experiment.name);
        let drawing = plot::draw(experiment);
        if let Some(drawing) = &drawing {
            put(&docs.join(&link), drawing)?;
        }
        page += &section::section(experiment, drawing.map(|_| link.as_str()));
    }
    put(&docs.join("results.md"), &(page.trim_end().to_owned() + "\n"))
}

fn put(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn remove_drawings(drawings: &Path) -> Result<()> {
    for entry in fs::read_dir(drawings)? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "svg") {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(())
}
