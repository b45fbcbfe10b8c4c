//! Whether the programs of workers are there: a command that cannot be started must not take the place of one that runs.

use crate::config::meant::{Policy, Processes, Workers};
use crate::config::{Errors, Fault, Step, place_of};
use crate::visible;
use rustix::fs::{Access, access};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Where a program is looked for where the environment does not say it, as `execvp` does.
const PATH_DEFAULT: &str = "/bin:/usr/bin";
/// How much of a script the kernel reads to find its interpreter, in bytes. Source: `BINPRM_BUF_SIZE` in `linux/binfmts.h`.
const FIRST_LINE_LEN_MAX: u64 = 256;
/// How many interpreters may be scripts with an interpreter of their own. Source: `exec_binprm` in the kernel's `fs/exec.c`.
const INTERPRETERS_MAX: usize = 5;

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
    unstartable(&program)
}

/// Why a program cannot be started here: what the system says of it leaves out which file it means. `None`: it can.
pub(super) fn unstartable(program: &str) -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from(PATH_DEFAULT));
    missing(program, &path)
}

/// Why there is no such program; `path`: the folders in which one is looked for by its name alone.
fn missing(program: &str, path: &OsStr) -> Option<String> {
    let unstartable = |why: String| format!("{program} cannot be started: {why}");
    if program.contains('/') {
        return cannot_run(Path::new(program)).map(unstartable);
    }
    let mut why = None;
    for file in env::split_paths(path).map(|it| it.join(program)) {
        match cannot_run(&file) {
            None => return None,
            // It is there: to install it again would not help.
            Some(fault) if is_program(&file).is_ok() => {
                why = why.or_else(|| Some(format!("{}: {fault}", file.display())));
            }
            Some(_) => {}
        }
    }
    let not_found = || format!("no program {program} is in PATH: install it, or write where it is");
    Some(why.map_or_else(not_found, unstartable))
}

/// Why a file cannot be run as a program, or by the interpreter that it names.
fn cannot_run(program: &Path) -> Option<String> {
    if let Err(why) = is_program(program) {
        return Some(why);
    }
    let interpreters = std::iter::successors(interpreter(program), |it| interpreter(it));
    interpreters.take(INTERPRETERS_MAX).find_map(|interpreter| {
        let why = is_program(&interpreter).err()?;
        Some(format!(
            "its first line names the interpreter {}: {why}",
            visible::line(&interpreter.to_string_lossy())
        ))
    })
}

/// Whether a file is one that this user may execute.
fn is_program(file: &Path) -> Result<(), String> {
    match fs::metadata(file) {
        Err(fault) => Err(fault.to_string()),
        Ok(about) if !about.is_file() => Err("it is no file".to_owned()),
        Ok(_) => access(file, Access::EXEC_OK)
            .map_err(|_| "this user may not execute it; chmod +x".to_owned()),
    }
}

/// The interpreter that a script names in its first line, as the kernel reads it: `#!`, blanks, and its path up to the next blank.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE_LEN_MAX).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|byte| matches!(byte, b'\n' | 0)).next()?;
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let mut words = line.split(is_blank);
    let path = words.find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsString::from_vec(path.to_vec())))
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

    #[test]
    fn a_script_needs_its_interpreter() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("our own folder");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our own file");
            path.display().to_string()
        };
        let moved = make("moved", "#! \t/nonexistent/venv/bin/python3 -u\nprint()\n");
        let by_script = make("by_script", &format!("#!{moved}\n"));
        let itself = make("itself", &format!("#!{}\n", folder.path().join("itself").display()));
        let no = "No such file or directory (os error 2)";
        let lost = format!("the interpreter /nonexistent/venv/bin/python3: {no}");
        let path = folder.path().as_os_str();
        for (word, expected) in [
            (make("good", "#!/bin/sh -e\n"), String::new()),
            (make("text", "no interpreter\n"), String::new()),
            (make("empty", "#!\n"), String::new()),
            (itself, String::new()),
            (moved, format!("moved cannot be started: its first line names {lost}")),
            ("moved".to_owned(), format!("/moved: its first line names {lost}")),
            (by_script, lost),
            (make("windows", "#!/bin/sh\r\n"), format!("the interpreter /bin/sh\\r: {no}")),
            (make("folder", "#!/usr/bin\n"), "the interpreter /usr/bin: it is no file".to_owned()),
        ] {
            let said = missing(&word, path).unwrap_or_default();
            assert!(
                said.ends_with(&expected) && said.is_empty() == expected.is_empty(),
                "{word}: {said}"
            );
        }
    }
}
