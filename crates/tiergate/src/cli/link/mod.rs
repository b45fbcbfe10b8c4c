//! `tiergate link`: a shaper in the kernel that sends what is marked as background after all else.

mod words;

use super::bits::bits;
use super::stdout::print;
use crate::interface::name::InterfaceName;
use crate::interface::tc::Tc;
use crate::interface::tree::{Found, Plan, removal};
use anyhow::{Context, Result, anyhow, bail};
use tiergate_core::transmit::Tree;

/// What is to be done.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Action {
    /// Print the commands that put the shaper on an interface; with --yes, run them
    #[command(after_help = SETUP)]
    Setup(Setup),
    /// Take the shaper away, if it is the one that `setup` made; the system's own queue comes back
    Undo {
        /// The network interface, such as eth0
        #[arg(value_parser = name)]
        interface: InterfaceName,
    },
    /// Show the shaper, and what each of its classes has sent
    Show {
        /// The network interface, such as eth0
        #[arg(value_parser = name)]
        interface: InterfaceName,
    },
}

/// Command line of `tiergate link setup`.
#[derive(Clone, Debug, clap::Args)]
pub struct Setup {
    /// The network interface that answers leave by, such as eth0
    #[arg(value_parser = name)]
    interface: InterfaceName,
    /// Bits a second that the narrowest part of the way carries which all clients share, headers included, such as 100mbit
    #[arg(long, value_name = "RATE", value_parser = capacity)]
    capacity: u64,
    /// Run the commands; it needs root, or CAP_NET_ADMIN
    #[arg(long)]
    yes: bool,
    /// Take away a queue that somebody else put there; `undo` does not bring it back
    #[arg(long)]
    replace: bool,
}

const SETUP: &str = "\
What it does:
  HTB at the root, with 98 % of the capacity, so that packets wait there and not further on. Packets with the code point LE
  (DSCP 1, RFC 8622) are sent when no others wait, and have 1 % in any case. With `mark = true` in [link] of the policy, the
  gateway marks answers of background classes and their requests; other programs' packets count as foreground
  unless they are marked. The shaper is gone after a restart of the machine: run this again then. It changes nothing where it is there
  already.

Exit status:
  0  the commands were printed, or with --yes: the shaper is there
  1  it is not: a queue of somebody else is there, a right or a program is missing, or the kernel has no htb
  2  the command line was not understood";

fn name(text: &str) -> Result<InterfaceName, String> {
    InterfaceName::parse(text).ok_or_else(|| format!("must be {}", InterfaceName::EXPECTED))
}

fn capacity(text: &str) -> Result<u64, String> {
    let bits = bits(text)?;
    match bits >= Tree::CAPACITY_MIN {
        true => Ok(bits),
        false => Err("must be at least 100kbit".to_owned()),
    }
}

/// Does it.
///
/// # Errors
/// What it could not do, and what to do about it.
pub fn run(action: &Action) -> Result<()> {
    match action {
        Action::Setup(options) => setup(options),
        Action::Undo { interface } => undo(interface),
        Action::Show { interface } => say(&words::shown(interface, &Found::at(interface)?)),
    }
}

fn say(text: &str) -> Result<()> {
    print(Ok::<_, anyhow::Error>(format!("{text}\n")))
}

fn setup(options: &Setup) -> Result<()> {
    let Setup { interface, capacity, yes, replace } = options;
    let found = Found::at(interface)?;
    let plan = found.plan(interface, &Tree::of(*capacity), *replace);
    match plan {
        None => bail!(words::is_taken(interface, &found)),
        Some(Plan::Nothing) => say(&format!("# {interface} has this shaper already")),
        Some(Plan::Commands { commands, .. }) if !yes => {
            // What is printed can be given to a shell.
            let line = |it: &Tc| format!("{it}{}", if it.is_optional() { " || true" } else { "" });
            let lines: Vec<String> = commands.iter().map(line).collect();
            say(&format!("set -e\n{}", lines.join("\n")))?;
            eprintln!("nothing was changed: add --yes to run these commands, as root");
            Ok(())
        }
        Some(Plan::Commands { commands, begins }) => {
            let is_new = !matches!(found, Found::Ours(_));
            carry_out(interface, &commands, is_new.then_some(begins))?;
            say(&format!("# done; `tiergate link undo {interface}` takes it away"))
        }
    }
}

/// Runs the commands, each printed before. If one fails, what those before have made is taken away. `begins`: how many come before
/// the one that makes the root; `None`: the root was there.
fn carry_out(interface: &InterfaceName, commands: &[Tc], begins: Option<usize>) -> Result<()> {
    for (place, command) in commands.iter().enumerate() {
        say(&command.to_string())?;
        let Err(fault) = command.run() else { continue };
        if command.is_optional() && fault.is_unknown_kind() {
            say("# the kernel has no fq_codel: the class has a FIFO")?;
            continue;
        }
        let fault = anyhow!(fault);
        let Some(begins) = begins.filter(|begins| place >= *begins) else { return Err(fault) };
        if place == begins {
            let is_lost = begins > 0;
            return Err(if is_lost { fault.context("the former queue is gone") } else { fault });
        }
        let removal = removal(interface);
        say(&removal.to_string())?;
        return Err(match removal.run() {
            Ok(_) => fault.context("the shaper is not there; what was made of it has been taken away"),
            Err(other) => fault.context(format!(
                "the shaper is there in part only, and could not be taken away ({other}); run `{removal}`"
            )),
        });
    }
    Ok(())
}

fn undo(interface: &InterfaceName) -> Result<()> {
    match Found::at(interface)? {
        Found::Default(kind) => say(&format!(
            "# nothing to undo: {interface} has no shaper, but the system's own queue ({kind})"
        )),
        Found::Ours(_) => {
            let removal = removal(interface);
            say(&removal.to_string())?;
            removal.run().context("the shaper is still there")?;
            Ok(())
        }
        found @ Found::Other { .. } => bail!(words::is_not_ours(interface, &found)),
    }
}
