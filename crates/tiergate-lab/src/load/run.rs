//! A run on a thread of its own, so that nothing else delays what is due.

use super::ask;
use super::live::Live;
use super::plan::Plan;
use super::report::Report;
use anyhow::{Context, Result};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A run under way on a thread of its own; dropped, it stops.
pub(crate) struct Started {
    /// What has happened so far.
    pub(crate) live: Arc<Live>,
    _stop: oneshot::Sender<()>,
    done: oneshot::Receiver<Report>,
}

impl Started {
    /// Waits for the end.
    pub(crate) async fn report(&mut self) -> Result<Report> {
        (&mut self.done).await.context("the load generator's thread ended early")
    }
}

/// Starts a run on a thread of its own, so that nothing else delays what is due.
pub(crate) fn start(plan: Plan) -> Result<Started> {
    plan.check().map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let live = Arc::new(Live::new(&plan));
    let (report, done) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let written = Arc::clone(&live);
    std::thread::Builder::new().name("load".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = ask::generate(&plan, &written) => {
                    // Nobody waits for it any more if the experiment has been given up.
                    let _ = report.send(Report::new(&plan, &written));
                }
                _ = stopped => {}
            }
        });
    })?;
    Ok(Started { live, _stop: stop, done })
}
