//! What polices SYNs: a program or, where none can be had, rules of nftables. Both are asked the same.

use crate::config::meant::Mechanism;
use std::net::IpAddr;
use std::time::Duration;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::early::Early;
use tiergate_core::early::bucket::Wanted;
use tiergate_kernel::{
    BucketCounts, Fault, Lists, NftGate, Service, Switches, SynCounts, SynGate, Way,
};

/// One of them.
#[derive(Debug)]
pub(super) enum SynPolice {
    Ebpf(Box<SynGate>),
    Nft(Box<NftGate>),
}

impl SynPolice {
    /// The first that the machine has of those that the policy allows for, and why it is not the program where it might have been.
    pub(super) fn load(mechanism: Mechanism) -> Result<(SynPolice, Option<String>), Fault> {
        let ebpf = match mechanism {
            Mechanism::Nftables => return Ok((SynPolice::nft()?, None)),
            Mechanism::Ebpf => return Ok((SynPolice::ebpf()?, None)),
            Mechanism::Auto => match SynPolice::ebpf() {
                Ok(program) => return Ok((program, None)),
                Err(fault) => fault,
            },
        };
        match SynPolice::nft() {
            Ok(nft) => Ok((nft, Some(ebpf.to_string()))),
            Err(nftables) => {
                Err(Fault::Neither { ebpf: Box::new(ebpf), nftables: Box::new(nftables) })
            }
        }
    }

    /// The program.
    pub(super) fn ebpf() -> Result<SynPolice, Fault> {
        SynGate::load().map(|it| SynPolice::Ebpf(Box::new(it)))
    }

    /// nftables.
    pub(super) fn nft() -> Result<SynPolice, Fault> {
        NftGate::load().map(|it| SynPolice::Nft(Box::new(it)))
    }

    /// Whether it is one that the policy allows for.
    pub(super) fn suits(&self, mechanism: Mechanism) -> bool {
        match self {
            SynPolice::Ebpf(_) => mechanism != Mechanism::Nftables,
            SynPolice::Nft(_) => mechanism != Mechanism::Ebpf,
        }
    }

    /// Whether it is nftables, whose buckets are full again when their rate changes.
    pub(super) fn is_nft(&self) -> bool {
        matches!(self, SynPolice::Nft(_))
    }

    pub(super) fn attach(&mut self, interface: &str) -> Result<Way, Fault> {
        match self {
            SynPolice::Ebpf(it) => it.attach(interface),
            SynPolice::Nft(it) => it.attach(interface),
        }
    }

    pub(super) fn keep_at(&mut self, interfaces: &[String]) {
        match self {
            SynPolice::Ebpf(it) => it.keep_at(interfaces),
            SynPolice::Nft(it) => it.keep_at(interfaces),
        }
    }

    /// At how many interfaces it is.
    pub(super) fn places(&self) -> usize {
        match self {
            SynPolice::Ebpf(it) => it.interfaces().count(),
            SynPolice::Nft(it) => it.interfaces().count(),
        }
    }

    /// Which way it is at an interface.
    pub(super) fn way(&self, interface: &str) -> Option<Way> {
        let is_it = |(name, _): &(&str, Way)| *name == interface;
        let found = match self {
            SynPolice::Ebpf(it) => it.interfaces().find(is_it),
            SynPolice::Nft(it) => it.interfaces().find(is_it),
        };
        found.map(|(_, way)| way)
    }

    pub(super) fn switch(&mut self, switches: Switches) -> Result<(), Fault> {
        match self {
            SynPolice::Ebpf(it) => it.switch(switches),
            SynPolice::Nft(it) => it.switch(switches),
        }
    }

    #[cfg(test)]
    pub(super) fn switches(&self) -> Switches {
        match self {
            SynPolice::Ebpf(it) => it.switches(),
            SynPolice::Nft(it) => it.switches(),
        }
    }

    pub(super) fn put_in_force(
        &mut self,
        early: &Early,
        services: &[Service],
        wanted: impl Fn(PolicerId) -> Option<Wanted> + Copy,
    ) -> Result<(), Fault> {
        match self {
            SynPolice::Ebpf(it) => it.put_in_force(early, services, wanted),
            SynPolice::Nft(it) => it.put_in_force(early, services, wanted),
        }
    }

    pub(super) fn set_bucket(&mut self, policer: PolicerId, wanted: Wanted) -> Result<(), Fault> {
        match self {
            SynPolice::Ebpf(it) => it.set_bucket(policer, wanted),
            SynPolice::Nft(it) => it.set_bucket(policer, wanted),
        }
    }

    pub(super) fn block(&mut self, client: IpAddr, lasting: Duration) -> Result<(), Fault> {
        match self {
            SynPolice::Ebpf(it) => it.block(client, lasting),
            SynPolice::Nft(it) => it.block(client, lasting),
        }
    }

    pub(super) fn let_in(&mut self, client: IpAddr, lasting: Duration) -> Result<(), Fault> {
        match self {
            SynPolice::Ebpf(it) => it.let_in(client, lasting),
            SynPolice::Nft(it) => it.let_in(client, lasting),
        }
    }

    pub(super) fn unblock_all(&mut self) {
        match self {
            SynPolice::Ebpf(it) => it.unblock_all(),
            SynPolice::Nft(it) => it.unblock_all(),
        }
    }

    /// Who is blocked and let in now, for the other mechanism.
    pub(super) fn lists(&self) -> Lists {
        match self {
            SynPolice::Ebpf(it) => it.lists(),
            SynPolice::Nft(it) => it.lists(),
        }
    }

    pub(super) fn take_over(&mut self, lists: &Lists) -> Result<(), Fault> {
        match self {
            SynPolice::Ebpf(it) => it.take_over(lists),
            SynPolice::Nft(it) => it.take_over(lists),
        }
    }

    /// What was counted in all; reads what [`SynPolice::bucket_counts`] returns, where that takes one question for all: all stay as they were, if it is not answered.
    pub(super) fn counts(&mut self) -> Result<SynCounts, Fault> {
        match self {
            SynPolice::Ebpf(it) => it.counts(),
            SynPolice::Nft(it) => {
                if let Err(fault) = it.read_counts() {
                    tracing::debug!("kernel: the counts are those of before: {fault}");
                }
                Ok(it.counts())
            }
        }
    }

    pub(super) fn bucket_counts(&self, policer: PolicerId) -> Vec<(Option<u64>, BucketCounts)> {
        match self {
            SynPolice::Ebpf(it) => it.bucket_counts(policer).unwrap_or_default(),
            SynPolice::Nft(it) => it.bucket_counts(policer),
        }
    }
}
