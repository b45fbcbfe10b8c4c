//! The load: wrk and h2load, closed loop, as many requests at once as there are connections.

use super::matrix::{Row, Tool};
use crate::process::{Program, output};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The programs that make the load; `None`: not installed.
pub(super) struct Tools {
    wrk: Option<PathBuf>,
    h2load: Option<PathBuf>,
    /// Where they run.
    processors: Option<String>,
}

/// What a load came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Driven {
    /// Answers with status 200.
    pub(crate) good: u64,
    /// Answers with another status.
    pub(crate) other: u64,
    /// Connections or requests that broke.
    pub(super) broken: u64,
    /// Answers a second.
    pub(crate) per_second: f64,
}

impl Driven {
    /// All answers.
    pub(super) fn answers(&self) -> u64 {
        self.good + self.other
    }
}

impl Tools {
    /// Those that are installed.
    pub(super) fn find(processors: Option<&str>) -> Self {
        Self {
            wrk: crate::process::find("wrk"),
            h2load: crate::process::find("h2load"),
            processors: processors.map(Into::into),
        }
    }

    /// Loads `target` with a row's requests for that many seconds.
    pub(super) async fn drive(
        &self,
        row: &Row,
        target: SocketAddr,
        seconds: u64,
    ) -> Result<Driven> {
        let scheme = if row.tool.tls() { "https" } else { "http" };
        let url = format!("{scheme}://{target}{}", row.path());
        let (wrk, h2load) = (("wrk", &self.wrk), ("h2load", &self.h2load));
        let ((name, path), mode): (_, &[&str]) = match row.tool {
            Tool::Plain => (wrk, &[]),
            Tool::Close => (wrk, &["-H", "Connection: close"]),
            Tool::TlsHttp1 => (h2load, &["-m1", "--h1"]),
            Tool::TlsHttp2 => (h2load, &["-m1"]),
        };
        let path = path.as_ref().with_context(|| format!("{name} is not installed"))?;
        let lasting = if row.tool.tls() { format!("-D{seconds}") } else { format!("-d{seconds}s") };
        let program = Program::new(name, path)
            .args(["-t1", &format!("-c{}", row.connections), &lasting])
            .args(mode)
            .args([&url])
            .processors(self.processors.as_deref());
        let text = output(program, Duration::from_secs(seconds + 20)).await?;
        let driven = if name == "wrk" { read_wrk(&text) } else { read_h2load(&text) };
        driven.with_context(|| format!("{name} printed something else than expected:\n{text}"))
    }
}

/// The number that follows `label` in a text.
pub(crate) fn after(text: &str, label: &str) -> Option<f64> {
    let rest = text[text.find(label)? + label.len()..].trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The number that stands before `label` in a text.
fn before(text: &str, label: &str) -> Option<f64> {
    let head = text[..text.find(label)?].trim_end();
    let begin = head.rfind(|c: char| !c.is_ascii_digit() && c != '.').map_or(0, |at| at + 1);
    head[begin..].parse().ok()
}

pub(crate) fn read_wrk(text: &str) -> Option<Driven> {
    let answers = before(text, " requests in ")? as u64;
    let other = after(text, "Non-2xx or 3xx responses:").unwrap_or(0.0) as u64;
    let errors = ["connect ", "read ", "write ", "timeout "];
    let errors = match text.split_once("Socket errors:") {
        Some((_, line)) => errors.iter().filter_map(|label| after(line, label)).sum(),
        None => 0.0,
    };
    Some(Driven {
        good: answers.checked_sub(other)?,
        other,
        broken: errors as u64,
        per_second: after(text, "Requests/sec:")?,
    })
}

fn read_h2load(text: &str) -> Option<Driven> {
    let statuses = text.split_once("status codes:")?.1;
    let [good, redirect, client, server] =
        [" 2xx", " 3xx", " 4xx", " 5xx"].map(|label| before(statuses, label));
    Some(Driven {
        good: good? as u64,
        other: (redirect? + client? + server?) as u64,
        broken: before(text, " errored")? as u64,
        per_second: before(text, " req/s")?,
    })
}

/// Whether the answers are what the row asks for; otherwise the figures measure something else.
pub(super) fn check(row: &Row, driven: &Driven) -> Result<()> {
    let (expected, wrong) = match row.refusal() {
        true => ("refusals", driven.good + driven.broken),
        false => ("200", driven.other + driven.broken),
    };
    if driven.answers() == 0 {
        bail!("no answers ({} broken)", driven.broken);
    }
    let part = wrong as f64 / (driven.answers() + driven.broken) as f64;
    if part > 0.001 {
        bail!("{:.1} % of answers were not {expected}", part * 100.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRK: &str = "Running 2s test @ http://127.0.0.1:21001/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.31ms  401.11us   9.43ms   84.08%
    Req/Sec    48.94k     3.17k   52.30k    75.00%
  97512 requests in 2.00s, 113.92MB read
  Socket errors: connect 0, read 3, write 0, timeout 1
  Non-2xx or 3xx responses: 12
Requests/sec:  48710.11
Transfer/sec:     56.91MB
";
    const H2LOAD: &str = "finished in 1.01s, 20480.50 req/s, 23.10MB/s
requests: 20480 total, 20544 started, 20480 done, 20478 succeeded, 2 failed, 1 errored, 0 timeout
status codes: 20478 2xx, 0 3xx, 0 4xx, 2 5xx
traffic: 23.10MB (24222720) total, 2.44MB (2560000) headers (space savings 0.00%), 20.00MB data
";

    #[test]
    fn outputs_are_read() {
        let wrk = read_wrk(WRK).unwrap();
        let expected = Driven { good: 97_500, other: 12, broken: 4, per_second: 48_710.11 };
        assert_eq!(wrk, expected);
        let h2load = read_h2load(H2LOAD).unwrap();
        let expected = Driven { good: 20_478, other: 2, broken: 1, per_second: 20_480.5 };
        assert_eq!(h2load, expected);
        assert_eq!(read_wrk("unable to connect"), None);
        assert_eq!(read_h2load(""), None);
    }

    #[test]
    fn figures_of_other_answers_are_not_taken() {
        let forward = super::super::matrix::ROWS[0];
        let refuse = *super::super::matrix::ROWS.iter().find(|row| row.refusal()).unwrap();
        let good = Driven { good: 1000, other: 0, broken: 0, per_second: 1.0 };
        let refused = Driven { good: 0, other: 1000, broken: 0, per_second: 1.0 };
        assert!(check(&forward, &good).is_ok() && check(&refuse, &refused).is_ok());
        assert!(check(&forward, &refused).is_err() && check(&refuse, &good).is_err());
        assert!(check(&forward, &Driven { broken: 2, ..good }).is_err());
        assert!(check(&forward, &Driven { good: 0, ..good }).is_err());
    }
}
