//! The programs that the policy asks for, or what stands in for them, and what they are given.

mod fallback;
mod mend;

use super::gate::SynPolice;
use super::rules::{early, heads, judged_services, services};
use super::status::{KernelInterface, KernelPolicer, KernelRequests};
use crate::clock;
use crate::config::meant::{BlockInKernel, KernelSettings, Policy, Refusal, RequestsInKernel};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::admit::retry::Bounds;
use tiergate_core::early::again::Again;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::heads::{self, Heads};
use tiergate_core::early::pace::Pace;
use tiergate_core::early::{Early, REFUSED};
use tiergate_core::plan::Plan;
use tiergate_core::time::Moment;
use tiergate_kernel::{Fault, HttpGate, Lists, Service, Switches, SynCounts};

/// What connections that a rule refuses are counted as: no policer's name needs to be in parentheses.
const REFUSED_NAME: &str = "(refused)";

/// What is loaded.
#[derive(Debug, Default)]
pub(super) struct Programs {
    syn: Option<SynPolice>,
    http: Option<HttpGate>,
    /// Why SYNs are policed by nftables where the policy prefers a program.
    not_ebpf: Option<String>,
    /// Why the program for SYNs can be put at none of the interfaces.
    shut_out: Option<String>,
    /// The interface at which another's program was found last.
    taken: Option<String>,
    /// The rates of limits of nftables.
    paces: HashMap<PolicerId, Pace>,
    early: Early,
    heads: Heads,
    /// Whether the policy's rules are in the programs. If they are not, both are off.
    has_rules: bool,
    /// The addresses that they are for.
    services: Vec<Service>,
    /// Whom to keep out and let in, for how much longer from then on: while nothing polices SYNs, for what comes.
    lists: Option<(Lists, Moment)>,
    /// When what has failed is tried again.
    again: Again,
    /// When the program is, where nftables stands in for it.
    better: Again,
    /// What was last said of why it does.
    said: Option<String>,
}

/// What the programs are to carry out.
#[derive(Clone, Copy)]
pub(super) struct Orders<'a> {
    pub(super) settings: &'a KernelSettings,
    pub(super) policy: &'a Policy,
    /// The addresses of this machine.
    pub(super) here: &'a [IpAddr],
    /// Whether packets are policed now.
    pub(super) is_overload: bool,
    /// The rate of a policer that is in force; `None`: that of the policy.
    pub(super) rate: &'a dyn Fn(PolicerId) -> Option<Rate>,
}

/// What was counted since the programs were loaded.
#[derive(Debug, Default)]
pub(super) struct KernelCounts {
    /// SYNs in all.
    pub(super) total: SynCounts,
    /// SYNs by policer and class.
    pub(super) syns: Vec<KernelPolicer>,
    /// First requests by policer.
    pub(super) requests: Vec<KernelRequests>,
    /// Of these, those that were refused.
    pub(super) refused: Vec<(PolicerId, u64)>,
}

impl Programs {
    /// Loads and attaches what is not there, and gives the programs the policy's rules. Goes on after a fault of an interface. If the rules cannot be written, both
    /// programs are off, so that no packet is judged by those of a former policy. Not for a thread that serves: many rules take a while.
    pub(super) fn put_in_force(&mut self, orders: Orders<'_>) -> Result<(), Fault> {
        let done = self.try_to_put(orders);
        self.remember(&done, clock::now());
        done
    }

    fn try_to_put(&mut self, orders: Orders<'_>) -> Result<(), Fault> {
        let Orders { settings, policy, here, is_overload, .. } = orders;
        let done = self.load_syn(settings.mechanism);
        if settings.block == BlockInKernel::None {
            // The gate does not say any more that it has ended them all.
            self.unblock_all();
        }
        let done = done.and_then(|()| self.write_syn(orders));
        let done = done.and_then(|()| self.write_http(orders));
        self.has_rules = done.is_ok();
        if let Err(fault) = done.and_then(|()| self.switch(settings, is_overload)) {
            self.fail_open();
            return Err(fault);
        }
        self.services = services(&policy.listeners, here);
        // What has no program is refused by the gateway; the other one polices.
        let missing = self.load_http(orders);
        self.attach_or_fall_back(orders).and(missing)
    }

    fn write_syn(&mut self, orders: Orders<'_>) -> Result<(), Fault> {
        let Orders { settings, policy, here, rate, .. } = orders;
        self.early = early(policy);
        let rates = self.rates(&policy.plan, rate);
        let Some(syn) = &mut self.syn else { return Ok(()) };
        syn.keep_at(&settings.interfaces);
        let wanted = |id| at_first_packet(&policy.plan, &self.early, id, &rates);
        syn.put_in_force(&self.early, &services(&policy.listeners, here), wanted)
    }

    /// Writes the rules of the program for requests, if it is loaded; takes it away if the policy has nothing for it.
    fn write_http(&mut self, orders: Orders<'_>) -> Result<(), Fault> {
        let Orders { settings, policy, here, rate, .. } = orders;
        self.heads = Heads::default();
        if !settings.judges_requests() {
            self.http = None;
        }
        let Some(http) = &mut self.http else { return Ok(()) };
        self.heads = heads(policy);
        http.keep_at(&settings.interfaces);
        let wanted = |id| wanted(&policy.plan, id, rate(id));
        let answer = |id| match settings.requests {
            RequestsInKernel::Answer => {
                let rate = policy.plan.policer(id).map(|it| it.rate).unwrap_or_default();
                answer(heads::retry_after(rate, bounds(&policy.refusal)))
            }
            _ => Vec::new(),
        };
        http.put_in_force(&self.heads, &judged_services(policy, here), wanted, answer)
    }

    /// Loads the program for requests, if the policy asks for it and it is not there.
    fn load_http(&mut self, orders: Orders<'_>) -> Result<(), Fault> {
        let Orders { settings, is_overload, .. } = orders;
        if !settings.judges_requests() || self.http.is_some() {
            return Ok(());
        }
        self.http = Some(HttpGate::load()?);
        let done = self.write_http(orders);
        let done = done.and_then(|()| self.switch(settings, is_overload));
        done.inspect_err(|_| self.fail_open())
    }

    /// Puts the programs at those interfaces of the policy that they are not at.
    fn attach(&mut self, settings: &KernelSettings) -> Result<(), Fault> {
        let mut done = Ok(());
        self.shut_out = None;
        // Each, whatever becomes of the others.
        for interface in &settings.interfaces {
            let syn = self.syn.as_mut().map(|it| it.attach(interface));
            let http = self.http.as_mut().map(|it| it.attach(interface));
            if let Some(Err(fault @ (Fault::Attach { .. } | Fault::Taken { .. }))) = &syn {
                self.shut_out = Some(fault.to_string());
            }
            for attached in [syn, http].into_iter().flatten() {
                done = done.and(attached.map(drop));
            }
        }
        done
    }

    /// Switches both programs off, whatever was in force: every packet passes until the next attempt. One that cannot be switched off is taken away, as are rules of nftables.
    fn fail_open(&mut self) {
        (self.early, self.heads, self.has_rules) = (Early::default(), Heads::default(), false);
        self.not_ebpf = None;
        let off = Switches::default();
        if self.syn.as_mut().is_some_and(|it| it.is_nft() || it.switch(off).is_err()) {
            self.set_aside();
        }
        if self.http.as_mut().is_some_and(|it| it.switch(false).is_err()) {
            self.http = None;
        }
    }

    /// Whether all programs of the policy are loaded and have its rules.
    fn has_rules(&self, settings: &KernelSettings) -> bool {
        let has_http = self.http.is_some() || !settings.judges_requests();
        self.has_rules && has_http
    }

    /// Whether the rules are for other addresses than the listeners have now.
    fn is_elsewhere(&self, policy: &Policy, here: &[IpAddr]) -> bool {
        self.has_rules && self.services != services(&policy.listeners, here)
    }

    /// Whether the programs are at all interfaces. Interfaces may have gone, and others have their names.
    fn is_attached(&mut self, settings: &KernelSettings) -> bool {
        let all = settings.interfaces.len();
        let syn = self.syn.as_mut().is_some_and(|it| {
            it.keep_at(&settings.interfaces);
            it.places() == all
        });
        let http = self.http.as_mut().is_none_or(|it| {
            it.keep_at(&settings.interfaces);
            it.interfaces().count() == all
        });
        syn && http
    }

    /// Begins or ends policing; without the policy's rules both programs stay off.
    pub(super) fn switch(
        &mut self,
        settings: &KernelSettings,
        is_overload: bool,
    ) -> Result<(), Fault> {
        if !self.has_rules {
            return Ok(());
        }
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
        let rates = self.rates(plan, &rate);
        for id in &self.early.policers {
            let wanted = at_first_packet(plan, &self.early, *id, &rates);
            if let (Some(syn), Some(wanted)) = (&mut self.syn, wanted) {
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
        for client in clients {
            match &mut self.syn {
                // A client that could not be let in is policed as others are.
                Some(syn) => drop(syn.let_in(*client, lasting)),
                None => self.keep_for_later(|it| &mut it.let_in, *client, lasting),
            }
        }
    }

    /// Keeps a client out for a while; what fails here the gate does.
    pub(super) fn block(&mut self, client: IpAddr, lasting: Duration) {
        match &mut self.syn {
            Some(syn) => drop(syn.block(client, lasting)),
            None => self.keep_for_later(|it| &mut it.blocked, client, lasting),
        }
    }

    /// Ends all blocks.
    pub(super) fn unblock_all(&mut self) {
        self.syn.iter_mut().for_each(SynPolice::unblock_all);
        self.lists.iter_mut().for_each(|(lists, _)| lists.blocked.clear());
    }

    /// Whether there is anything to police, by a program that gets packets.
    pub(super) fn can_police(&self) -> bool {
        let syn = self.syn.as_ref().is_some_and(|it| it.places() > 0);
        let http = self.http.as_ref().is_some_and(|it| it.interfaces().next().is_some());
        let (early, heads) = (&self.early.policers, &self.heads.policers);
        self.has_rules && (syn && !early.is_empty() || http && !heads.is_empty())
    }

    /// How many networks and paths have a rule.
    pub(super) fn sizes(&self) -> (usize, usize) {
        let networks = if self.early.policers.is_empty() { 0 } else { self.early.networks() };
        (networks, self.heads.listeners.iter().map(Vec::len).sum())
    }

    /// What was counted. A system call for each policer and class of a program; of nftables one for all.
    pub(super) fn counts(&mut self, plan: &Plan) -> KernelCounts {
        let (requests, refused) = self.requests(plan);
        KernelCounts {
            total: self.syn.as_mut().and_then(|syn| syn.counts().ok()).unwrap_or_default(),
            syns: self.syns(plan),
            requests,
            refused,
        }
    }

    /// The policers of which connections take a token at their first packet.
    pub(super) fn at_first_packets(&self) -> &[PolicerId] {
        let is_there = self.syn.as_ref().is_some_and(|it| it.places() > 0);
        if is_there { &self.early.policers } else { &[] }
    }

    fn syns(&self, plan: &Plan) -> Vec<KernelPolicer> {
        let mut all = Vec::new();
        let Some(syn) = &self.syn else { return all };
        for id in &self.early.policers {
            let settings = plan.policer(*id);
            let name = match settings {
                Some(settings) => settings.name.as_str(),
                None if *id == REFUSED => REFUSED_NAME,
                None => continue,
            };
            for (key, counts) in syn.bucket_counts(*id) {
                let class = key.and_then(|key| {
                    let mut shares = settings?.shares.iter();
                    let share = shares.find(|it| it.class.index() as u64 == key)?;
                    Some(plan.class(share.class)?.name.clone())
                });
                all.push(KernelPolicer {
                    policer: name.to_owned(),
                    class: class.unwrap_or_default(),
                    passed: counts.passed,
                    overflow: counts.overflow,
                    dropped: counts.dropped,
                });
            }
        }
        all
    }

    fn requests(&self, plan: &Plan) -> (Vec<KernelRequests>, Vec<(PolicerId, u64)>) {
        let Some(http) = &self.http else { return Default::default() };
        let of = |id: &PolicerId| {
            // What cannot be read for once is not zero.
            let counts = http.counts(*id).ok()?;
            let (passed, refused) = (counts.passed, counts.dropped);
            let policer = plan.policer(*id)?.name.clone();
            Some((KernelRequests { policer, passed, refused }, (*id, refused)))
        };
        self.heads.policers.iter().filter_map(of).unzip()
    }

    /// The interfaces of the policy, and which way the programs are there.
    pub(super) fn interfaces(&self, settings: &KernelSettings) -> Vec<KernelInterface> {
        let way = |name: &str| {
            self.syn.as_ref().and_then(|syn| syn.way(name)).map(|way| way.name().to_owned())
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

/// The bucket that connections draw on at their first packet, at these rates.
fn at_first_packet(
    plan: &Plan,
    early: &Early,
    id: PolicerId,
    rates: &HashMap<PolicerId, Rate>,
) -> Option<Wanted> {
    let like = early.settings_of(id);
    let wanted = wanted(plan, like, rates.get(&like).copied())?;
    Some(if id == REFUSED { wanted.undivided() } else { wanted })
}

/// The bucket of a policer, at the rate that is in force.
fn wanted(plan: &Plan, id: PolicerId, rate: Option<Rate>) -> Option<Wanted> {
    let settings = plan.policer(id)?;
    Wanted::of(settings, rate.unwrap_or(settings.rate)).ok()
}

/// The bounds of all that clients are told.
fn bounds(refusal: &Refusal) -> Bounds {
    Bounds { min: refusal.retry_after, max: refusal.retry_after_max }
}

/// What a client gets without a token, to whatever method: when it may come again. A multiple of four bytes, which the kernel sums up.
fn answer(after: u64) -> Vec<u8> {
    let head = format!("HTTP/1.1 429 Too Many Requests\r\nRetry-After: {after}");
    // Without a body it answers HEAD, too.
    let rest = "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let spaces = (head.len() + rest.len()).next_multiple_of(4) - head.len() - rest.len();
    [head.as_str(), &"   "[..spaces], rest].concat().into_bytes()
}

#[cfg(test)]
mod tests;
