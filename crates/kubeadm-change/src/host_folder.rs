//! Where the files of a plan stand on a host. Owns these paths; must not know what is in them.

/// The folder on a node for files of a plan, and for what it moves away.
pub fn folder(plan: &str) -> String {
    format!("/etc/kubernetes/tmp/capstan-{plan}")
}

/// The script on a node that puts back what stood there before a plan.
pub fn way_back(plan: &str) -> String {
    format!("{}/back.sh", folder(plan))
}
