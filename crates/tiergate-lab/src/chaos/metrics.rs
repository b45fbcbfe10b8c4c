//! What the gateway says at `/metrics`.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest page read.
const PAGE_BYTES_MAX: u64 = 4 << 20;
/// How long the admin listener may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// Values by series: the name without its prefix, and the labels as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Asks the gateway.
    pub(super) async fn fetch(admin: SocketAddr) -> Result<Self> {
        let (status, page) = ask(admin, "GET /metrics").await?;
        ensure!(status == 200, "/metrics answered {status}");
        Ok(Self::read(&page))
    }

    fn read(page: &str) -> Self {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            let series = series.strip_prefix("tiergate_").unwrap_or(series);
            Some((series.to_owned(), value.parse().ok()?))
        };
        Self(lines.filter_map(sample).collect())
    }

    /// The sum over all series of that name.
    pub(super) fn sum(&self, name: &str) -> f64 {
        self.of(name).map(|(_, value)| value).sum()
    }

    /// The sum over the series of that name which have this label.
    pub(super) fn sum_where(&self, name: &str, label: &str) -> f64 {
        self.of(name).filter(|(labels, _)| labels.contains(label)).map(|(_, value)| value).sum()
    }

    fn of<'m>(&'m self, name: &'m str) -> impl Iterator<Item = (&'m str, f64)> {
        self.0.iter().filter_map(move |(series, value)| {
            let labels = series.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        })
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, f64); N]> for Metrics {
    fn from(samples: [(&str, f64); N]) -> Self {
        Self(samples.into_iter().map(|(series, value)| (series.to_owned(), value)).collect())
    }
}

/// Has the policy reloaded: the status of the answer.
pub(super) async fn reload(admin: SocketAddr) -> Result<u16> {
    Ok(ask(admin, "POST /reload").await?.0)
}

async fn ask(admin: SocketAddr, line: &str) -> Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(admin).await?;
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(PAGE_BYTES_MAX).read_to_end(&mut answer).await?;
        anyhow::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(PATIENCE, exchange).await.context("the admin listener is silent")??;
    let (head, body) = answer.split_once("\r\n\r\n").context("the admin listener said nothing")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("the admin listener does not speak HTTP")?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_up_by_name_and_label() {
        let metrics = Metrics::read(
            "# TYPE tiergate_x_total counter\ntiergate_x_total{class=\"a\",end=\"served\"} 3\n\
             tiergate_x_total{class=\"b\",end=\"failed\"} 4\ntiergate_x_total_more 9\n\
             process_open_fds 12\ntiergate_slots 7\n",
        );
        assert_eq!(metrics.sum("x_total"), 7.0);
        assert_eq!(metrics.sum_where("x_total", "class=\"b\""), 4.0);
        assert_eq!((metrics.sum("process_open_fds"), metrics.sum("slots")), (12.0, 7.0));
        assert_eq!(metrics.sum("unknown"), 0.0);
    }
}
