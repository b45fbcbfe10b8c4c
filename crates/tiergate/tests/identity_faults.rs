//! What is said of policies that are wrong about who clients are, word for word.

use tiergate::config::parse;

#[test]
fn each_fault_is_told_with_place_key_found_and_expected() {
    let table: &[(&str, &str)] = &[
        (
            "[names]\nservers = []",
            "4:11: names.servers: must not be empty; leave it out for the system's servers",
        ),
        (
            "[names]\nservers = [\"localhost\"]",
            "4:12: names.servers[1]: must be an address and port such as \"0.0.0.0:80\" or \"[::]:443\", got \"localhost\"",
        ),
        ("[names]\ntimeout = \"1m\"", "4:11: names.timeout: must be at most \"30s\", got \"1m\""),
        ("[names]\nentries_max = 1", "4:15: names.entries_max: must be at least 64, got 1"),
        ("[names]\nlookups_max = 0", "4:15: names.lookups_max: must be at least 1, got 0"),
        (
            "[names]\nttl_max = \"10s\"",
            "4:11: names.ttl_max: ttl_min, \"1m\", must be at most ttl_max, \"10s\"",
        ),
    ];
    for (text, expected) in table {
        let text = format!("[origin]\nservers = [\"127.0.0.1:8080\"]\n{text}\n");
        let errors = parse(&text, "p.toml").expect_err(&text).to_string();
        let expected: Vec<_> = expected.lines().map(|line| format!("p.toml:{line}")).collect();
        assert_eq!(errors, expected.join("\n"), "{text}");
    }
}
