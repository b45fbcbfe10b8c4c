//! What stands for the programs in a build without libbpf: there is none, and never one to do anything with.

use crate::counts::{BucketCounts, Lists, Service, SteerCounts, Switches, SynCounts, Way};
use crate::fault::Fault;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tiergate_core::early::Early;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::heads::Heads;
use tiergate_core::early::steer::Steering;
use tiergate_core::names::PolicerId;

/// There is none.
#[derive(Debug)]
pub enum SynGate {}

#[expect(missing_docs, clippy::missing_errors_doc, reason = "as in the build with libbpf")]
impl SynGate {
    pub fn load() -> Result<SynGate, Fault> {
        Err(Fault::NotBuilt)
    }

    pub fn attach(&mut self, _: &str) -> Result<Way, Fault> {
        match *self {}
    }

    pub fn keep_at(&mut self, _: &[String]) {
        match *self {}
    }

    pub fn interfaces(&self) -> impl Iterator<Item = (&str, Way)> {
        match *self {}
        #[allow(unreachable_code)]
        std::iter::empty()
    }

    pub fn switch(&mut self, _: Switches) -> Result<(), Fault> {
        match *self {}
    }

    pub fn switches(&self) -> Switches {
        match *self {}
    }

    pub fn put_in_force(
        &mut self,
        _: &Early,
        _: &[Service],
        _: impl Fn(PolicerId) -> Option<Wanted>,
    ) -> Result<(), Fault> {
        match *self {}
    }

    pub fn set_bucket(&mut self, _: PolicerId, _: Wanted) -> Result<(), Fault> {
        match *self {}
    }

    pub fn block(&self, _: IpAddr, _: Duration) -> Result<(), Fault> {
        match *self {}
    }

    pub fn let_in(&mut self, _: IpAddr, _: Duration) -> Result<(), Fault> {
        match *self {}
    }

    pub fn unblock_all(&self) {
        match *self {}
    }

    pub fn lists(&self) -> Lists {
        match *self {}
    }

    pub fn take_over(&mut self, _: &Lists) -> Result<(), Fault> {
        match *self {}
    }

    pub fn counts(&self) -> Result<SynCounts, Fault> {
        match *self {}
    }

    pub fn bucket_counts(&self, _: PolicerId) -> Result<Vec<(Option<u64>, BucketCounts)>, Fault> {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub enum HttpGate {}

#[expect(missing_docs, clippy::missing_errors_doc, reason = "as in the build with libbpf")]
impl HttpGate {
    pub fn load() -> Result<HttpGate, Fault> {
        Err(Fault::NotBuilt)
    }

    pub fn attach(&mut self, _: &str) -> Result<Way, Fault> {
        match *self {}
    }

    pub fn keep_at(&mut self, _: &[String]) {
        match *self {}
    }

    pub fn interfaces(&self) -> impl Iterator<Item = (&str, Way)> {
        match *self {}
        #[allow(unreachable_code)]
        std::iter::empty()
    }

    pub fn switch(&mut self, _: bool) -> Result<(), Fault> {
        match *self {}
    }

    pub fn put_in_force(
        &mut self,
        _: &Heads,
        _: &[Service],
        _: impl Fn(PolicerId) -> Option<Wanted>,
        _: impl Fn(PolicerId) -> Vec<u8>,
    ) -> Result<(), Fault> {
        match *self {}
    }

    pub fn set_bucket(&mut self, _: PolicerId, _: Wanted) -> Result<(), Fault> {
        match *self {}
    }

    pub fn counts(&self, _: PolicerId) -> Result<BucketCounts, Fault> {
        match *self {}
    }
}

/// There is none.
#[derive(Debug)]
pub enum SteerGate {}

#[expect(missing_docs, clippy::missing_errors_doc, reason = "as in the build with libbpf")]
impl SteerGate {
    pub fn load() -> Result<SteerGate, Fault> {
        Err(Fault::NotBuilt)
    }

    pub fn attach(&mut self) -> Result<(), Fault> {
        match *self {}
    }

    pub fn put_in_force(&mut self, _: &Steering, _: &[SocketAddr]) -> Result<(), Fault> {
        match *self {}
    }

    pub fn find(&mut self, _: u16, _: SocketAddr) -> Result<bool, Fault> {
        match *self {}
    }

    pub fn counts(&self, _: u16) -> Result<SteerCounts, Fault> {
        match *self {}
    }
}
