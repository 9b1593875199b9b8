//! Parses arguments, runs, prints an error chain once, sets the exit code.

fn main() {}
