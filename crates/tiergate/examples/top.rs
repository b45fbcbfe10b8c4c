//! The live view by itself: `cargo run --example top -- ADDRESS [--once]`.

use std::time::Duration;
use tiergate::dashboard::{Options, run};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    run(&Options {
        admin: arguments.first().cloned().unwrap_or_else(|| "127.0.0.1:22090".to_owned()),
        interval: Duration::from_secs(1),
        once: arguments.iter().any(|argument| argument == "--once"),
    })
}
