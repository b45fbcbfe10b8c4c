//! `tiergate agent` as a process.

use super::client::Client;
use super::eventually;
use super::gateway::Port;
use super::process::Process;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    pub process: Process,
    log: PathBuf,
}

impl Agent {
    /// Starts one that listens at the port, and waits until it answers.
    pub fn start(port: &Port, folder: &Path, sensors: &str, token_file: Option<&Path>) -> Self {
        let (file, log) = (folder.join("agent.toml"), folder.join("agent.log"));
        std::fs::write(&file, sensors).expect("a folder of our own");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.arg("agent").arg(&file).arg("--listen").arg(port.address.to_string());
        if let Some(token_file) = token_file {
            command.arg("--token-file").arg(token_file);
        }
        let out =
            File::options().create(true).append(true).open(&log).expect("a folder of our own");
        let process = Process::start(command.stdin(Stdio::null()).stderr(out));
        let mut agent = Agent { process, log };
        eventually("the agent answers", || {
            if let Some(status) = agent.process.has_ended() {
                panic!("the agent has ended with {status}:\n{}", agent.log());
            }
            Client::try_connect(port.address)
                .is_ok_and(|mut client| client.get_local("/healthz").status == 200)
        });
        agent
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
