//! Interfaces that carry one another's packets: a port and its bridge, a VLAN or a bond and the device below. Where the policy names both, a packet is policed at each.

use crate::config::meant::KernelSettings;
use crate::interface::capacity::folder;
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// For a person, each pair of interfaces at which packets are policed twice.
pub(crate) fn carried_words(settings: &KernelSettings) -> Vec<String> {
    if !settings.police {
        return Vec::new();
    }
    let pairs = carried(Path::new("/sys"), &settings.interfaces);
    let words = |(below, above): (String, String)| {
        format!(
            "kernel.interfaces: packets of {above} come in by {below}, and both are named: each SYN and first request takes two tokens; leave one of them out"
        )
    };
    pairs.into_iter().map(words).collect()
}

/// Of these interfaces, each that carries another, and that. Nothing of those that `/sys` does not have.
fn carried(sys: &Path, interfaces: &[String]) -> Vec<(String, String)> {
    let above = |below: &String| {
        let all = all_above(sys, below);
        let named = interfaces.iter().filter(move |it| all.contains(*it));
        named.map(|it| (below.clone(), it.clone())).collect::<Vec<_>>()
    };
    interfaces.iter().flat_map(above).collect()
}

/// The interfaces that an interface's packets go on to: those right above it, those above these, and so on.
fn all_above(sys: &Path, interface: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    let mut next = vec![interface.to_owned()];
    while let Some(interface) = next.pop() {
        let links = fs::read_dir(folder(sys, &interface)).into_iter().flatten().flatten();
        for link in links {
            let name = link.file_name();
            let above = name.to_str().and_then(|it| it.strip_prefix("upper_"));
            next.extend(above.filter(|it| found.insert((*it).to_owned())).map(str::to_owned));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_above_an_interface_is_found_through_those_between() {
        let sys = tempfile::tempdir().expect("a folder");
        let names = ["eth0", "eth1", "bond0", "bond0.5", "br0", "eth9"].map(str::to_owned);
        for name in &names {
            fs::create_dir_all(folder(sys.path(), name)).expect("a folder of our own");
        }
        for (below, above) in
            [("eth0", "bond0"), ("eth1", "bond0"), ("bond0", "bond0.5"), ("bond0.5", "br0")]
        {
            let link = folder(sys.path(), below).join(format!("upper_{above}"));
            symlink(format!("../{above}"), link).expect("a folder of our own");
        }
        let found = |wanted: &[usize]| {
            let named: Vec<String> = wanted.iter().map(|it| names[*it].clone()).collect();
            carried(sys.path(), &named)
        };
        let pair = |below: &str, above: &str| (below.to_owned(), above.to_owned());
        assert_eq!(found(&[0, 4]), [pair("eth0", "br0")]);
        assert_eq!(found(&[4, 5, 3]), [pair("bond0.5", "br0")]);
        assert!(found(&[0, 1, 5]).is_empty());
        assert!(carried(sys.path(), &["missing".to_owned()]).is_empty());
    }
}
