//! The `rejoin` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rejoin::cli::run(std::env::args_os())
}
