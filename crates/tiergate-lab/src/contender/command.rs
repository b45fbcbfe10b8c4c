//! `tiergate-lab contender haproxy`: one of them in front of an origin, until it is interrupted.

use super::place::Place;
use super::{Contender, Front};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Command line of `tiergate-lab contender`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// none, tiergate, haproxy, nginx, modqos, envoy or failsafe
    #[arg(value_parser = Contender::parse)]
    contender: Contender,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address of its state, where it has one
    #[arg(long, default_value = "127.0.0.1:8434")]
    admin: SocketAddr,
    /// Address of the origin
    #[arg(long, default_value = "127.0.0.1:8081")]
    origin: SocketAddr,
    /// Requests that the origin works on at once; told to all but Tiergate
    #[arg(long, default_value_t = 16)]
    slots: u32,
    /// Requests a second that the origin can serve; told to all but Tiergate
    #[arg(long, default_value_t = 400.0)]
    rate: f64,
    /// Processors that it may use, as `taskset -c` has them
    #[arg(long)]
    processors: Option<String>,
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// A configuration instead of the usual one, with the same `@…@` to fill in
    #[arg(long)]
    template: Option<PathBuf>,
}

/// Starts it, says so in one line, stays until it ends or is interrupted, and then says in another
/// how much processor time it has used.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    // Before anything is started, so that nothing is started that a signal would leave.
    let mut interruption = crate::Interruption::catch()?;
    let scratch = crate::process::scratch()?;
    let template = settings.template.as_deref().map(std::fs::read_to_string);
    let template = template.transpose().context("cannot read the template")?;
    let addresses = [settings.listen, settings.admin, settings.origin];
    let place = Place {
        slots: settings.slots,
        rate: settings.rate,
        processors: settings.processors.as_deref(),
        template: template.as_deref(),
        ..Place::new(scratch.path(), addresses, settings.gateway.as_deref())
    };
    let contender = settings.contender;
    let mut front = contender
        .start(&place)
        .await
        .map_err(|error| error.context(format!("{} is left out", contender.name())))?;
    let pid = front.pid().map_or(String::new(), |pid| format!(", process {pid}"));
    let (name, version, listen) = (contender.name(), &front.version, settings.listen);
    println!("{name} {version} on {listen}{pid}: {}", contender.about());
    tokio::select! {
        why = end_of(&mut front) => bail!("{why}"),
        () = interruption.happens() => {}
    }
    println!("{}", serde_json::json!({ "processor_seconds": front.used()?.as_secs_f64() }));
    Ok(())
}

/// Waits until it ends by itself; nothing never does. Cancel safe.
async fn end_of(front: &mut Front) -> String {
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if let Some(why) = front.ended() {
            return why;
        }
    }
}
