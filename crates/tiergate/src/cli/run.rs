//! `tiergate run`: the gateway itself.

use crate::admin::{self, ConfigInForce, Context, InForce, MemoryBounds, Phase, settings};
use crate::clock;
use crate::config;
use crate::config::meant::Policy;
use crate::lanes::Lanes;
use crate::observe::server::{Health, ServerStatus, SlotsSource};
use crate::observe::snapshot::Snapshot;
use crate::origin::Origin;
use crate::run::{self, ObservedSource, Process, Source};
use crate::shared::Shared;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tiergate_core::control::ServerSlots;
use tiergate_core::headroom::success_buffers;
use tiergate_core::names::{Names, PoolId};

/// The part of the help on what is not an option.
const SIGNALS: &str = "\
Signals:
  SIGHUP   Reload the policy with its certificates and other files, and reopen the access log
  SIGUSR1  Reopen the access log
  SIGUSR2  Upgrade: start the program on disk with the same arguments, hand it the listening sockets, and drain once it serves
  SIGTERM  Drain: close the listeners, after `timeouts.lame_duck` if that is set, finish the requests in progress, exit; a second one
           exits at once

Environment:
  TIERGATE_LOG         Level of the program's log on standard error: error, warn, info (default), debug, trace
  TIERGATE_LOG_FORMAT  text (default), or json: an object a line";

/// What `tiergate run` is asked for.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = SIGNALS)]
pub struct Options {
    /// The policy file; without one, give --origin
    #[arg(value_name = "POLICY.toml", required_unless_present = "origin")]
    policy: Option<PathBuf>,

    /// Run with the defaults in front of this server: http://HOST:PORT, HOST:PORT or unix:/PATH
    #[arg(long, value_name = "ADDRESS", conflicts_with = "policy")]
    origin: Option<String>,

    /// Observe this policy beside the one in force: it decides about every request, is counted and logged, and changes
    /// nothing
    #[arg(long, value_name = "POLICY.toml")]
    observe: Option<PathBuf>,

    /// Where clients connect [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "origin", conflicts_with = "policy")]
    listen: Option<SocketAddr>,

    /// Where metrics and status are served [default: 127.0.0.1:8434]
    #[arg(long, value_name = "ADDRESS:PORT", requires = "origin", conflicts_with = "policy")]
    admin: Option<SocketAddr>,

    /// Reload when the policy file or one that it includes changes (not when certificates, keys or other files do)
    #[arg(long, conflicts_with = "origin")]
    watch: bool,
}

/// Runs the gateway until it has drained.
///
/// # Errors
/// The configuration is wrong, or an address cannot be bound.
pub fn run(options: Options) -> anyhow::Result<()> {
    let source = source(&options);
    let observed = options.observe.clone().map(observed);
    run::run(source, observed, |process| beside(process, options))
}

/// A policy of which only the rules and classes count: its listeners, servers, logs and threads are those of the policy in force.
fn observed(path: PathBuf) -> ObservedSource {
    let file = path.clone();
    let load =
        move |names: &mut Names| config::load_with(&file, names).map_err(|fault| fault.to_string());
    ObservedSource { path, load: Arc::new(load), names: Arc::default() }
}

fn source(options: &Options) -> Source {
    let options = options.clone();
    Arc::new(move |names| match &options.policy {
        Some(path) => config::load_with(path, names).map_err(|fault| fault.to_string()),
        None => {
            let origin = options.origin.as_deref().unwrap_or_default();
            Policy::for_origin(origin, options.listen, options.admin)
        }
    })
}

/// What runs beside the gateway on its first thread: the admin listener and the watch on the file.
async fn beside(process: Arc<Process>, options: Options) -> anyhow::Result<()> {
    if let Some(listener) = &process.admin {
        let context = context(&process, options.policy.clone());
        let shared = process.shared.clone();
        // A successor has the same socket, and answers for the gateway.
        let until = async move { shared.succeeded().await };
        admin::spawn(listener.try_clone()?, Arc::new(context), until)?;
        tracing::info!("metrics and status on http://{}/", listener.local_addr()?);
    }
    match &options.policy {
        Some(path) if options.watch => super::watch::watch(&process, path).await,
        _ => std::future::pending().await,
    }
}

fn context(process: &Arc<Process>, path: Option<PathBuf>) -> Context {
    let shared = &process.shared;
    let (snapshot, phase, origin) = (shared.clone(), shared.clone(), shared.clone());
    let (listeners, config, sessions) = (shared.clone(), shared.clone(), shared.clone());
    let (tokens, change, undo) = (shared.clone(), shared.clone(), shared.clone());
    let names = shared.clone();
    let (sensors, workers) = (shared.clone(), shared.clone());
    let (in_force, plan) = (shared.clone(), shared.clone());
    let reload = process.clone();
    Context {
        version: env!("CARGO_PKG_VERSION"),
        snapshot: Box::new(move || {
            let taken = Snapshot::take(&snapshot.door.gate(), clock::now());
            let observed = snapshot.observed.load().as_ref().and_then(|it| it.snapshot());
            let link = snapshot.link.parts(&snapshot.config.load().policy.plan);
            let link_capacity = snapshot.link.capacity();
            let lanes = snapshot.lanes.get().map(Lanes::status).unwrap_or_default();
            let kernel = snapshot.kernel.status();
            Snapshot { observed, link, link_capacity, lanes, kernel, ..taken }
        }),
        sessions: Box::new(move || sessions.sessions.readings()),
        sensors: Box::new(move || sensors.config.load().sensors.clone()),
        counters: shared.counters.clone(),
        refusals: shared.refusals.clone(),
        phase: Box::new(move || match phase.is_draining() {
            true => Phase::Draining,
            false if phase.is_leaving() => Phase::Leaving,
            false => Phase::Serving,
        }),
        origin: Box::new(move || {
            let config = origin.config.load();
            let pools = config.pools.with_ids();
            pools.flat_map(|(id, it)| servers_of(&origin, id, &it)).collect()
        }),
        workers: Box::new(move || workers.workers.status()),
        listeners: Box::new(move || {
            let config = listeners.config.load();
            let words = config.policy.listeners.iter().map(|listener| {
                let scheme = if listener.tls.is_some() { "https" } else { "http" };
                format!("{scheme} {}", listener.address)
            });
            words.collect()
        }),
        config: Box::new(move || {
            let config = config.config.load();
            ConfigInForce {
                path: path.clone(),
                sources: config.policy.sources.clone(),
                generation: config.generation,
            }
        }),
        in_force: Box::new(move || {
            let config = in_force.config.load();
            let limits = &config.policy.limits;
            InForce {
                is_enforced: !config.policy.is_all_observed,
                certificates: config.certificates.clone(),
                bounds: MemoryBounds {
                    buffers_max: limits.buffers_max as u64,
                    spool_max: limits.spool_max as u64,
                    stored_max: limits.stored_max as u64,
                },
            }
        }),
        success_buffers: Box::new(move |slots, demand_of| {
            let config = plan.config.load();
            let plan = &config.policy.plan;
            let demands: Vec<_> = plan.classes.iter().map(|it| demand_of(&it.name)).collect();
            let buffers = success_buffers(plan, slots, &demands);
            plan.classes.iter().map(|it| it.name.clone()).zip(buffers).collect()
        }),
        names: Box::new(move || names.config.load().policy.admin_names.clone()),
        tokens: Box::new(move || tokens.config.load().policy.admin_tokens.clone()),
        change: Box::new(move |wanted| {
            let (mut gate, now) = (change.door.gate(), clock::now());
            let changed = settings::change(&mut gate, now, wanted);
            change.door.settle(gate, now);
            changed
        }),
        undo: Box::new(move || {
            let (mut gate, now) = (undo.door.gate(), clock::now());
            let count = settings::undo(&mut gate, now);
            undo.door.settle(gate, now);
            count
        }),
        reload: Box::new(move || {
            let process = reload.clone();
            Box::pin(async move {
                let reloaded = tokio::task::spawn_blocking(move || process.reload()).await;
                let loaded = reloaded.map_err(|fault| fault.to_string())??;
                let lines = loaded.kept.iter().chain(&loaded.warnings);
                let lines: String = lines
                    .map(|it| {
                        format!(
                            "{it}
"
                        )
                    })
                    .collect();
                Ok(format!(
                    "configuration {} is in force
{lines}",
                    loaded.generation
                ))
            })
        }),
    }
}

fn servers_of(shared: &Shared, pool: PoolId, origin: &Origin) -> Vec<ServerStatus> {
    let (mut slots, mut source) = (Vec::new(), SlotsSource::Adaptive);
    if origin.settings.slots_per_server
        && let Some(pool) = shared.door.gate().pool(pool)
    {
        slots = pool.servers().collect::<Vec<ServerSlots>>();
        source = match (pool.is_adaptive(), pool.is_shared()) {
            (_, true) => SlotsSource::Shared,
            (true, false) => SlotsSource::Adaptive,
            (false, false) => SlotsSource::Pool,
        };
    }
    let servers = origin.servers.iter().zip(origin.ids()).zip(origin.states());
    let servers = servers.map(|((server, id), state)| {
        let slots = slots.iter().find(|it| it.server == *id);
        let status = ServerStatus {
            id: Some(*id),
            address: server.name.to_owned(),
            pool: origin.pool.clone(),
            health: match (state.left_out, state.usable) {
                (None, _) => Health::Up,
                (Some(_), true) => Health::Probing,
                (Some(_), false) => Health::Down,
            },
            outstanding: state.outstanding,
            slots: slots.map(|it| it.slots),
            slots_usable: slots.filter(|it| it.usable < it.slots).map(|it| it.usable),
            slots_from: slots.map(|it| if it.is_own { SlotsSource::Server } else { source }),
            detail: state.left_out.map(|cause| cause.to_string()),
            ..ServerStatus::default()
        };
        status.counted(&server.counters)
    });
    servers.collect()
}
