//! The `tiergate` program.

fn main() -> std::process::ExitCode {
    tiergate::cli::main()
}
