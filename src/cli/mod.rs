//! The composition root: arguments, modes, wiring, one-shot commands, exit codes.

pub mod act;
pub mod args;
pub mod crds;
pub mod describe;
pub mod get;
pub mod log;
pub mod output;
pub mod paths;
pub mod target;
pub mod wait;

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
