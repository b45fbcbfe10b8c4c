//! A policy file: any text is a policy, whose plan is valid by construction, or a list of faults, each with its place,
//! never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tiergate::config;

fuzz_target!(|text: &str| {
    if let Err(faults) = config::parse(text, "policy.toml") {
        let told = faults.to_string();
        assert!(told.lines().all(|line| line.starts_with("policy.toml:")), "{told}");
    }
});
