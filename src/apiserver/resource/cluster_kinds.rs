//! What an API server with nodes behind it serves beyond the built-in kinds: pods, and what controls them. Must not
//! know how a node answers.

use super::strategy::Strategy;
use super::{Resource, kind_of};

/// The further kinds of a cluster that has nodes.
pub(super) fn of_nodes() -> Vec<Resource> {
    let named = |short: &str, group: &str, kind: &str, strategy| Resource {
        short_names: vec![short.to_owned()],
        categories: vec!["all".to_owned()],
        has_status: true,
        ..kind_of(group, kind, strategy)
    };
    vec![
        named("po", "", "Pod", Strategy::Pod),
        named("ds", "apps", "DaemonSet", Strategy::App),
        named("deploy", "apps", "Deployment", Strategy::App),
    ]
}
