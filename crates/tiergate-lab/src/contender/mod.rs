//! The contenders: what may stand in front of the origin, in the lab and in the bench.
//!
//! Each peer has one configuration for all experiments, in `peers/lab/`: that of an operator who
//! knows what the origin can take, and says so wherever the peer has a word for it. Tiergate is told
//! nothing about it. Each runs with one thread, or with all its threads on one processor.

pub(crate) mod command;
mod off;
mod place;
mod template;

pub(crate) use off::Off;
pub(crate) use place::Place;

use crate::cpu::Processes;
use crate::process::{Program, Running, find, output};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

/// What stands in front of the origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Contender {
    /// Nothing: clients ask the origin itself.
    None,
    /// What is built here.
    Tiergate,
    /// The same, first come first served: what an order of its own brings. Only where an experiment names it.
    Fifo,
    /// The same with numbers in place of what follows the load, found by search. Only where an experiment names it.
    Fixed,
    /// The same, which finds by itself what it is told elsewhere. Only where an experiment names it.
    Estimate,
    /// The same with a fixed number of slots for what else is found while running. Only where an experiment names it.
    Pool,
    /// The same with a fixed rate for what else is found while running. Only where an experiment names it.
    Rate,
    /// The same, whose kernel drops first packets without a token. Only where an experiment names it.
    Syn,
    /// The same, whose kernel resets connections by their first request. Only where an experiment names it.
    Head,
    /// The same without the kernel: the gateway alone refuses. Only where an experiment names it.
    User,
    /// The same with a feature switched off: what a promise is worth. Only where promises are checked for that.
    Off,
    /// HAProxy.
    Haproxy,
    /// nginx.
    Nginx,
    /// Apache as a reverse proxy with mod_qos.
    ModQos,
    /// Envoy.
    Envoy,
    /// A small Go proxy around failsafe-go's adaptive limiter.
    Failsafe,
}

impl Contender {
    /// All of them, in the order of the results.
    pub(crate) const ALL: &[Self] = Self::VARIANTS;

    /// Its name on the command line and in results.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// The contender of that name.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|contender| contender.name() == name).ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|contender| contender.name()).collect();
            format!("no contender {name:?}; there are: {}", all.join(", "))
        })
    }

    /// Whether it is what is built here.
    pub(crate) fn is_ours(self) -> bool {
        self == Self::Tiergate || self.is_variant()
    }

    /// Whether it is what is built here with another policy, which takes part only where it is named.
    pub(crate) fn is_variant(self) -> bool {
        matches!(
            self,
            Self::Fifo
                | Self::Fixed
                | Self::Estimate
                | Self::Pool
                | Self::Rate
                | Self::Syn
                | Self::Head
                | Self::User
                | Self::Off
        )
    }

    /// What it is and which of its mechanisms are used, in one line.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::None => "nothing in front: the origin's own queue, first come first served",
            Self::Tiergate => {
                "Tiergate: three classes with deadlines, the limit found while running"
            }
            Self::Fifo => "Tiergate with policy = \"fifo\": the same, first come first served",
            Self::Fixed => "Tiergate with fixed rates, found by search: the same, without control",
            Self::Estimate => {
                "Tiergate that finds what the link carries by itself: the same, without being told"
            }
            Self::Pool => {
                "Tiergate with a fixed number of slots for the background, and no more than that: \
                 Eggert and Heidemann's first mechanism"
            }
            Self::Rate => {
                "Tiergate with a fixed rate for the background, and no more than that: Eggert and \
                 Heidemann's third mechanism"
            }
            Self::Syn => {
                "Tiergate whose kernel drops first packets (SYN) without a token: Voigt's SYN policing"
            }
            Self::Head => {
                "Tiergate whose kernel looks at the first request of a connection, and resets it if it \
                 finds no token: Voigt's HTTP-header control"
            }
            Self::User => "Tiergate that refuses by itself alone: the same without the kernel",
            Self::Off => "Tiergate with the same configuration, a feature switched off",
            Self::Haproxy => {
                "HAProxy: server maxconn, priority queue (set-priority-class), timeout queue, \
                 queue length by class, stick table of rates by client, request buffering"
            }
            Self::Nginx => {
                "nginx: one limit_req bucket with a burst for each class, max_conns and limit_conn \
                 by class, limit_req by client, buffering of requests and answers"
            }
            Self::ModQos => {
                "Apache mod_qos: a limit on requests at once that only lesser classes are held to \
                 (QS_CondLocRequestLimitMatch), limits by event and by client, mod_reqtimeout"
            }
            Self::Envoy => {
                "Envoy: circuit breakers by priority and class with a pending queue, local rate \
                 limit by client, buffering of requests, overload manager"
            }
            Self::Failsafe => {
                "failsafe-go: two adaptive concurrency limiters under one prioritizer with its usage \
                 tracker, in a Go reverse proxy that buffers requests and answers"
            }
        }
    }

    /// Starts it; returns when it listens. An error is the reason why it is left out.
    pub(crate) async fn start(self, place: &Place<'_>) -> Result<Front> {
        if self == Self::None {
            return Ok(Front { version: String::new(), running: None });
        }
        let program = self.program(place)?;
        let version = self.version(&program).await?;
        let dir = place.scratch.join(self.name());
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let mut running = Program::new(self.name(), &program)
            .args(self.args(place, &dir)?)
            .processors(place.processors)
            .namespace(place.namespace)
            .start(&dir.join("log"))?;
        running.ready(place.listen).await?;
        Ok(Front { version, running: Some(running) })
    }

    /// Its program, if it is installed.
    fn program(self, place: &Place<'_>) -> Result<PathBuf> {
        let installed = |name| find(name).context("not installed; `scripts/peers.sh` installs it");
        match self {
            Self::None => bail!("nothing has no program"),
            _ if self.is_ours() => crate::gateway_program(place.program),
            _ if place.program.is_some() => Ok(place.program.unwrap_or(Path::new("")).into()),
            Self::ModQos => {
                for file in [MOD_QOS, LIBPCRE] {
                    ensure!(Path::new(file).exists(), "{file} is missing; see `scripts/peers.sh`");
                }
                installed("apache2")
            }
            Self::Envoy | Self::Failsafe => built(self.name()),
            _ => installed(self.name()),
        }
    }

    /// Its arguments, once its configuration is written to `dir`.
    fn args(self, place: &Place<'_>, dir: &Path) -> Result<Vec<OsString>> {
        let text = place
            .configuration(place.template.unwrap_or(self.template()), dir)
            .with_context(|| format!("configuration of {}", self.name()))?;
        let text = match self {
            Self::Off => place.off.cloned().unwrap_or_default().applied(&text)?,
            _ => text,
        };
        if self == Self::Failsafe {
            return Ok(text.split_ascii_whitespace().map(Into::into).collect());
        }
        let file = dir.join(if self == Self::Envoy { "envoy.yaml" } else { "configuration" });
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        let before: &[&str] = match self {
            _ if self.is_ours() => &["run"],
            Self::Haproxy => &["-db", "-f"],
            // Errors before the configuration is read go to standard error instead of /var/log.
            Self::Nginx => &["-e", "stderr", "-c"],
            Self::ModQos => &["-D", "FOREGROUND", "-f"],
            Self::Envoy => &["--concurrency", "1", "--disable-hot-restart", "-l", "error", "-c"],
            _ => &[],
        };
        Ok(before.iter().map(Into::into).chain([file.into()]).collect())
    }

    /// Its configuration, with `@…@` where values belong.
    pub(crate) fn template(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Tiergate
            | Self::Fixed
            | Self::Estimate
            | Self::Pool
            | Self::Rate
            | Self::Syn
            | Self::Head
            | Self::User
            | Self::Off => {
                include_str!("../../peers/lab/tiergate.toml")
            }
            Self::Fifo => include_str!("../../peers/lab/fifo.toml"),
            Self::Haproxy => include_str!("../../peers/lab/haproxy.cfg"),
            Self::Nginx => include_str!("../../peers/lab/nginx.conf"),
            Self::ModQos => include_str!("../../peers/lab/modqos.conf"),
            Self::Envoy => include_str!("../../peers/lab/envoy.yaml"),
            Self::Failsafe => "--listen @LISTEN@ --origin @ORIGIN@ --slots @SLOTS@ --rate @RATE@",
        }
    }

    /// The first version number in what the program says about itself.
    async fn version(self, program: &Path) -> Result<String> {
        let flag = match self {
            Self::Haproxy | Self::Nginx | Self::ModQos => "-v",
            _ => "--version",
        };
        // nginx tells it on standard error.
        let said = Program::new(self.name(), "sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .args([program.as_os_str(), flag.as_ref()]);
        let text = output(said, Duration::from_secs(10)).await?;
        Ok(version_in(&text).unwrap_or("unknown").to_owned())
    }
}

/// Debian's mod_qos, and the library that it needs and does not name.
const MOD_QOS: &str = "/usr/lib/apache2/modules/mod_qos.so";
const LIBPCRE: &str = "/usr/lib/x86_64-linux-gnu/libpcre.so.3";

/// What `scripts/peers.sh` has put beside the build: `target/lab-peers/NAME`.
pub(crate) fn built(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe()?;
    let target = this.ancestors().nth(2).context("this program lies in no target directory")?;
    let path = target.join("lab-peers").join(name);
    ensure!(path.is_file(), "no {}; `scripts/peers.sh` makes it", path.display());
    Ok(path)
}

fn version_in(text: &str) -> Option<&str> {
    let words = text.split(|c: char| c.is_whitespace() || c == '/');
    let mut versions = words.filter(|word| {
        let digit = word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
        digit && word.contains('.')
    });
    versions.next()
}

/// A contender under way; ended when dropped.
pub(crate) struct Front {
    /// What it says its version is; empty for nothing.
    pub(crate) version: String,
    running: Option<Running>,
}

impl Front {
    /// Its process id; `None` for nothing.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Running::pid)
    }

    /// Why it is no longer there; `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.running.as_mut()?.ended()
    }

    /// Waits until it listens on another address too.
    pub(crate) async fn ready(&mut self, address: SocketAddr) -> Result<()> {
        match &mut self.running {
            Some(running) => running.ready(address).await,
            None => Ok(()),
        }
    }

    /// Processor time that it and all its descendants have used since they began.
    pub(crate) fn used(&self) -> Result<Duration> {
        self.pid().map_or(Ok(Duration::ZERO), |pid| Processes::of(pid).used())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_is_found_by_its_name() {
        for contender in Contender::ALL.iter().copied() {
            assert_eq!(Contender::parse(contender.name()), Ok(contender));
            assert!(!contender.about().is_empty() && !contender.about().contains('\n'));
        }
        assert!(Contender::parse("varnish").unwrap_err().contains(
            "none, tiergate, fifo, fixed, estimate, pool, rate, syn, head, user, off, haproxy"
        ));
    }

    #[test]
    fn versions_are_found() {
        assert_eq!(version_in("Server version: Apache/2.4.71 (Debian)"), Some("2.4.71"));
        assert_eq!(
            version_in("envoy  version: 9e5580933739/1.40.0/Clean/RELEASE/BoringSSL"),
            Some("1.40.0")
        );
        assert_eq!(version_in("nginx version: nginx/1.22.1"), Some("1.22.1"));
        assert_eq!(
            version_in("HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https"),
            Some("2.6.12-1+deb12u4")
        );
        assert_eq!(version_in("failsafe-go v0.9.8, go1.26.8"), Some("v0.9.8,"));
    }
}
