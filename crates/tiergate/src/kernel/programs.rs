//! The programs that the policy asks for, and what they are given.

use super::rules::{early, heads, plain_services, services};
use super::status::{KernelInterface, KernelPolicer, KernelRequests};
use crate::config::meant::{BlockInKernel, KernelSettings, Policy, RequestsInKernel};
use std::net::IpAddr;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::early::Early;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::heads::Heads;
use tiergate_core::plan::Plan;
use tiergate_kernel::{Fault, HttpGate, Switches, SynCounts, SynGate};

/// What is loaded.
#[derive(Debug, Default)]
pub(super) struct Programs {
    syn: Option<SynGate>,
    http: Option<HttpGate>,
    early: Early,
    heads: Heads,
}

impl Programs {
    /// Loads and attaches what is not there, and gives the programs the policy's rules; `rate`: that in force of a policer. Goes on after a fault of an interface. Not for a thread that serves:
    /// many rules take a while.
    pub(super) fn put_in_force(
        &mut self,
        settings: &KernelSettings,
        policy: &Policy,
        here: &[IpAddr],
        is_overload: bool,
        rate: impl Fn(PolicerId) -> Option<Rate>,
    ) -> Result<(), Fault> {
        let wanted = |id| wanted(&policy.plan, id, rate(id));
        (self.early, self.heads) = (early(policy), Heads::default());
        let syn = match &mut self.syn {
            Some(syn) => syn,
            none => none.insert(SynGate::load()?),
        };
        syn.keep_at(&settings.interfaces);
        syn.put_in_force(&self.early, &services(&policy.listeners, here), wanted)?;
        syn.switch(switches(settings, is_overload))?;
        // Each, whatever becomes of the others.
        let attached: Vec<_> = settings.interfaces.iter().map(|it| syn.attach(it)).collect();
        if settings.requests == RequestsInKernel::Pass {
            self.http = None;
            return attached.into_iter().try_for_each(|it| it.map(drop));
        }
        self.heads = heads(policy);
        let http = match &mut self.http {
            Some(http) => http,
            none => none.insert(HttpGate::load()?),
        };
        http.keep_at(&settings.interfaces);
        let answer = |id| match settings.requests {
            RequestsInKernel::Answer => answer(policy.plan.policer(id).map(|it| it.rate)),
            _ => Vec::new(),
        };
        let services = plain_services(&policy.listeners, here);
        http.put_in_force(&self.heads, &services, wanted, answer)?;
        http.switch(settings.police && is_overload)?;
        let at_ingress: Vec<_> = settings.interfaces.iter().map(|it| http.attach(it)).collect();
        attached.into_iter().chain(at_ingress).try_for_each(|it| it.map(drop))
    }

    /// Whether all that is asked for is there. Interfaces may have gone, and others have their names.
    pub(super) fn is_whole(&mut self, settings: &KernelSettings) -> bool {
        let all = settings.interfaces.len();
        let syn = self.syn.as_mut().is_some_and(|it| {
            it.keep_at(&settings.interfaces);
            it.interfaces().count() == all
        });
        let http = self.http.as_mut().map(|it| {
            it.keep_at(&settings.interfaces);
            it.interfaces().count() == all
        });
        syn && http.unwrap_or(settings.requests == RequestsInKernel::Pass)
    }

    /// Begins or ends policing.
    pub(super) fn switch(
        &mut self,
        settings: &KernelSettings,
        is_overload: bool,
    ) -> Result<(), Fault> {
        if let Some(syn) = &mut self.syn {
            syn.switch(switches(settings, is_overload))?;
        }
        match &mut self.http {
            Some(http) => http.switch(settings.police && is_overload),
            None => Ok(()),
        }
    }

    /// Passes on the rates that are in force.
    pub(super) fn set_rates(
        &mut self,
        plan: &Plan,
        rate: impl Fn(PolicerId) -> Option<Rate>,
    ) -> Result<(), Fault> {
        for id in &self.early.policers {
            if let (Some(syn), Some(wanted)) = (&mut self.syn, wanted(plan, *id, rate(*id))) {
                syn.set_bucket(*id, wanted)?;
            }
        }
        for id in &self.heads.policers {
            if let (Some(http), Some(wanted)) = (&mut self.http, wanted(plan, *id, rate(*id))) {
                http.set_bucket(*id, wanted)?;
            }
        }
        Ok(())
    }

    /// Lets clients in for a while.
    pub(super) fn let_in(&mut self, clients: &[IpAddr], lasting: Duration) {
        let Some(syn) = &mut self.syn else { return };
        // A client that could not be let in is policed as others are.
        clients.iter().for_each(|client| drop(syn.let_in(*client, lasting)));
    }

    /// Keeps a client out for a while; what fails here the gate does.
    pub(super) fn block(&self, client: IpAddr, lasting: Duration) {
        self.syn.iter().for_each(|syn| drop(syn.block(client, lasting)));
    }

    /// Ends all blocks.
    pub(super) fn unblock_all(&self) {
        self.syn.iter().for_each(SynGate::unblock_all);
    }

    /// Whether there is anything to police.
    pub(super) fn polices(&self) -> bool {
        !self.early.policers.is_empty() || !self.heads.policers.is_empty()
    }

    /// How many networks and paths have a rule.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.early.networks(), self.heads.listeners.iter().map(Vec::len).sum())
    }

    /// SYNs in all.
    pub(super) fn total(&self) -> SynCounts {
        self.syn.as_ref().and_then(|syn| syn.counts().ok()).unwrap_or_default()
    }

    /// SYNs by policer and class.
    pub(super) fn syns(&self, plan: &Plan) -> Vec<KernelPolicer> {
        let mut all = Vec::new();
        let Some(syn) = &self.syn else { return all };
        for id in &self.early.policers {
            let Some(settings) = plan.policer(*id) else { continue };
            for (key, counts) in syn.bucket_counts(*id).unwrap_or_default() {
                let class = key.and_then(|key| {
                    let share = settings.shares.iter().find(|it| it.class.index() as u64 == key)?;
                    Some(plan.class(share.class)?.name.clone())
                });
                all.push(KernelPolicer {
                    policer: settings.name.clone(),
                    class: class.unwrap_or_default(),
                    passed: counts.passed,
                    overflow: counts.overflow,
                    dropped: counts.dropped,
                });
            }
        }
        all
    }

    /// First requests by policer.
    pub(super) fn requests(&self, plan: &Plan) -> Vec<KernelRequests> {
        let Some(http) = &self.http else { return Vec::new() };
        let of = |id: &PolicerId| {
            let counts = http.counts(*id).unwrap_or_default();
            let policer = plan.policer(*id)?.name.clone();
            Some(KernelRequests { policer, passed: counts.passed, refused: counts.dropped })
        };
        self.heads.policers.iter().filter_map(of).collect()
    }

    /// The interfaces of the policy, and which way the programs are there.
    pub(super) fn interfaces(&self, settings: &KernelSettings) -> Vec<KernelInterface> {
        let way = |name: &str| {
            let mut all = self.syn.iter().flat_map(|syn| syn.interfaces());
            all.find(|(it, _)| *it == name).map(|(_, way)| way.name().to_owned())
        };
        let ingress = |name: &str| {
            self.http.iter().flat_map(|http| http.interfaces()).any(|(it, _)| it == name)
        };
        let interface = |name: &String| KernelInterface {
            name: name.clone(),
            way: way(name),
            ingress: ingress(name),
        };
        settings.interfaces.iter().map(interface).collect()
    }
}

fn switches(settings: &KernelSettings, is_overload: bool) -> Switches {
    Switches {
        police: settings.police && is_overload,
        block: settings.block != BlockInKernel::None,
        block_all: settings.block == BlockInKernel::All,
    }
}

/// The bucket of a policer, at the rate that is in force.
fn wanted(plan: &Plan, id: PolicerId, rate: Option<Rate>) -> Option<Wanted> {
    let settings = plan.policer(id)?;
    Wanted::of(settings, rate.unwrap_or(settings.rate)).ok()
}

/// Longest that a client is told to stay away, in seconds.
const RETRY_AFTER_MAX: f64 = 3600.0;

/// What a client gets without a token: when the next comes, if no one else takes it. A multiple of four bytes, which the kernel sums up.
fn answer(rate: Option<Rate>) -> Vec<u8> {
    let rate = rate.map_or(1.0, Rate::tokens_per_second);
    let after = (1.0 / rate).ceil().clamp(1.0, RETRY_AFTER_MAX) as u32;
    let text = |body: &str| {
        format!(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: {after}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let mut body = "Too many requests.\n".to_owned();
    while !text(&body).len().is_multiple_of(4) {
        body.insert(body.len() - 1, ' ');
    }
    text(&body).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_whole_and_say_when_the_next_token_comes() {
        for (rate, wanted) in [
            (Rate::per_second(50), "Retry-After: 1\r\n"),
            (Rate::per_minute(7), "Retry-After: 9\r\n"),
            (Rate::per_minute(1), "Retry-After: 60\r\n"),
            (Rate::default(), "Retry-After: 3600\r\n"),
        ] {
            let answer = String::from_utf8(answer(Some(rate))).expect("text");
            assert!(answer.contains(wanted), "{answer}");
            assert!(answer.len().is_multiple_of(4) && answer.len() <= 256, "{}", answer.len());
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.contains(&format!("Content-Length: {}", body.len())), "{answer}");
        }
    }
}
