//! How many files and connections the process may have open. Owns the limit; must not know what is opened.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as Go programs do: the usual soft limit of 1,024 is there for programs
/// that use `select`. A limit that cannot be raised stays.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        Ok(()) => tracing::debug!("up to {:?} files and connections may be open", limit.maximum),
        Err(error) => tracing::warn!("the limit of open files cannot be raised: {error}"),
    }
}
