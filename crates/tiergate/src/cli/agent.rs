//! `tiergate agent`: readings of this machine for gateways on others.

use crate::admin::AdminTokens;
use crate::agent::{Access, Board, serve};
use crate::config;
use crate::origin::Work;
use crate::secrets::NamedFile;
use crate::seldom::Seldom;
use crate::sensors::{self, Sensors};
use crate::{clock, side_http};
use anyhow::{Context, anyhow, ensure};
use arc_swap::ArcSwap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// The part of the help on what is not an option.
const MORE: &str = "\
The file has [[sensor]] tables as in a policy, and nothing else. A gateway asks by a [[sensor]] with measure = \"agent\".

Paths:
  /readings  The latest reading of each sensor, as JSON; wants the token
  /healthz   200 while the agent runs

Signals:
  SIGHUP   Read the token file again
  SIGTERM  Exit";

/// What `tiergate agent` is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = MORE)]
pub struct Options {
    /// The file with the sensors
    #[arg(value_name = "AGENT.toml")]
    file: PathBuf,

    /// Where gateways connect
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9180")]
    listen: SocketAddr,

    /// File of 1 to 4 tokens, one per line, each of at least 32 bytes (`openssl rand -hex 32`); a gateway must send one
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,

    /// Let everybody who can connect read, on an address that other machines reach
    #[arg(long)]
    no_token: bool,
}

/// Runs the agent until a signal ends it.
///
/// # Errors
/// The file or the token file is wrong, or the address cannot be bound.
pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    clock::now();
    let sensors = config::load_agent(&options.file).map_err(|fault| anyhow!("{fault}"))?;
    let is_local = options.listen.ip().to_canonical().is_loopback();
    ensure!(
        is_local || options.token_file.is_some() || options.no_token,
        "other machines reach {}: give --token-file, or --no-token if everybody who can connect may read",
        options.listen
    );
    let tokens = ArcSwap::from_pointee(tokens(options)?);
    let access = Arc::new(Access { tokens, is_local, complaint: Seldom::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let listener = side_http::bind(options.listen)
            .with_context(|| format!("cannot listen on {}", options.listen))?;
        tracing::info!("{} sensors on http://{}/readings", sensors.len(), listener.local_addr()?);
        let sensors = Arc::new(Sensors::new(sensors));
        let board = Arc::new(Board::new(sensors.clone()));
        let taken = board.clone();
        // It has no pools, and no sensors of any.
        let work = |_| Work::Busy;
        let reading = sensors::run(sensors, work, move |place, quantity, _| {
            taken.take(place, quantity, Instant::now());
            Ok(())
        });
        let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
        let renewing = async {
            while hangup.recv().await.is_some() {
                match tokens_anew(options) {
                    Ok(renewed) => access.tokens.store(Arc::new(renewed)),
                    Err(fault) => tracing::error!("the tokens stay as they were: {fault:#}"),
                }
            }
        };
        tokio::select! {
            ended = serve(listener, board, access.clone()) => ended?,
            () = reading => {}
            () = renewing => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

fn tokens_anew(options: &Options) -> anyhow::Result<AdminTokens> {
    let tokens = tokens(options)?;
    tracing::info!("the token file was read again");
    Ok(tokens)
}

fn tokens(options: &Options) -> anyhow::Result<AdminTokens> {
    let Some(path) = options.token_file.clone() else { return Ok(AdminTokens::default()) };
    let (named, mut warnings) = (NamedFile { path, ..NamedFile::default() }, Vec::new());
    let tokens = AdminTokens::load(&named, &mut warnings).map_err(|fault| anyhow!("{fault}"))?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(tokens)
}
