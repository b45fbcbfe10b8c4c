//! All runs of an experiment: whose turn it is.

use super::experiment::Experiment;
use super::result::{ContenderResult, ExperimentResult};
use super::turns::{Lab, Turn};
use super::{measure, search};
use crate::contender::Contender;
use anyhow::Result;
use std::collections::BTreeMap;

impl Lab<'_> {
    /// All rounds of all contenders. The order of the contenders turns from round to round, so
    /// that what changes on the machine meets all alike.
    pub(super) async fn experiment(&mut self, experiment: &Experiment) -> Result<ExperimentResult> {
        self.progress.experiment(&experiment.title);
        let capacity = match experiment.origin.capacity() {
            Some(capacity) => capacity,
            None => self.store.capacity(experiment).await?,
        };
        let only = &self.settings.contenders;
        let wanted = |c: &Contender| only.is_empty() || only.contains(c);
        let contenders: Vec<Contender> =
            experiment.contenders().into_iter().filter(wanted).collect();
        let mut slots = BTreeMap::new();
        let mut setting = None;
        // A check is quick: haproxy has the limit that its operator configures.
        let searches = !self.settings.check && !experiment.search.is_empty();
        if searches && contenders.contains(&Contender::Haproxy) {
            let found = search::best(self, experiment, capacity).await?;
            slots.insert(Contender::Haproxy.name(), found.slots);
            setting = Some(found.words);
        }
        let usual = experiment.origin.slots();
        let mut turns = Vec::new();
        for round in 0..self.settings.rounds as usize {
            for turn in 0..contenders.len() {
                let contender = contenders[(round + turn) % contenders.len()];
                let slots = slots.get(contender.name()).copied().unwrap_or(usual);
                turns.push(Turn { contender, slots, round: round as u64 + 1 });
            }
        }
        let outcomes = self.turns(experiment, capacity, &turns).await?;
        let result = |contender: Contender| {
            let own = turns.iter().zip(&outcomes).filter(|(turn, _)| turn.contender == contender);
            let mut own: Vec<_> = own.collect();
            own.sort_by_key(|(turn, _)| turn.round);
            ContenderResult {
                name: contender.name().into(),
                about: contender.about().into(),
                left_out: own
                    .iter()
                    .find_map(|(_, outcome)| outcome.as_ref()?.as_ref().err().cloned()),
                setting: setting.clone().filter(|_| contender == Contender::Haproxy),
                rounds: own
                    .iter()
                    .filter_map(|(_, outcome)| outcome.as_ref()?.as_ref().ok().cloned())
                    .collect(),
            }
        };
        Ok(ExperimentResult {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            asks: experiment.asks.clone(),
            remarks: experiment.remarks.clone(),
            capacity,
            phases: experiment.phases.clone(),
            measures: experiment.measure.iter().map(measure::Taken::measure).collect(),
            plots: experiment.plot.iter().map(measure::Line::plot).collect(),
            contenders: contenders.iter().copied().map(result).collect(),
        })
    }
}
