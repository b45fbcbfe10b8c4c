//! A policy file: any text is a policy or a list of faults, each with its place, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tiergate::config;

fuzz_target!(|text: &str| {
    match config::parse(text, "policy.toml") {
        Ok(policy) => policy.plan.check().expect("a policy without faults is a plan that holds"),
        Err(faults) => {
            let told = faults.to_string();
            assert!(told.lines().all(|line| line.starts_with("policy.toml:")), "{told}");
        }
    }
});
