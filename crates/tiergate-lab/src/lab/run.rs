//! One run: an origin, one contender in front of it, and the clients, each on its own machine.

use super::apart::{self, Place};
use super::busy::Watch;
use super::changes::Changes;
use super::experiment::{Experiment, Generator};
use super::flooding::{self, Flooding};
use super::machine::{self, Split};
use super::measure::Observed;
use super::network::Network;
use super::result::Round;
use super::server;
use super::{dns, drive, hogs, httperf, kernel, oha, waits};
use crate::contender::{Contender, Place as FrontPlace};
use crate::load::Plan;
use crate::process::scratch;
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;

/// Tiergate writes a line to its access log within 250 ms.
const LOG_DELAY: Duration = Duration::from_millis(500);

/// One of an experiment's runs.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// Who stands in front.
    pub(super) contender: Contender,
    /// How many requests at once it is told that the origin can work on.
    pub(super) slots: u32,
    /// From 1; also the seed of the sending times.
    pub(super) round: u64,
}

/// What is to be run.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    /// The experiment.
    pub(super) experiment: &'a Experiment,
    /// Who stands in front, and what it is told.
    pub(super) turn: Turn,
    /// The origin's capacity in requests a second.
    pub(super) capacity: f64,
    /// Which of how many runs at the same time it is.
    pub(super) job: usize,
    /// See `job`.
    pub(super) jobs: usize,
    /// The gateway's program.
    pub(super) gateway: &'a Path,
    /// The text of the contender's configuration where the experiment has its own.
    pub(super) policy: Option<&'a str>,
}

/// What came of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// What the contender says its version is.
    pub(super) version: String,
    /// The figures.
    pub(super) round: Round,
}

impl Run<'_> {
    /// Does it. An error is a reason why the contender could not take part.
    pub(super) async fn go(self) -> Result<Done> {
        let at = machine::minute();
        let scratch = scratch()?;
        let network = Network::make(&self.experiment.link)?;
        network.shape_by(self.gateway, &self.experiment.link)?;
        let split = Split::new(self.experiment.origin.computes(), self.job, self.jobs);
        flooding::prepare(self.experiment, &network, &split).await?;
        let (listen, processors) = (Network::ORIGIN, split.origin.as_deref());
        let namespace = Some(network.origin.as_str());
        let place = server::Place { scratch: scratch.path(), listen, namespace, processors };
        let mut origin = self.experiment.origin.start(&place).await?;
        let names = &self.experiment.names;
        // Ended when dropped, after the run.
        let _dns = match names.is_empty() {
            true => None,
            false => {
                let (dir, processors) = (scratch.path(), split.front.as_deref());
                Some(dns::start(names, dir, &network.gateway, processors).await?)
            }
        };
        let addresses = [Network::LISTEN, Network::ADMIN, Network::ORIGIN];
        let Turn { contender, slots, round: seed } = self.turn;
        let gateway = contender.is_ours().then_some(self.gateway);
        let place = FrontPlace {
            slots,
            rate: self.capacity,
            namespace: Some(&network.gateway),
            processors: split.front.as_deref(),
            template: self.policy,
            off: self.experiment.off.as_ref(),
            ..FrontPlace::new(scratch.path(), addresses, gateway)
        };
        let mut front = contender.start(&place).await?;
        let before = front.used()?;
        let target = match contender {
            Contender::None => Network::ORIGIN,
            _ => Network::LISTEN,
        };
        let populations = self.experiment.populations(self.capacity, &origin.paths)?;
        let hogs = hogs::start(self.experiment, scratch.path(), split.front.as_deref())?;
        let beside = Place { scratch: scratch.path(), network: &network, split: &split };
        let flooding = Flooding::start(self.experiment, target, seed, beside).await?;
        let watch = Watch::start(origin.pids());
        let front_watch = Watch::start(front.pid().into_iter().collect());
        let changes = Changes::start(self.experiment, &network);
        let report = match self.experiment.generator {
            Generator::Load => {
                let plan = Plan { target, seed, populations: populations.clone() };
                let apart: Vec<bool> = self.experiment.clients.iter().map(|it| it.apart).collect();
                apart::load(&plan, &apart, beside, self.experiment.patience()).await?
            }
            Generator::Httperf => {
                network.spread()?;
                let (scratch, processors) = (scratch.path(), split.load.as_deref());
                let namespace = Some(network.clients.as_str());
                let place = httperf::Place { target, scratch, namespace, processors };
                drive::httperf(self.experiment, &populations, &place).await?
            }
            Generator::Oha => {
                network.spread()?;
                let (namespace, processors) = (Some(&network.clients[..]), split.load.as_deref());
                let place = oha::Place { target, namespace, processors };
                drive::oha(self.experiment, &populations, &place).await?
            }
        };
        drop(hogs);
        changes.end().await?;
        let flooded = flooding.map(Flooding::stop).unwrap_or_default();
        let weak = || flooded.void(&self.experiment.floods, &self.experiment.phases);
        let (busy, front_busy) = (watch.stop(), front_watch.stop());
        if let Some(why) = front.ended().or_else(|| origin.ended()) {
            bail!("{why}");
        }
        let version = front.version.clone();
        let front_cpu_s = (front.used()? - before).as_secs_f64();
        let kernel_refused = kernel::refused(self.experiment, &network, contender).await?;
        let log = scratch.path().join(contender.name()).join("access.log");
        if log.exists() {
            tokio::time::sleep(LOG_DELAY).await;
        }
        drop(front);
        let waits = waits::read(&log, &populations, &report);
        let served = origin.stop().map(|counts| (counts.served + counts.wasted, counts.wasted));
        let observed = Observed {
            report: &report,
            phases: &self.experiment.phases,
            capacity: self.capacity,
            served,
            kernel_refused,
            front_cpu_s,
            waits: &waits,
            busy: &busy,
            front_busy: &front_busy,
            flood_sent: &flooded.sent,
            flood_arrived: &flooded.arrived,
        };
        let round = Round {
            seed,
            at: Some(at),
            void: report.void.clone().or_else(weak),
            values: self.experiment.measure.iter().map(|m| m.value(&observed)).collect(),
            lines: self.experiment.plot.iter().map(|p| p.values(&observed)).collect(),
            generator_cpu: report.cpu,
            lateness_ms: report.lateness_p99_ms,
            front_cpu_s,
        };
        Ok(Done { version, round })
    }
}
