//! A phase of an experiment by two generators: ours, and oha, which is not ours, each in a run of its own.
//!
//! That what our generator says of a contender does not come from our generator: another one asks for the same and
//! counts for itself. Both send their requests evenly spaced, each on a connection of its own, to a server that has just
//! been started.

use super::experiment::{Clients, Experiment, Generator};
use super::measure::Taken;
use super::oha;
use super::result::{Beside, BesideRow};
use super::run::Turn;
use super::settings::Settings;
use super::turns::Lab;
use crate::contender::Contender;
use crate::load::Arrivals;
use anyhow::Result;

/// Who is measured twice.
const CONTENDERS: [Contender; 3] = [Contender::None, Contender::Tiergate, Contender::Haproxy];

impl Experiment {
    /// The phase that is measured twice, as an experiment of its own by that generator; `None`: there is none.
    fn by(&self, generator: Generator) -> Option<Self> {
        let name = self.beside.as_ref()?;
        let phase = self.phase(name)?;
        let clients = |clients: &Clients| {
            let mut evenly = clients.clone();
            evenly.rate = vec![clients.rate.get(phase).unwrap_or(&clients.rate[0]).clone()];
            evenly.arrivals = Arrivals::Constant;
            evenly.close = true;
            evenly
        };
        let by = if generator == Generator::Oha { "oha" } else { "ours" };
        Some(Self {
            // What the store calls it, within the experiment.
            name: format!("{}.{name}-{by}", self.name),
            phases: vec![self.phases[phase].clone()],
            clients: self.clients.iter().map(clients).collect(),
            generator,
            beside: None,
            measure: self.clients.iter().flat_map(|c| Taken::of_clients(&c.name)).collect(),
            plot: Vec::new(),
            promise: Vec::new(),
            ..self.clone()
        })
    }

    /// Runs that measuring a phase twice takes, and what one is.
    pub(super) fn runs_beside(&self, settings: &Settings) -> Option<(usize, Self)> {
        let one = self.by(Generator::Load).filter(|_| !settings.check && oha::program().is_ok())?;
        let contenders = self.contenders(settings);
        Some((2 * contenders.iter().filter(|c| CONTENDERS.contains(c)).count(), one))
    }
}

impl Lab<'_> {
    /// Measures the phase, with each contender as many slots as in the comparison. A check has no use for it.
    pub(super) async fn beside(
        &mut self,
        experiment: &Experiment,
        capacity: f64,
        contenders: &[Contender],
        slots: impl Fn(Contender) -> u32,
    ) -> Result<Option<Beside>> {
        let both = experiment.by(Generator::Load).zip(experiment.by(Generator::Oha));
        let Some((ours, other)) = both.filter(|_| !self.settings.check) else { return Ok(None) };
        let generator = match oha::version().await {
            Ok(version) => version,
            Err(why) => {
                println!("  not by another generator: {why:#}");
                return Ok(None);
            }
        };
        let twice = contenders.iter().filter(|contender| CONTENDERS.contains(contender));
        let turn = |&contender| Turn { contender, slots: slots(contender), round: 1 };
        let turns: Vec<Turn> = twice.map(turn).collect();
        let measures = ours.measure.iter().map(Taken::measure).collect();
        let phase = ours.phases[0].clone();
        let mut runs = Vec::new();
        for one in [&ours, &other] {
            match self.turns(one, capacity, &turns).await {
                Ok(outcomes) => runs.push(outcomes),
                // The comparison itself stands without it.
                Err(why) => {
                    println!("  not by {generator}: {why:#}");
                    return Ok(None);
                }
            }
        }
        let [ours, other] = <[_; 2]>::try_from(runs).expect("there are two generators");
        let row = |((turn, ours), other): ((&Turn, _), _)| {
            let (Some(Ok(ours)), Some(Ok(other))) = (ours, other) else { return None };
            Some(BesideRow { name: turn.contender.name().into(), ours, other })
        };
        let rows = turns.iter().zip(ours).zip(other).filter_map(row).collect();
        Ok(Some(Beside { generator, phase, measures, rows }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_phase_is_asked_for_alike_by_both() {
        let text = include_str!("../../experiments/app-go.toml");
        let experiment = Experiment::read("app-go", text).unwrap();
        let other = experiment.by(Generator::Oha).unwrap();
        assert_eq!((other.name.as_str(), other.generator), ("app-go.3x-oha", Generator::Oha));
        assert_eq!((other.phases.len(), other.phases[0].name.as_str()), (1, "3x"));
        let populations = other.populations(100.0, &[]).unwrap();
        let rates: Vec<f64> = populations.iter().map(|p| p.steps[0].rate.round()).collect();
        assert_eq!(rates, [20.0, 280.0]);
        let alike = |p: &crate::load::Population| p.arrivals == Arrivals::Constant && !p.keep_alive;
        assert!(populations.iter().all(alike));
        let measures: Vec<String> = other.measure.iter().map(|m| m.name.clone()).collect();
        let expected = ["premium answered", "premium p99", "basic answered", "basic p99"];
        assert_eq!(measures, expected);
        let ours = experiment.by(Generator::Load).unwrap();
        assert_eq!(ours.populations(100.0, &[]).unwrap(), populations);
        let none = text.replace("beside = \"3x\"\n", "");
        assert!(Experiment::read("app-go", &none).unwrap().by(Generator::Oha).is_none());
    }
}
