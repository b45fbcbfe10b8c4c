//! Interfaces that a policy names, and this machine does not have: nothing is refused there.

use crate::config::meant::KernelSettings;
use std::path::Path;

/// For a person, those of `[kernel] interfaces` that are not there now.
pub(crate) fn missing_words(settings: &KernelSettings) -> Vec<String> {
    missing(&settings.interfaces)
}

fn missing(interfaces: &[String]) -> Vec<String> {
    let folder = Path::new("/sys/class/net");
    // Without /sys nothing is known.
    if !folder.is_dir() {
        return Vec::new();
    }
    let missing = interfaces.iter().filter(|it| !folder.join(it).exists());
    let words = |name: &String| {
        format!(
            "kernel.interfaces: this machine has no interface {name} now, so that the kernel refuses nothing there until it has; `ip link` lists those that it has"
        )
    };
    missing.map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let said = |name: &str| missing(&["lo".to_owned(), name.to_owned()]);
        let of_another = said("eht0");
        assert!(
            of_another.len() == 1 && of_another[0].contains("no interface eht0 now"),
            "{of_another:?}"
        );
        assert_eq!(said("lo"), Vec::<String>::new());
    }
}
