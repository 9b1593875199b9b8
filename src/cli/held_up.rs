//! Says where a person looks why the controllers of an engine do not run yet: kinds that cannot be listed, such as by a missing
//! right. Must not know why they are read.

use std::time::Duration;

use capstan_base::text::sanitize_line;
use capstan_commands::{engine_status, output};
use capstan_engine::client::watch::Progress;
use capstan_engine::engine::Handle;
use capstan_engine::engine::lease::LeaseNotes;
use k8s_machinery::lease;

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Looks until it is dropped, prints a line whenever what holds the controllers up has changed, and keeps it on the engine's
/// Lease.
pub async fn print_changes(handle: Handle, notes: LeaseNotes) {
    let mut told = Vec::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let held_up = reasons(&handle.caches());
        notes.set(lease::HELD_UP_BY, &held_up.join("; "));
        if held_up != told && output::print(&sentence(&held_up)).is_err() {
            // The reading end of standard output is closed.
            return;
        }
        told = held_up;
    }
}

/// Kinds whose first list is not there, each with why.
fn reasons(caches: &[(String, Progress)]) -> Vec<String> {
    let waiting = caches.iter().filter(|(_, progress)| !progress.ready);
    let mut reasons: Vec<String> = waiting
        .filter_map(|(kind, progress)| {
            // A list that is under way has no trouble, and holds nothing up for long.
            Some(format!("{kind}: {}", sanitize_line(progress.trouble.as_deref()?)))
        })
        .collect();
    // In one order, so that another order alone is not printed as a change.
    reasons.sort();
    reasons
}

fn sentence(reasons: &[String]) -> String {
    match reasons {
        [] => "the controllers run\n".to_owned(),
        reasons => format!("{}\n", engine_status::held_up(&reasons.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_may_not_be_read_is_named_until_it_can_be() {
        let progress = |ready, trouble: Option<&str>| Progress {
            ready,
            trouble: trouble.map(str::to_owned),
            ..Progress::default()
        };
        let cache = |kind: &str, progress| (kind.to_owned(), progress);
        let forbidden = "extensionconfigs is forbidden";
        let caches = [
            cache("Machine", progress(true, None)),
            cache("ExtensionConfig", progress(false, Some(forbidden))),
            cache("Cluster", progress(false, None)),
            cache("MachineSet", progress(true, Some("a watch that failed once"))),
        ];
        let held_up = reasons(&caches);
        assert_eq!(
            sentence(&held_up),
            "the controllers do not run until these can be read: ExtensionConfig: extensionconfigs is forbidden\n"
        );
        assert_eq!(sentence(&reasons(&caches[..1])), "the controllers run\n");
    }
}
