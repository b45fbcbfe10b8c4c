//! Files that a simulation reads: plain, or compressed by gzip.

use crate::client::{Arrivals, Profile, rates};
use crate::fault::{Fault, Source};
use crate::scenario::Scenario;
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most bytes of a file of rates, unpacked.
const RATES_LEN_MAX: u64 = 64 << 20;

/// Opens a file for reading, through gzip if it begins like that.
///
/// # Errors
/// The operating system's.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(match packed {
        true => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file))),
        false => Box::new(file),
    })
}

/// Reads the files of rates that a scenario names; relative names begin at `base`.
///
/// # Errors
/// The first file that cannot be read or is none, at the scenario's line.
pub fn read_rates(scenario: &mut Scenario, source: Source<'_>, base: &Path) -> Result<(), Fault> {
    for (place, population) in scenario.population.iter_mut().enumerate() {
        let (Arrivals::Poisson { rate: profile }
        | Arrivals::Constant { rate: profile }
        | Arrivals::Sessions { rate: profile, .. }) = &mut population.arrivals
        else {
            continue;
        };
        let Profile::File { rate_file, line_s, scale } = &*profile else {
            continue;
        };
        let way = ["population".into(), place.into(), "arrivals".into(), "rate".into()];
        let wrong = |key: &'static str, message: String| {
            let key = [key.into()];
            source.fault(&[&way[..], &key].concat(), message)
        };
        let positive = |number: f64| number.is_finite() && number > 0.0;
        for (key, number) in [("line_s", *line_s), ("scale", *scale)] {
            if !positive(number) {
                return Err(wrong(key, format!("must be more than 0, got {number}")));
            }
        }
        let path = base.join(rate_file);
        let name = path.display();
        let text = read_text(&path)
            .map_err(|fault| wrong("rate_file", format!("{name} cannot be read: {fault}")))?;
        let rates = rates(&text)
            .map_err(|(line, fault)| wrong("rate_file", format!("{name}:{line}: {fault}")))?;
        let last = [line_s * rates.len() as f64, 0.0];
        let points = rates.iter().enumerate().map(|(n, rate)| [line_s * n as f64, rate * scale]);
        *profile = Profile::Points { points: points.chain([last]).collect(), ramp: false };
    }
    Ok(())
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    // One byte more than allowed tells a file that is too long from one that just fits.
    open(path)?.take(RATES_LEN_MAX + 1).read_to_string(&mut text)?;
    match text.len() as u64 > RATES_LEN_MAX {
        true => Err(io::Error::other(format!("it has more than {RATES_LEN_MAX} bytes"))),
        false => Ok(text),
    }
}
