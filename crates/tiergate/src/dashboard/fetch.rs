//! Reads the admin listener.

use super::rates::{Reading, View};
use crate::admin::status::Status;
use crate::observe::refusals::Shown;
use crate::side_http;
use anyhow::{Context, bail};
use http::HeaderMap;
use std::sync::mpsc::SyncSender;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Longest time for one reading.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer; a status with 64 classes has about 100 KiB.
const ANSWER_LEN_MAX: usize = 4 * 1024 * 1024;
/// Refusals asked for: all that there are, to count them.
const REFUSALS: usize = 256;

/// News for the screen.
#[derive(Debug)]
pub(super) enum News {
    Reading(Box<Reading>),
    /// Why there is none.
    Fault(String),
    /// A signal asks to end.
    End,
}

/// Two readings, `interval` apart.
///
/// # Errors
/// If the gateway cannot be read.
pub(super) fn view_once(authority: &str, interval: Duration) -> anyhow::Result<View> {
    runtime()?.block_on(async {
        let before = read(authority).await?;
        sleep(interval).await;
        Ok(View::new(Some(&before), read(authority).await?))
    })
}

/// Reads each `interval`, and at once when `hurry` is notified, until the receiver is gone or a signal
/// ends it.
///
/// # Errors
/// If the runtime or the signals cannot be set up.
pub(super) fn keep_reading(
    authority: &str,
    interval: Duration,
    hurry: &Notify,
    news: &SyncSender<News>,
) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            let reading = async {
                let read = match read(authority).await {
                    Ok(reading) => News::Reading(Box::new(reading)),
                    Err(fault) => News::Fault(format!("{fault:#}")),
                };
                // A full channel means that the screen is behind: this reading is not missed.
                let gone = matches!(
                    news.try_send(read),
                    Err(std::sync::mpsc::TrySendError::Disconnected(_))
                );
                tokio::select! {
                    () = sleep(interval) => {}
                    () = hurry.notified() => {}
                }
                gone
            };
            let gone = tokio::select! {
                gone = reading => gone,
                _ = terminate.recv() => break,
                _ = hang_up.recv() => {
                    // The terminal is gone: there is nothing to give back, and waiting for its keys
                    // never ends (the event library reads an ended terminal over and over).
                    std::process::exit(0);
                }
                _ = interrupt.recv() => break,
            };
            if gone {
                return Ok(());
            }
        }
        // Waits for room: this one may not be lost.
        drop(news.send(News::End));
        Ok(())
    })
}

fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

async fn read(authority: &str) -> anyhow::Result<Reading> {
    let reading = async {
        let status: Status = ask(authority, "/status").await?;
        let refusals: Refusals = ask(authority, &format!("/refusals?limit={REFUSALS}")).await?;
        // A gateway of an earlier version has none.
        let incident = ask(authority, "/incident").await.ok();
        Ok(Reading { status, refusals: refusals.recent, incident })
    };
    match timeout(PATIENCE, reading).await {
        Ok(reading) => reading,
        Err(_) => bail!("{authority}: no answer within {PATIENCE:?}"),
    }
}

#[derive(serde::Deserialize)]
struct Refusals {
    recent: Vec<Shown>,
}

async fn ask<T: serde::de::DeserializeOwned>(authority: &str, path: &str) -> anyhow::Result<T> {
    let server = side_http::Addresses::of(authority);
    let (status, body) = side_http::get(&server, path, HeaderMap::new(), ANSWER_LEN_MAX, PATIENCE)
        .await
        .with_context(|| format!("{authority}{path}: the admin listener"))?;
    if !status.is_success() {
        bail!("{authority}{path} answers {status}: is this the admin listener?");
    }
    serde_json::from_slice(&body)
        .with_context(|| format!("{authority}{path}: not the status of a gateway"))
}
