//! DiffServer's options.conf: any text is a policy that reads without a fault, or a list of faults, each
//! with a line of the text; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tiergate::config;
use tiergate::import::options_conf;

fuzz_target!(|text: &str| {
    match options_conf::policy(text, "options.conf", "127.0.0.1:8080") {
        Ok(written) => {
            let policy = config::parse(&written, "policy.toml")
                .unwrap_or_else(|faults| panic!("{faults}\n--- of\n{written}"));
            let tables = policy.score.expect("what is imported is a score");
            let entries = tables.clients.len() + tables.paths.len();
            // Nothing is lost: each line that says something and is no factor is an entry.
            let said = |line: &&str| {
                let said = line.split('#').next().unwrap_or_default();
                let words = said.split(|letter: char| letter.is_whitespace() || letter == '=');
                let first = words.into_iter().find(|word| !word.is_empty());
                first.is_some_and(|word| {
                    !["DOMAIN_NAME_FACTOR", "DNF", "FILE_NAME_FACTOR", "FNF"].contains(&word)
                })
            };
            assert_eq!(entries, text.lines().filter(said).count(), "{written}");
        }
        Err(told) => {
            assert!(!told.faults.is_empty());
            let lines = text.lines().count().max(1);
            assert!(told.faults.iter().all(|fault| (1..=lines).contains(&fault.line)), "{told}");
        }
    }
});
