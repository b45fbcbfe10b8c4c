//! Which mechanism polices SYNs: the program, or rules of nftables where it cannot be had. What is first in the policy's order, and there, is in force; the others are tried again.

use super::{Orders, Programs};
use crate::clock;
use crate::config::meant::{KernelSettings, Mechanism};
use crate::kernel::gate::SynPolice;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::early::pace::Pace;
use tiergate_core::plan::Plan;
use tiergate_kernel::{Fault, Lists};

/// Most clients of a list that are added while nothing polices SYNs.
const KEPT_MAX: usize = 16_384;

impl Programs {
    /// Loads what polices SYNs, unless it is there.
    pub(super) fn load_syn(&mut self, mechanism: Mechanism) -> Result<(), Fault> {
        // A policy that has just begun to prefer the program is given the choice.
        let is_free = mechanism != Mechanism::Auto || self.not_ebpf.is_some();
        let stays = |it: &SynPolice| it.suits(mechanism) && (is_free || !it.is_nft());
        if self.syn.as_ref().is_some_and(stays) {
            // What was preferred may be so no more.
            self.not_ebpf = self.not_ebpf.take().filter(|_| mechanism == Mechanism::Auto);
            return Ok(());
        }
        // Not both at a time.
        self.set_aside();
        (self.not_ebpf, self.shut_out) = (None, None);
        let (syn, not_ebpf) = SynPolice::load(mechanism)?;
        self.install(syn);
        self.not_ebpf = not_ebpf;
        Ok(())
    }

    /// Takes away what polices SYNs. Whom it keeps out and lets in is remembered for what comes in its place.
    pub(super) fn set_aside(&mut self) {
        if let Some(former) = self.syn.take() {
            self.lists = Some((former.lists(), clock::now()));
        }
    }

    /// Remembers a client of a list for what comes: the gate does not say it again soon. Those beyond [`KEPT_MAX`] are forgotten.
    pub(super) fn keep_for_later(
        &mut self,
        list: fn(&mut Lists) -> &mut Vec<(IpAddr, Duration)>,
        client: IpAddr,
        lasting: Duration,
    ) {
        let now = clock::now();
        let (lists, since) = self.lists.get_or_insert_with(|| (Lists::default(), now));
        let passed = now.since(*since);
        // Once a second: it goes through all.
        if list(lists).len() >= KEPT_MAX && passed >= Duration::from_secs(1) {
            (*lists, *since) = (std::mem::take(lists).after(passed), now);
        }
        let (list, passed) = (list(lists), now.since(*since));
        if list.len() < KEPT_MAX {
            list.push((client, lasting.saturating_add(passed)));
        }
    }

    /// Has it police SYNs, and keep out and let in whom that did which was set aside.
    fn install(&mut self, mut syn: SynPolice) {
        if let Some((lists, since)) = self.lists.take() {
            hand_over(&lists.after(clock::now().since(since)), &mut syn);
        }
        self.syn = Some(syn);
    }

    /// The rates that are to be in force at first packets; those of nftables follow with care.
    pub(super) fn rates(
        &mut self,
        plan: &Plan,
        rate: impl Fn(PolicerId) -> Option<Rate>,
    ) -> HashMap<PolicerId, Rate> {
        let (is_paced, now) = (self.syn.as_ref().is_some_and(SynPolice::is_nft), clock::now());
        let policers = &self.early.policers;
        self.paces.retain(|id, _| policers.contains(id));
        let mut rates = HashMap::new();
        for id in policers {
            let Some(most) = plan.policer(*id).map(|it| it.rate) else { continue };
            let wanted = rate(*id).unwrap_or(most);
            let pace = self.paces.entry(*id).or_insert_with(|| Pace::new(now, wanted, most));
            let paced = pace.follow(now, wanted, most);
            rates.insert(*id, if is_paced { paced } else { wanted });
        }
        rates
    }

    /// Whether the program for SYNs can be put at no interface, and others may police.
    fn is_shut_out(&self, settings: &KernelSettings) -> bool {
        let is_ebpf = self.syn.as_ref().is_some_and(|it| !it.is_nft() && it.places() == 0);
        settings.mechanism == Mechanism::Auto && is_ebpf && self.shut_out.is_some()
    }

    /// Puts the programs at the interfaces, or nftables where the one for SYNs can be put at none.
    pub(super) fn attach_or_fall_back(&mut self, orders: Orders<'_>) -> Result<(), Fault> {
        match self.attach(orders.settings) {
            Err(fault) if self.is_shut_out(orders.settings) => self.fall_back(fault, orders),
            done => done,
        }
    }

    /// Has nftables police in the place of a program that can be put nowhere; without it the program stays, for the next attempt.
    fn fall_back(&mut self, fault: Fault, orders: Orders<'_>) -> Result<(), Fault> {
        let nft = SynPolice::nft().map_err(|nftables| Fault::Neither {
            ebpf: Box::new(fault),
            nftables: Box::new(nftables),
        })?;
        let why = self.shut_out.take();
        self.set_aside();
        self.install(nft);
        let done = self.write_syn(orders);
        let done = done.and_then(|()| self.switch(orders.settings, orders.is_overload));
        done.inspect_err(|_| self.fail_open())?;
        let done = self.attach(orders.settings);
        self.not_ebpf = why;
        done
    }

    /// Whether nftables polices because the program could not be had.
    pub(super) fn is_second_best(&self) -> bool {
        self.has_rules && self.not_ebpf.is_some()
    }

    /// Goes over to the program, if it can be had by now, at as many interfaces: then nothing of nftables is left. Else remembers why not: another may be there by now.
    pub(super) fn try_ebpf(&mut self, orders: Orders<'_>) -> bool {
        let mut syn = match SynPolice::ebpf() {
            Ok(syn) => syn,
            Err(fault) => {
                self.not_ebpf = Some(fault.to_string());
                return false;
            }
        };
        // Attaching resets the queues of some drivers: the one that is taken comes first, and the others are left alone while it is.
        let mut interfaces: Vec<&String> = orders.settings.interfaces.iter().collect();
        interfaces.sort_by_key(|it| self.taken.as_ref() != Some(*it));
        let mut places = 0;
        for interface in interfaces {
            match syn.attach(interface) {
                Ok(_) => places += 1,
                Err(fault @ (Fault::Attach { .. } | Fault::Taken { .. })) => {
                    self.not_ebpf = Some(fault.to_string());
                    self.taken = Some(interface.clone());
                    return false;
                }
                Err(_) => {}
            }
        }
        let former = self.syn.take();
        if places == 0 || places < former.as_ref().map_or(0, SynPolice::places) {
            self.syn = former;
            return false;
        }
        if let Some(former) = &former {
            hand_over(&former.lists(), &mut syn);
        }
        self.syn = Some(syn);
        let done = self.write_syn(orders);
        let done = done.and_then(|()| self.switch(orders.settings, orders.is_overload));
        self.not_ebpf = done.err().map(|fault| fault.to_string());
        if self.not_ebpf.is_some() {
            self.syn = former;
            return false;
        }
        true
    }

    /// Which mechanism polices SYNs: `ebpf`, `nftables`, or `none`.
    pub(in crate::kernel) fn mechanism(&self) -> &'static str {
        match self.syn.as_ref().filter(|it| self.has_rules && it.places() > 0) {
            Some(it) if it.is_nft() => "nftables",
            Some(_) => "ebpf",
            None => "none",
        }
    }

    /// Why it is nftables where the policy prefers a program.
    pub(in crate::kernel) fn not_ebpf(&self) -> Option<&str> {
        self.not_ebpf.as_deref()
    }

    /// Says when nftables stands in for the program, and when it does no more.
    pub(in crate::kernel) fn say_mechanism(&mut self) {
        if self.not_ebpf == self.said {
            return;
        }
        match &self.not_ebpf {
            Some(why) => tracing::warn!("kernel: SYNs are policed by nftables: {why}"),
            None => tracing::info!("kernel: SYNs are no more policed by nftables"),
        }
        self.said.clone_from(&self.not_ebpf);
    }
}

/// Has it keep out and let in these clients, too.
fn hand_over(lists: &Lists, to: &mut SynPolice) {
    // Whom it does not keep out the gate refuses, and whom it does not let in is let in by the next request.
    if let Err(fault) = to.take_over(lists) {
        tracing::debug!("kernel: not all blocks are carried over: {fault}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs root's rights; without them it says so and tests nothing.
    #[test]
    fn rates_of_nftables_follow_with_care_and_others_exactly() {
        let policy = "[[listener]]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n\
             [[rule]]\nclient = \"10.0.0.0/8\"\npolice = { rate = \"100/s\", burst = 5 }\n";
        let policy = crate::config::parse(policy, "policy.toml").expect("a policy");
        let mut programs = Programs { early: super::super::early(&policy), ..Programs::default() };
        let id = programs.early.policers[0];
        let at = |programs: &mut Programs, rate| {
            programs.rates(&policy.plan, |_| Some(Rate::per_second(rate)))[&id]
        };
        assert_eq!(at(&mut programs, 40), Rate::per_second(40), "a program");
        programs.syn = match SynPolice::nft() {
            Ok(nft) => Some(nft),
            Err(fault) => return eprintln!("not tested: {fault}"),
        };
        programs.paces.clear();
        let rates = [40, 42, 38, 60, 100, 99].map(|rate| at(&mut programs, rate));
        assert_eq!(rates, [44, 44, 44, 66, 100, 100].map(Rate::per_second));
    }

    /// Needs root's rights; without them it says so and tests nothing.
    #[test]
    fn who_is_kept_out_or_let_in_stays_so_when_the_mechanism_changes() {
        let [v4, other, v6]: [IpAddr; 3] =
            ["10.0.0.1", "10.0.0.2", "2001:db8:1:2::"].map(|it| it.parse().expect("an address"));
        let mut programs = Programs::default();
        for mechanism in [Mechanism::Nftables, Mechanism::Ebpf] {
            if let Err(fault) = programs.load_syn(mechanism) {
                return eprintln!("not tested: {fault}");
            }
        }
        programs.block(v4, Duration::from_secs(100));
        programs.block(v6, Duration::from_secs(200));
        programs.block(other, Duration::from_millis(20));
        programs.let_in(&[v6], Duration::from_secs(300));
        std::thread::sleep(Duration::from_millis(50));
        let lists = |programs: &Programs| programs.syn.as_ref().expect("it is loaded").lists();
        let is_left = |left: Duration, of: u64| {
            left < Duration::from_secs(of) && left > Duration::from_secs(of - 30)
        };
        let all_are_there = |programs: &Programs| {
            let Lists { mut blocked, let_in } = lists(programs);
            blocked.sort_unstable();
            let blocks = matches!(&blocked[..], [(one, first), (two, second)]
                if (*one, *two) == (v4, v6) && is_left(*first, 100) && is_left(*second, 200));
            let lets = matches!(&let_in[..], [(one, left)] if *one == v6 && is_left(*left, 300));
            assert!(blocks && lets, "{blocked:?} {let_in:?}");
        };
        all_are_there(&programs);
        for mechanism in [Mechanism::Nftables, Mechanism::Ebpf, Mechanism::Nftables] {
            programs.load_syn(mechanism).expect("as before");
            let is_nft = programs.syn.as_ref().is_some_and(SynPolice::is_nft);
            assert_eq!(is_nft, mechanism == Mechanism::Nftables);
            all_are_there(&programs);
        }
        // What is taken away for a fault, and comes back as the other; in between the gate may end all blocks.
        programs.fail_open();
        assert!(programs.syn.is_none());
        programs.load_syn(Mechanism::Ebpf).expect("as before");
        all_are_there(&programs);
        programs.load_syn(Mechanism::Nftables).expect("as before");
        programs.fail_open();
        programs.unblock_all();
        // What it says meanwhile is not lost either.
        programs.block(other, Duration::from_secs(100));
        programs.let_in(&[other], Duration::from_secs(300));
        programs.block(v4, Duration::from_millis(20));
        std::thread::sleep(Duration::from_millis(50));
        programs.load_syn(Mechanism::Ebpf).expect("as before");
        let Lists { blocked, mut let_in } = lists(&programs);
        let_in.sort_unstable();
        assert!(matches!(&blocked[..], [(it, left)] if *it == other && is_left(*left, 100)));
        assert!(
            matches!(&let_in[..], [(one, left), (two, _)] if (*one, *two) == (other, v6) && is_left(*left, 300))
        );
    }

    #[test]
    fn what_is_kept_for_later_is_bounded_and_ends() {
        let mut programs = Programs::default();
        for number in 0..=KEPT_MAX as u32 {
            programs.block(IpAddr::from(number.to_be_bytes()), Duration::from_millis(1));
        }
        let kept = |programs: &Programs| programs.lists.as_ref().map(|(it, _)| it.blocked.len());
        assert_eq!(kept(&programs), Some(KEPT_MAX));
        std::thread::sleep(Duration::from_millis(1100));
        programs.block(IpAddr::from([10, 0, 0, 1]), Duration::from_secs(100));
        assert_eq!(kept(&programs), Some(1));
    }
}
