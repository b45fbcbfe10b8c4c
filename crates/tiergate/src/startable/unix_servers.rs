//! Servers at UNIX sockets that cannot be there. A start goes on: the server may come later, and put its socket in the place of what is there.

use crate::config::meant::{Policy, Server};
use crate::config::{Errors, Step, place_of};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What is to be said of the paths of a policy's servers. Blocks on files.
pub(super) fn warnings(policy: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    for (index, origin) in std::iter::once(&policy.origin).chain(&policy.pools).enumerate() {
        for (place, server) in origin.servers.iter().enumerate() {
            let Server::Unix(path) = server else { continue };
            let Some(why) = no_socket(path) else { continue };
            let end = [Step::Key("servers"), Step::Element(place)];
            let steps = match index.checked_sub(1) {
                Some(pool) => [&[Step::Key("pool"), Step::Element(pool)][..], &end].concat(),
                None => [&[Step::Key("origin")][..], &end].concat(),
            };
            let faults = vec![place_of(&policy.sources, &steps).fault(why)];
            let file = policy.file.to_string_lossy().into_owned();
            warnings.push(Errors { file, faults, more: 0 }.to_string());
        }
    }
    warnings
}

/// Why there is no server; nothing is said of what is not there yet.
fn no_socket(path: &Path) -> Option<String> {
    let kind = fs::metadata(path).ok()?.file_type();
    let what = if kind.is_dir() { "a directory" } else { "a file and no socket" };
    let shown = path.display();
    (!kind.is_socket()).then(|| {
        format!(
            "{shown} is {what}: requests for this server fail; name the socket that it listens on"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_server_s_path_is_a_socket_or_not_there_yet() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        let _socket = UnixListener::bind(at("socket")).expect("our own folder");
        fs::write(at("file"), "").expect("our own folder");
        let text = format!(
            "[origin]\nservers = [\"unix:{}\", \"unix:{}\"]\n[[pool]]\nname = \"p\"\nservers = [\"a:1\", \"unix:{}\", {{ address = \"unix:{}\" }}]\n",
            at("socket"),
            at("later"),
            at("file"),
            folder.path().display()
        );
        fs::write(at("p.toml"), text).expect("our own folder");
        let policy = load(Path::new(&at("p.toml"))).expect("a policy");
        let said = warnings(&policy);
        let [file, directory] = &said[..] else { panic!("{said:?}") };
        assert!(file.contains("/p.toml:5:19: pool[1].servers[2]: /"), "{file}");
        assert!(file.contains("/file is a file and no socket: requests"), "{file}");
        assert!(directory.contains("pool[1].servers[3]: /"), "{directory}");
        assert!(
            directory.contains(" is a directory: requests for this server fail"),
            "{directory}"
        );
    }
}
