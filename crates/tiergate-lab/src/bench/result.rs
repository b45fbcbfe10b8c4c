//! The figures of a bench, as a table and as JSON.

use super::matrix::Row;
use super::peer::Entry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tiergate_draw::number::thousands;
use tiergate_draw::{Cell, Paint, Range, Table, Tone};

/// Above this a processor has no time left.
const BUSY_FULL: f64 = 0.97;

/// Above this part of the proxy's processor, other programs spoil its caches and its figures: with a
/// compiler beside it a request was seen to cost twice its time.
const FOREIGN_MAX: f64 = 0.1;

/// One measurement of one proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measurement {
    /// Processor time of the proxy per answer, in microseconds.
    pub(super) cpu_us: f64,
    /// Answers a second.
    pub(super) per_second: f64,
    /// Busy part of the proxy's processor, 0.0 to 1.0.
    pub(super) proxy_busy: f64,
    /// Part of that processor that other programs used.
    pub(super) foreign_busy: f64,
    /// Busy part of the processors of load and origin.
    pub(super) load_busy: f64,
}

/// What came of one proxy in one row: its rounds, or why there are none.
pub(super) type Rounds = Result<Vec<Measurement>, String>;

/// One row of the result; the first proxy is compared with each of the others.
pub(super) struct RowResult {
    /// What was measured.
    pub(super) row: Row,
    /// By proxy.
    pub(super) peers: Vec<Rounds>,
}

impl RowResult {
    /// Processor time per answer of a proxy.
    fn cpu_us(&self, place: usize) -> Option<Range> {
        Range::of(self.rounds(place).iter().map(|m| m.cpu_us))
    }

    fn rounds(&self, place: usize) -> &[Measurement] {
        self.peers[place].as_deref().unwrap_or_default()
    }

    fn ratio(&self, place: usize) -> Option<f64> {
        Some(self.cpu_us(0)?.median / self.cpu_us(place)?.median)
    }

    /// One line while the bench runs.
    pub(super) fn line(&self, entries: &[Entry]) -> String {
        let mut out = format!("  {:<14}", self.row.name);
        for (place, entry) in entries.iter().enumerate() {
            let cost = self.cpu_us(place).map(|range| format!("{:.1} µs", range.median));
            out += &format!("  {} {:>8}", entry.name, cost.as_deref().unwrap_or("-"));
        }
        out
    }

    fn to_json(&self, entries: &[Entry]) -> Value {
        let peer = |rounds: &Rounds| match rounds {
            Err(why) => json!({ "error": why }),
            Ok(rounds) => {
                let range = Range::of(rounds.iter().map(|m| m.cpu_us));
                let list = |value: fn(&Measurement) -> f64| -> Vec<f64> {
                    rounds.iter().map(value).collect()
                };
                json!({
                    "cpu_us_median": range.map(|r| r.median),
                    "cpu_us_min": range.map(|r| r.min), "cpu_us_max": range.map(|r| r.max),
                    "cpu_us": list(|m| m.cpu_us),
                    "requests_per_second": list(|m| m.per_second),
                    "proxy_processor_busy": list(|m| m.proxy_busy),
                    "proxy_processor_used_by_others": list(|m| m.foreign_busy),
                    "load_processors_busy": list(|m| m.load_busy),
                })
            }
        };
        let name = |entry: &Entry| entry.name.replace(' ', "_");
        let peers: BTreeMap<String, Value> =
            entries.iter().zip(&self.peers).map(|(it, rounds)| (name(it), peer(rounds))).collect();
        let mut row = json!({
            "name": self.row.name, "connections": self.row.connections, "bytes": self.row.bytes,
            "peers": peers,
        });
        for (place, entry) in entries.iter().enumerate().skip(1) {
            row[format!("ratio_to_{}", name(entry))] = json!(self.ratio(place));
        }
        row
    }
}

/// All rows as JSON.
pub(super) fn to_json(entries: &[Entry], rows: &[RowResult]) -> Value {
    rows.iter().map(|row| row.to_json(entries)).collect()
}

/// All rows as a table, with what a reader must know of them.
pub(super) fn table(entries: &[Entry], rows: &[RowResult], paint: Paint) -> String {
    let names = || entries.iter().map(|entry| entry.name.to_owned());
    let mut head = vec!["<µs of processor time".to_owned()];
    head.extend(names().flat_map(|name| [name, "<[min..max]".into()]));
    head.extend(names().skip(1).map(|name| format!("/{name}")));
    head.extend(names().map(|name| format!("{name}/s")));
    let mut table = Table::new(head.iter().map(String::as_str));
    let mut limited = false;
    for row in rows {
        let mut cells: Vec<Cell> = vec![row.row.name.into()];
        cells.extend((0..entries.len()).flat_map(|place| cpu_cells(row.cpu_us(place))));
        cells.extend((1..entries.len()).map(|place| ratio_cell(row.ratio(place))));
        for place in 0..entries.len() {
            let (cell, by_load) = rate_cell(row.rounds(place));
            limited |= by_load;
            cells.push(cell);
        }
        table.row(cells);
    }
    let mut out = table.render(paint);
    if limited {
        let note = "limited by the load and the origin, not by the proxy";
        out += &paint.tone(Tone::Faint, &format!("  ~ {note}; the time per request is valid\n"));
    }
    let measured = rows.iter().flat_map(|row| row.peers.iter().flatten()).flatten();
    let foreign = measured.map(|m| m.foreign_busy).fold(0.0, f64::max);
    if foreign > FOREIGN_MAX {
        let used = format!("used up to {:.0} % of the proxies' processor", foreign * 100.0);
        out += &paint.tone(Tone::Bad, &format!("  other programs {used}: rough figures\n"));
    }
    for (place, entry) in entries.iter().enumerate() {
        let whys = rows.iter().filter_map(|row| Some((row, row.peers.get(place)?.as_ref().err()?)));
        let whys: Vec<(&RowResult, &String)> = whys.collect();
        // A proxy that is missing is told once, a row that it cannot do with that row.
        let everywhere = whys.len() == rows.len() && whys.windows(2).all(|w| w[0].1 == w[1].1);
        for (row, why) in whys.iter().take(if everywhere { 1 } else { whys.len() }) {
            let place = if everywhere { "every row" } else { row.row.name };
            out += &format!("  {}, {place}: {why}\n", entry.name);
        }
    }
    out
}

fn cpu_cells(range: Option<Range>) -> [Cell; 2] {
    match range {
        None => ["-".into(), "".into()],
        Some(r) => [
            format!("{:.1}", r.median).into(),
            Cell(format!("[{:.1}..{:.1}]", r.min, r.max), Tone::Faint),
        ],
    }
}

fn ratio_cell(ratio: Option<f64>) -> Cell {
    match ratio {
        None => "-".into(),
        Some(ratio) if ratio <= 1.0 => Cell(format!("{ratio:.2}"), Tone::Good),
        Some(ratio) => Cell(format!("{ratio:.2}"), Tone::Plain),
    }
}

/// The rate, and whether the load limited it.
fn rate_cell(rounds: &[Measurement]) -> (Cell, bool) {
    let Some(rate) = Range::of(rounds.iter().map(|m| m.per_second)) else {
        return ("-".into(), false);
    };
    let limited = rounds.iter().any(|m| m.load_busy > BUSY_FULL && m.proxy_busy < BUSY_FULL);
    let mark = if limited { "~" } else { "" };
    (format!("{mark}{}", thousands(rate.median.round() as u64)).into(), limited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Contender;

    fn rounds(cpu_us: &[f64], load_busy: f64) -> Rounds {
        let round = |cpu_us: &f64| Measurement {
            cpu_us: *cpu_us,
            per_second: 50_000.0,
            proxy_busy: 0.8,
            foreign_busy: if load_busy < 0.5 { 0.2 } else { 0.0 },
            load_busy,
        };
        Ok(cpu_us.iter().map(round).collect())
    }

    fn entries() -> Vec<Entry> {
        let all = [Contender::Tiergate, Contender::Haproxy, Contender::Nginx];
        all.map(|kind| Entry { name: kind.name(), kind, program: None }).into()
    }

    fn sample(load_busy: f64) -> RowResult {
        RowResult {
            row: super::super::matrix::ROWS[0],
            peers: vec![
                rounds(&[9.0, 12.0, 10.0], load_busy),
                rounds(&[20.0, 22.0], load_busy),
                Err("not installed".into()),
            ],
        }
    }

    #[test]
    fn medians_and_ratios() {
        let row = sample(0.5);
        let range = row.cpu_us(0).unwrap();
        assert_eq!((range.median, range.min, range.max), (10.0, 9.0, 12.0));
        assert_eq!(row.cpu_us(1).unwrap().median, 21.0);
        assert_eq!(row.ratio(1), Some(10.0 / 21.0));
        assert_eq!(row.ratio(2), None);
        let json = row.to_json(&entries());
        assert_eq!(json["peers"]["nginx"]["error"], "not installed");
        assert_eq!(json["peers"]["tiergate"]["cpu_us_median"], 10.0);
        assert_eq!(json["ratio_to_nginx"], Value::Null);
    }

    #[test]
    fn a_saturated_generator_is_marked_and_a_missing_peer_explained() {
        let text = table(&entries(), &[sample(1.0)], Paint::PLAIN);
        assert!(text.contains("~50,000") && text.contains("limited by the load"), "{text}");
        assert!(text.contains("nginx, every row: not installed"), "{text}");
        let text = table(&entries(), &[sample(0.5)], Paint::PLAIN);
        assert!(!text.contains('~') && !text.contains("other programs"), "{text}");
        let text = table(&entries(), &[sample(0.4)], Paint::PLAIN);
        assert!(text.contains("other programs used up to 20 %"), "{text}");
    }
}
