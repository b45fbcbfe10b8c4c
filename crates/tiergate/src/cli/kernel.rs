//! `tiergate kernel`: a policy's kernel part before other servers.

use crate::config::meant::RequestsInKernel;
use crate::interface::name::InterfaceName;
use crate::kernel::attach;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What is to be done.
#[derive(Clone, Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Put a policy's kernel part before a server on this machine that clients connect to themselves, and run until a signal ends it
    #[command(after_help = ATTACH)]
    Attach(Box<Attach>),
}

const ATTACH: &str = "\
What it does, while it runs:
  SYN policing     SYNs without a token are dropped (XDP), by policers that the client's network and the listener decide
  Header control   first requests without a token are answered 429, or reset (tcx), by policers that path, method and listener decide
  Steering         connections are given to the listener of their client's class (sk_lookup), whatever address and port they came to. A class whose
                   listener is not there goes where all others do; a server that was started anew is found within a quarter of a second

Of the policy count rules, classes, policers, listeners, `trusted`, [kernel] and [refusal].

Signals:
  SIGHUP   Read the policy again
  SIGTERM  Log what was counted, and exit: nothing is left in the kernel, nor is it after SIGKILL

Exit status:
  0  on SIGTERM or Ctrl-C
  1  the policy has errors, or nothing of it can be put in force
  2  the command line was not understood";

/// Command line of `tiergate kernel attach`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Attach {
    /// The policy file
    #[arg(value_name = "POLICY.toml")]
    policy: PathBuf,

    /// Where clients connect; :80 means all addresses of this machine. May be given more than once [default: the policy's listeners]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Vec<SocketAddr>,

    /// A network interface that clients' packets come in by. May be given more than once [default: `interfaces` in [kernel]]
    #[arg(long, value_name = "NAME", value_parser = name)]
    interface: Vec<InterfaceName>,

    /// Where the server listens for the connections of a class, such as premium=127.0.0.1:8081. May be given for more classes, and once for IPv4 and IPv6 each
    #[arg(long, value_name = "CLASS=ADDRESS:PORT", value_parser = class)]
    class: Vec<(String, SocketAddr)>,

    /// Where it listens for all others [default: at the port that they came to]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    default: Vec<SocketAddr>,

    /// What becomes of first requests without a token [default: `requests` in [kernel], or answer without [kernel]]
    #[arg(long, value_name = "WHAT")]
    requests: Option<Requests>,

    /// Police while one of the server's listen queues is so full, and as long as there is something to drop then
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    queue: f64,

    /// Police at all times
    #[arg(long, conflicts_with = "queue")]
    always: bool,

    /// Log what was counted every so many seconds, too
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    status: Option<u64>,
}

/// What becomes of first requests without a token.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Requests {
    /// Nothing: they pass
    Pass,
    /// The kernel answers 429 with Retry-After
    Answer,
    /// The connection is reset
    Reset,
}

impl From<Requests> for RequestsInKernel {
    fn from(requests: Requests) -> Self {
        match requests {
            Requests::Pass => RequestsInKernel::Pass,
            Requests::Answer => RequestsInKernel::Answer,
            Requests::Reset => RequestsInKernel::Reset,
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let whole = match text.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => text.to_owned(),
    };
    let address: Option<SocketAddr> = whole.parse().ok();
    address.filter(|it| it.port() > 0).ok_or_else(|| {
        "must be an address and a port such as 192.0.2.1:80 or [2001:db8::1]:80, or :80".to_owned()
    })
}

fn class(text: &str) -> Result<(String, SocketAddr), String> {
    let parts = text.rsplit_once('=').filter(|(name, _)| !name.is_empty());
    let (name, at) = parts
        .ok_or("must be the name of a class and an address, such as premium=127.0.0.1:8081")?;
    Ok((name.to_owned(), address(at)?))
}

fn name(text: &str) -> Result<InterfaceName, String> {
    InterfaceName::parse(text).ok_or_else(|| format!("must be {}", InterfaceName::EXPECTED))
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|it| it.parse::<f64>().ok());
    let share = number.filter(|it| *it > 0.0 && *it <= 100.0);
    share.map(|it| it / 100.0).ok_or_else(|| "must be a share such as 50%, more than 0%".to_owned())
}

/// Does it.
///
/// # Errors
/// What it could not do, and what to do about it.
pub(super) fn run(action: Action) -> anyhow::Result<()> {
    let Action::Attach(options) = action;
    let options = *options;
    attach::run(attach::Asked {
        policy: options.policy,
        listen: options.listen,
        interfaces: options.interface.iter().map(|it| it.as_str().to_owned()).collect(),
        classes: options.class,
        others: options.default,
        requests: options.requests.map(Into::into),
        queue: (!options.always).then_some(options.queue),
        status: options.status.map(Duration::from_secs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_are_not() {
        let shown = |text: &str| address(text).map(|it| it.to_string()).ok();
        assert_eq!(shown(":80").as_deref(), Some("[::]:80"));
        assert_eq!(shown("192.0.2.1:80").as_deref(), Some("192.0.2.1:80"));
        for text in ["", ":", ":0", "80", "192.0.2.1", "::1", "192.0.2.1:0", "host:80", ":80:80"] {
            assert_eq!(shown(text), None, "{text}");
        }
        let (name, at) = class("a=b=[::1]:8081").expect("a class");
        assert_eq!((name.as_str(), at.to_string().as_str()), ("a=b", "[::1]:8081"));
        assert!(
            ["premium", "=127.0.0.1:1", "premium=", "premium=x"]
                .iter()
                .all(|it| class(it).is_err())
        );
        assert_eq!(["0.5%", "100%"].map(share), [Ok(0.005), Ok(1.0)]);
        assert!(["50", "0%", "-1%", "101%", "nan%", "%"].iter().all(|it| share(it).is_err()));
    }
}
