//! Active health checks.

use super::Origin;
use super::connect_fault::{ConnectFault, is_refused};
use super::pools::Pools;
use crate::config::meant::{HealthCheck, Server};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::origin::Check;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Bytes of a check's answer that are looked at: its status line.
const STATUS_LEN: usize = 64;

/// Who looks after the servers of each pool.
#[derive(Debug, Default)]
pub struct Watches(Vec<(Arc<Origin>, JoinSet<()>)>);

impl Watches {
    /// The pools are these now. What has not changed is looked after without a break: checks that began anew with
    /// each reload would come at other times than they should, or never end.
    pub fn follow(&mut self, pools: &Pools) {
        self.0.retain(|(watched, _)| pools.iter().any(|origin| Arc::ptr_eq(&origin, watched)));
        for origin in pools.iter() {
            if !self.0.iter().any(|(watched, _)| Arc::ptr_eq(&origin, watched)) {
                // Dropped, the set ends its task.
                let mut task = JoinSet::new();
                task.spawn(watch_pool(origin.clone()));
                self.0.push((origin, task));
            }
        }
    }
}

async fn watch_pool(origin: Arc<Origin>) {
    let checks = origin
        .settings
        .health
        .clone()
        .into_iter()
        .flat_map(|check| (0..origin.servers.len()).map(move |place| (check.clone(), place)));
    let mut tasks = JoinSet::new();
    for (check, place) in checks {
        tasks.spawn(check_for_ever(origin.clone(), place, check));
    }
    // Dropped with this future, the set ends its tasks.
    while tasks.join_next().await.is_some() {}
}

async fn check_for_ever(origin: Arc<Origin>, place: usize, check: HealthCheck) {
    loop {
        let mut is_connected = false;
        let asked = check_once(&origin, place, &check, &mut is_connected);
        let outcome = tokio::time::timeout(check.timeout, asked).await;
        match outcome {
            Ok(Ok(200..=399)) => origin.checked(place, Check::Passed, None),
            Ok(Ok(status)) => {
                origin.checked(place, Check::Failed, Some(&format!("status {status}")));
            }
            // A check that the gateway had no descriptor for, or the listen queue no room, says nothing about the server.
            Ok(Err(error))
                if matches!(
                    ConnectFault::of(&error),
                    ConnectFault::Ours(_) | ConnectFault::NoPlace | ConnectFault::Full
                ) => {}
            Ok(Err(error)) => {
                let check = if !is_connected && is_refused(&error) {
                    Check::Refused
                } else {
                    Check::Failed
                };
                origin.checked(place, check, Some(&error.to_string()));
            }
            Err(_) if is_connected => {
                origin.checked(place, Check::Silent, Some("no answer in time"));
            }
            Err(_) => origin.checked(place, Check::Failed, Some("connecting timed out")),
        }
        // After each, so that two are never close together, as behind one that took long.
        pause(&origin, place, check.interval).await;
    }
}

/// Waits until the next check is due: sooner if the server is left out meanwhile.
async fn pause(origin: &Origin, place: usize, interval: Duration) {
    let since = Instant::now();
    while let Some(left) = origin.check_pause(place, interval).checked_sub(since.elapsed()) {
        tokio::time::sleep(left.min(origin.settings.retry_after)).await;
    }
}

/// Asks once, on a connection of its own, and returns the status.
async fn check_once(
    origin: &Origin,
    place: usize,
    check: &HealthCheck,
    is_connected: &mut bool,
) -> io::Result<u16> {
    // A little less than the whole, so that it can say that the listen queue was full.
    let within = check.timeout - check.timeout / 8;
    let mut stream = origin.connect_alone(place, within).await?;
    *is_connected = true;
    let host = match origin.named(place) {
        Server::Tcp(host, port) => format!("{host}:{port}"),
        Server::Unix(_) => "localhost".to_owned(),
    };
    let request = format!(
        "GET {} HTTP/1.1\r\nhost: {host}\r\nuser-agent: tiergate-health\r\nconnection: close\r\n\r\n",
        check.path
    );
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::with_capacity(STATUS_LEN);
    while !answer.contains(&b'\n') && answer.len() < STATUS_LEN {
        if stream.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    status_of(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP answer"))
}

fn status_of(answer: &[u8]) -> Option<u16> {
    let rest = answer.strip_prefix(b"HTTP/1.")?;
    let digits = std::str::from_utf8(rest.get(2..5)?).ok()?;
    digits.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        assert_eq!(status_of(b"HTTP/1.1 204 No Content\r\n"), Some(204));
        assert_eq!(status_of(b"HTTP/1.0 503\r\n"), Some(503));
        assert_eq!(status_of(b"HTTP/1.1 9"), None);
        assert_eq!(status_of(b"SSH-2.0-OpenSSH"), None);
    }
}
