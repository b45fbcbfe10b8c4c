//! Access logs: what was asked for, by whom, when, and how long it took.
//!
//! | format | how it is known |
//! |---|---|
//! | Tiergate's own, JSON | the line begins with `{` |
//! | common, combined (Apache, nginx), with the virtual host before it or not | otherwise |
//! | Tiergate's own, combined | a verdict stands among the fields behind the user agent |
//!
//! How long a request took is told by Tiergate's formats (without the time in the queue), by a single
//! number behind the user agent (`%D` of Apache: whole microseconds; `$request_time` of nginx: seconds
//! with decimals) or by `rt=` or `request_time=` there. It says what the server needed only if the
//! server was not overloaded then.

mod combined;
mod json;
mod line;
pub mod replay;
mod stamp;

pub use line::{Line, Stamp, Took};

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Longest line that is read; longer ones count as malformed.
const LINE_LEN_MAX: usize = 64 << 10;

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines that are not empty.
    pub lines: u64,
    /// Lines that are requests.
    pub used: u64,
    /// Used ones that say how long they took.
    pub timed: u64,
    /// The first line that is none, from 1, and why.
    pub malformed: Option<(u64, String)>,
}

impl Counts {
    /// Lines that are no requests.
    pub fn left_out(&self) -> u64 {
        self.lines - self.used
    }
}

/// Reads a log line by line. `each` is told of each request; once it says `false`, reading ends.
///
/// # Errors
/// The reader's. A line that is no request is none: it is counted.
pub fn read(
    mut reader: impl BufRead,
    took: Took,
    each: &mut dyn FnMut(&Line<'_>) -> bool,
) -> io::Result<Counts> {
    let mut counts = Counts::default();
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let Some(whole) = read_line(&mut reader, &mut bytes)? else {
            break;
        };
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        if whole && text.trim().is_empty() {
            continue;
        }
        counts.lines += 1;
        let line = match whole {
            true => line(text, took),
            false => Err("the line is too long"),
        };
        match line {
            Ok(line) => {
                counts.used += 1;
                counts.timed += u64::from(line.took_ns.is_some());
                if !each(&line) {
                    break;
                }
            }
            Err(why) if counts.malformed.is_none() => {
                counts.malformed = Some((number, why.to_owned()));
            }
            Err(_) => {}
        }
    }
    Ok(counts)
}

/// The request of a line.
///
/// # Errors
/// Why it is none.
pub fn line(text: &str, took: Took) -> Result<Line<'_>, &'static str> {
    let mut line = match text.starts_with('{') {
        true => json::line(text)?,
        false => combined::line(text, took)?,
    };
    if took == Took::Ignore {
        line.took_ns = None;
    }
    // A request to a proxy names its host in the target.
    for scheme in ["http://", "https://"] {
        let Some(rest) = line.target.strip_prefix(scheme) else {
            continue;
        };
        let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        (line.host, line.target) = (Cow::Owned(host.to_owned()), Cow::Owned(target));
        break;
    }
    if !line.target.starts_with('/') && line.target != "*" {
        return Err("the request has no path");
    }
    if let Some(colon) = line.host.rfind(':').filter(|at| !line.host[*at..].contains(']')) {
        line.host = Cow::Owned(line.host[..colon].to_owned());
    }
    Ok(line)
}

/// Reads up to a line feed; `None` at the end, `false` if the line was too long to be kept whole.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let (mut whole, mut any) = (true, false);
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(any.then_some(whole));
        }
        any = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let len = end.map_or(bytes.len(), |end| end + 1);
        if line.len() + len <= LINE_LEN_MAX {
            line.extend_from_slice(&bytes[..len]);
        } else {
            whole = false;
        }
        reader.consume(len);
        if end.is_some() {
            return Ok(Some(whole));
        }
    }
}

#[cfg(test)]
mod tests;
