//! The composition root: arguments, modes, wiring, one-shot commands, exit codes.

pub mod args;
pub mod log;
pub mod paths;

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
