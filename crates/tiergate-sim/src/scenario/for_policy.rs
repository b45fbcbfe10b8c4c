//! A scenario's requests, classified by a policy, as a trial.

use super::Scenario;
use crate::asked::{Described, Mix, Sorted, clients, split_query};
use crate::client::Population;
use crate::demand::{DEMANDS_MAX, Demand, Work};
use crate::fault::{Fault, Source};
use crate::trial::Trial;
use std::time::Duration;
use tiergate_core::origin::OnCancel;
use tiergate_core::plan::Plan;
use tiergate_core::request::Field;

/// What a policy file says of the gateway, as far as it matters here.
#[derive(Clone, Debug)]
pub struct Gateway {
    /// Classes, slots, policers and so on.
    pub plan: Plan,
    /// Whether it knows which sessions run.
    pub sessions: bool,
    /// How long it waits for an answer.
    pub origin_timeout: Duration,
    /// What becomes of requests whose clients left.
    pub on_cancel: OnCancel,
}

impl Scenario {
    /// The trial of a scenario that was checked for the policy ([`Scenario::check_for_policy`]), whose
    /// rates are read. `sort` says what the policy makes of a request, or why it cannot be asked.
    ///
    /// # Errors
    /// A request that `sort` does not take, or too many of them, at its line.
    pub fn for_policy(
        &self,
        source: Source<'_>,
        gateway: Gateway,
        sort: &mut dyn FnMut(&Described<'_>) -> Result<Sorted, String>,
    ) -> Result<Trial, Fault> {
        let mut demands = Vec::new();
        let mut mixes = Vec::with_capacity(self.population.len());
        for (place, population) in self.population.iter().enumerate() {
            let mix = mix(population, &mut demands, sort).map_err(|(request, fault)| {
                let way = ["population".into(), place.into(), "request".into(), request.into()];
                source.fault(&way, fault)
            })?;
            mixes.push(mix);
        }
        Ok(Trial {
            seconds: self.seconds,
            cuts_s: self.cuts_s.clone(),
            plan: gateway.plan,
            law: None,
            sessions: gateway.sessions,
            origin_timeout: Some(gateway.origin_timeout),
            on_cancel: gateway.on_cancel,
            gateways: self.gateway.clone(),
            server: self.server.clone(),
            populations: self.population.clone(),
            mixes,
            demands,
            replay: Vec::new(),
        })
    }
}

/// Adds the demands of a population, by request and client.
fn mix(
    population: &Population,
    demands: &mut Vec<Demand>,
    sort: &mut dyn FnMut(&Described<'_>) -> Result<Sorted, String>,
) -> Result<Mix, (usize, String)> {
    let clients = clients(&population.clients).expect("checked when the scenario was read");
    let first = demands.len() as u32;
    let mut weights = Vec::with_capacity(population.request.len());
    let mut sum = 0.0;
    for (place, asked) in population.request.iter().enumerate() {
        sum += asked.weight;
        weights.push(sum);
        if demands.len() + clients.len() > DEMANDS_MAX {
            let most = format!("{DEMANDS_MAX} requests times clients are the most there may be");
            return Err((place, most));
        }
        let fields: Vec<Field<'_>> = population
            .header
            .iter()
            .chain(&asked.header)
            .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() })
            .collect();
        let (path, query) = split_query(&asked.path);
        for &client in &clients {
            let described = Described {
                method: asked.method.as_bytes(),
                path: path.as_bytes(),
                query: query.as_bytes(),
                host: population.host.as_bytes(),
                fields: &fields,
                client,
                known: &population.known,
            };
            let Sorted { arrival, refused, repeatable } =
                sort(&described).map_err(|fault| (place, fault))?;
            let work = Work { times: asked.times, more_ns: 0 };
            demands.push(Demand { arrival, refused, repeatable, work, bytes: asked.bytes });
        }
    }
    Ok(Mix { first, clients: clients.len() as u32, weights })
}
