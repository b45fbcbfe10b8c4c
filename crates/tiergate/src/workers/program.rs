//! Whether the programs of workers are there: a command that cannot be started must not take the place of one that runs.

use crate::config::meant::{Policy, Processes, Workers};
use crate::config::{Errors, Fault, Step, place_of};
use rustix::fs::{Access, access};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

/// Where a program is looked for where the environment does not say it, as `execvp` does.
const PATH_DEFAULT: &str = "/bin:/usr/bin";

/// The commands of a policy that cannot be started here, but for those that a `former` policy has as well. Blocks on files.
pub(crate) fn faults(policy: &Policy, former: Option<&Policy>) -> Vec<Fault> {
    let known = former.map_or(&[][..], |former| &former.workers);
    let is_known = |it: &Workers| known.iter().any(|known| known.processes == it.processes);
    let mut faults = Vec::new();
    for workers in policy.workers.iter().filter(|it| !is_known(it)) {
        let Some(fault) = fault(workers) else { continue };
        let pool = policy.plan.pools.iter().position(|pool| pool.name == workers.pool);
        let end = [Step::Key("workers"), Step::Key("command")];
        let steps = match pool {
            Some(index) => [&[Step::Key("pool"), Step::Element(index)][..], &end].concat(),
            None => [&[Step::Key("origin")][..], &end].concat(),
        };
        faults.push(place_of(&policy.sources, &steps).fault(fault));
    }
    faults
}

/// The same, for a reload. A start goes on without: the program may come later, and other pools have their servers.
///
/// # Errors
/// All of them.
pub(crate) fn check(policy: &Policy, former: &Policy) -> Result<(), String> {
    let faults = match policy.sources.files.is_empty() {
        // A policy without a file has no workers.
        true => Vec::new(),
        false => faults(policy, Some(former)),
    };
    let file = policy.file.to_string_lossy().into_owned();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(Errors { file, faults, more: 0 }.to_string()),
    }
}

/// Why workers cannot be started.
fn fault(workers: &Workers) -> Option<String> {
    let Processes::Started(command) = &workers.processes else { return None };
    let program = command.words(1, command.servers().next()?).into_iter().next()?;
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from(PATH_DEFAULT));
    missing(&program, &path)
}

/// Why there is no such program; `path`: the folders in which one is looked for by its name alone.
fn missing(program: &str, path: &OsStr) -> Option<String> {
    if program.contains('/') {
        let why = cannot_run(Path::new(program))?;
        return Some(format!("{program} cannot be started: {why}"));
    }
    let is_there = env::split_paths(path).any(|it| cannot_run(&it.join(program)).is_none());
    (!is_there)
        .then(|| format!("no program {program} is in PATH: install it, or write where it is"))
}

fn cannot_run(program: &Path) -> Option<String> {
    match fs::metadata(program) {
        Err(fault) => Some(fault.to_string()),
        Ok(about) if !about.is_file() => Some("it is no file".to_owned()),
        Ok(_) => access(program, Access::EXEC_OK)
            .err()
            .map(|_| "this user may not execute it; chmod +x".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_a_file_that_may_be_executed() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::write(&path, "#!/bin/sh\n").expect("our own folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own file");
            path.display().to_string()
        };
        let (program, text) = (make("program", 0o755), make("text", 0o644));
        let path = folder.path().as_os_str();
        for (word, expected) in [
            (program.as_str(), ""),
            ("program", ""),
            (text.as_str(), "cannot be started: this user may not execute it; chmod +x"),
            ("text", "no program text is in PATH: "),
            ("/nonexistent/x", "cannot be started: No such file or directory (os error 2)"),
            ("/", "cannot be started: it is no file"),
        ] {
            let said = missing(word, path).unwrap_or_default();
            assert!(
                said.contains(expected) && said.is_empty() == expected.is_empty(),
                "{word}: {said}"
            );
        }
    }
}
