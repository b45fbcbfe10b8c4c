//! All runs of an experiment: whose turn it is.

use super::experiment::Experiment;
use super::result::{ContenderResult, ExperimentResult};
use super::run::Turn;
use super::turns::{Lab, policy};
use super::{machine, measure, search};
use crate::contender::Contender;
use anyhow::Result;

impl Lab<'_> {
    /// All rounds of all contenders. The order of the contenders turns from round to round, so
    /// that what changes on the machine meets all alike.
    pub(super) async fn experiment(&mut self, experiment: &Experiment) -> Result<ExperimentResult> {
        self.progress.experiment(&experiment.title);
        let contenders = experiment.contenders(self.settings);
        let told = |contender: &Contender| Ok((*contender, policy(experiment, *contender)?));
        let told = contenders.iter().map(told).collect::<Result<Vec<_>>>()?;
        let machine = machine::machine(self.settings.jobs.unwrap_or_else(machine::Split::jobs));
        self.store.sit(experiment, &told, &self.gateway, &machine.identity())?;
        let capacity = match experiment.origin.capacity() {
            Some(capacity) => capacity,
            None => self.store.capacity(experiment).await?,
        };
        // A check is quick: who is searched for has the limit that its operator configures.
        let searched = experiment.searched(&contenders).filter(|_| !self.settings.check);
        let found = match searched {
            Some(contender) => Some(search::best(self, experiment, contender, capacity).await?),
            None => None,
        };
        let found_for = |contender| found.as_ref().filter(|_| searched == Some(contender));
        let usual = experiment.origin.slots();
        let slots = |contender| found_for(contender).map_or(usual, |found| found.slots);
        let mut turns = Vec::new();
        for round in 0..self.settings.rounds as usize {
            for turn in 0..contenders.len() {
                let contender = contenders[(round + turn) % contenders.len()];
                turns.push(Turn { contender, slots: slots(contender), round: round as u64 + 1 });
            }
        }
        let outcomes = self.turns(experiment, capacity, &turns).await?;
        let beside = self.beside(experiment, capacity, &contenders, slots).await?;
        let result = |contender: Contender| {
            // In the order of the rounds, in each of which a contender has one turn.
            let own = turns.iter().zip(&outcomes).filter(|(turn, _)| turn.contender == contender);
            let own = || own.clone().filter_map(|(_, outcome)| outcome.as_ref());
            ContenderResult {
                name: contender.name().into(),
                about: contender.about().into(),
                left_out: own().find_map(|outcome| outcome.as_ref().err().cloned()),
                setting: found_for(contender).map(|found| found.words.clone()),
                rounds: own().filter_map(|outcome| outcome.as_ref().ok().cloned()).collect(),
            }
        };
        Ok(ExperimentResult {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            asks: experiment.asks.clone(),
            remarks: experiment.remarks.clone(),
            capacity,
            sitting: None,
            phases: experiment.phases.clone(),
            measures: experiment.measure.iter().map(measure::Taken::measure).collect(),
            plots: experiment.plot.iter().map(measure::Line::plot).collect(),
            contenders: contenders.iter().copied().map(result).collect(),
            beside,
        })
    }
}
