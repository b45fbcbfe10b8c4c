//! The process while it runs, and reloads: everything of a new configuration takes effect, or nothing.

use super::listeners::{self, Listeners};
use super::{kept, open_files};
use crate::config::meant::{AccessLog, Policy};
use crate::config::{Errors, first_observed};
use crate::kernel;
use crate::observe::access_log::Log;
use crate::observed::ObservedPolicy;
use crate::shared::{Config, Shared, flow_key};
use crate::startable::{self, Subject};
use crate::workers::program;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tiergate_core::names::Names;
use tiergate_core::plan::Plan;
use tokio::sync::watch;

/// Where the configuration comes from, at the start and at each reload.
pub type Source = Arc<dyn Fn(&mut Names) -> Result<Policy, String> + Send + Sync>;

/// A policy that is to be observed: its file, and where it comes from.
#[derive(Clone)]
pub struct ObservedSource {
    /// The file.
    pub path: PathBuf,
    /// Reads it.
    pub load: Source,
    /// The names of its own: they use up none of the policy in force.
    pub names: Arc<Mutex<Names>>,
}

/// What a reload has put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The number of the configuration.
    pub generation: u32,
    /// What is not as the policy says, because the process keeps it for as long as it lives: a sentence each.
    pub kept: Vec<String>,
    /// What the operator should know of certificates.
    pub warnings: Vec<String>,
}

/// The process while it runs.
pub struct Process {
    /// What all connections share.
    pub shared: Arc<Shared>,
    pub(super) source: Source,
    /// A policy that is observed beside it.
    pub(super) observed: Option<ObservedSource>,
    /// The names of classes, sites, policers and rules. Locked for the length of a reload, by nothing else.
    pub(super) names: Mutex<Names>,
    /// The socket of the admin listener, which the command line serves.
    pub admin: Option<TcpListener>,
    /// Locked for moments only: files are read meanwhile by nobody, since a file may not answer.
    pub(super) listeners: Mutex<Listeners>,
    /// Tells what depends on the configuration as a whole that it has changed.
    pub(super) generation: watch::Sender<u32>,
    /// Who waits to hear that this process serves.
    pub(super) predecessor: Option<UnixDatagram>,
    /// The program that a successor is, as this one was called.
    pub(super) program: Option<PathBuf>,
    /// A successor that was told to end before it had said that it serves.
    pub(super) leaving: Mutex<Option<tokio::process::Child>>,
    /// Why there can be no successor, if so.
    pub(super) no_successor: Option<&'static str>,
}

impl Process {
    /// Loads the configuration anew and puts it in force, or keeps the old one.
    ///
    /// # Errors
    /// What is wrong with the new configuration; nothing has changed then.
    pub fn reload(&self) -> Result<Loaded, String> {
        let result = self.try_reload();
        match &result {
            Ok(Loaded { generation, kept, warnings }) => {
                kept.iter().chain(warnings).for_each(|it| tracing::warn!("{it}"));
                tracing::info!(generation, "configuration reloaded");
            }
            Err(fault) => tracing::error!("reload rejected, the old policy stays: {fault}"),
        }
        self.shared.counters.reloaded(result.as_ref().map(|_| ()).map_err(String::as_str));
        result
    }

    /// Whether a configuration is in force other than that of `generation`, or is about to be.
    pub(super) fn has_changed_since(&self, generation: u32) -> bool {
        // In this order: a reload that ends in between has been counted by then.
        let is_reloading = self.names.try_lock().is_err();
        is_reloading || *self.generation.borrow() != generation
    }

    fn try_reload(&self) -> Result<Loaded, String> {
        let mut names = self.names.lock().expect("no reload panics");
        self.must_stay()?;
        names.attempt(|names| self.put_in_force(names))
    }

    /// # Errors
    /// The process is on its way out.
    fn must_stay(&self) -> Result<(), String> {
        match self.shared.is_draining() || self.shared.has_succeeded() {
            true => Err("this process is on its way out, and loads no policy any more".to_owned()),
            false => Ok(()),
        }
    }

    fn put_in_force(&self, names: &mut Names) -> Result<Loaded, String> {
        let former = self.shared.config.load_full();
        let mut policy = (self.source)(names)?;
        let observed = load_observed(&mut policy, self.observed.as_ref())?;
        let kept = kept::for_life(&mut policy, &former.policy);
        warn(&policy);
        startable::not_itself(&policy)?;
        program::check(&policy, &former.policy)?;
        open_files::bound_connections(&mut policy);
        // All that can fail comes before anything changes.
        let in_force = listeners::in_force(&policy)?;
        let listeners = || self.listeners.lock().expect("no reload panics");
        let prepared = listeners().prepare(&policy, in_force)?;
        let (generation, sources) = (former.generation + 1, policy.sources.clone());
        let config = Config::new(policy, generation, Some(&former), &self.shared.counters)
            .map_err(|fault| startable::wrong_origin(&sources, &fault))?;
        let follows = config.dates.follow(&former.dates);
        follows.map_err(|(what, fault)| startable::wrong(&sources, what, fault))?;
        let mut warnings = config.dates.warnings();
        warnings.extend(config.policy.kernel.iter().flat_map(kernel::missing_words));
        if config.policy.access_log != former.policy.access_log {
            open_log(&self.shared, &config.policy)?;
        }
        // Files may have taken their time, and what is opened now would be closed by nobody.
        let mut listeners = listeners();
        self.must_stay()?;
        self.shared.reconfigure(config);
        observe(&self.shared, observed);
        listeners.apply(prepared);
        self.generation.send_replace(generation);
        Ok(Loaded { generation, kept, warnings })
    }
}

/// What is said of a policy that has observed parts where there must be none, at the first of them.
fn has_observed(policy: &Policy, message: &str) -> String {
    let file = policy.file.to_string_lossy().into_owned();
    match first_observed(&policy.sources) {
        Some(spot) => {
            Errors { file, faults: vec![spot.fault(message.to_owned())], more: 0 }.to_string()
        }
        None => format!("{file}: {message}"),
    }
}

/// The policy that is to be observed, with its file: the one of `source`, or the whole of which `policy` is what is in force.
///
/// # Errors
/// What is wrong with it, or that there are both.
pub(super) fn load_observed(
    policy: &mut Policy,
    source: Option<&ObservedSource>,
) -> Result<Option<(PathBuf, Policy)>, String> {
    let whole = policy.observed.take();
    let Some(ObservedSource { path, load, names }) = source else {
        return Ok(whole.map(|whole| (whole.file.clone(), *whole)));
    };
    if whole.is_some() {
        let message = "one policy is observed at a time, and this one has observed parts: remove `mode = \"observe\"` wherever it is \
                       written, or start without --observe";
        return Err(has_observed(policy, message));
    }
    let mut names = names.lock().map_err(|fault| fault.to_string())?;
    let fault = |fault: String| format!("the policy to observe: {fault}");
    let policy = names.attempt(|names| load(names)).map_err(fault)?;
    if policy.observed.is_some() {
        let message = "this policy is observed as a whole: remove `mode = \"observe\"` wherever it is written";
        return Err(fault(has_observed(&policy, message)));
    }
    if policy.plan.shedding.is_some() {
        tracing::warn!("[shedding] of the observed policy is left out: it is not observed");
    }
    warn(&policy);
    Ok(Some((path.clone(), policy)))
}

/// Observes a policy from now on, in place of the one before it, whose counts stay; or none any more.
pub(super) fn observe(shared: &Shared, observed: Option<(PathBuf, Policy)>) {
    let Some((path, policy)) = observed else {
        shared.observed.store(None);
        return;
    };
    let former = shared.observed.load_full();
    let limit_of = |plan: &Plan, pool| shared.slots_for(plan, pool);
    match ObservedPolicy::new(path, policy, former.as_deref(), flow_key(), limit_of) {
        Ok(observed) => shared.observed.store(Some(Arc::new(observed))),
        Err(fault) => tracing::error!("the policy is not observed: {fault}"),
    }
}

/// Opens the access log that the policy names, in place of the former.
///
/// # Errors
/// Why it cannot be opened, with its line.
pub(super) fn open_log(shared: &Shared, policy: &Policy) -> Result<(), String> {
    let start = |settings: &AccessLog| {
        Log::start(settings, shared.counters.clone()).map_err(|fault| {
            let message = match &settings.path {
                Some(path) => startable::cannot_log(path, &fault),
                None => format!("standard output cannot be written: {fault}"),
            };
            startable::wrong(&policy.sources, Subject::AccessLog, message)
        })
    };
    shared.log.store(policy.access_log.as_ref().map(start).transpose()?.map(Arc::new));
    Ok(())
}

/// Says what is dangerous about the policy's files.
pub(super) fn warn(policy: &Policy) {
    for warning in &policy.warnings {
        tracing::warn!("{warning}");
    }
}
