//! `--leader-migration-config`: how several engines share one server's work, read from a file. Owns what the file may
//! say beyond what one process can see; the rules of the locks are `engine::sharing`'s.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};

use capstan_commands::engine_status::ENGINE_LEASE;
use capstan_engine::engine::lease::LeaseOptions;
use capstan_engine::engine::sharing::Sharing;
use k8s_machinery::lease;
use leader_migration::reading::read;

/// Reads a stream of LeaderMigrationConfigurations, one for each lock.
///
/// # Errors
/// The file cannot be read, or the first line that is wrong.
pub fn from_file(path: &Path, component: &str) -> anyhow::Result<Sharing> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let mut locks = Vec::new();
    for document in documents(&text) {
        let reading = read(&document);
        if let Some(defect) = reading.defects.first() {
            bail!("{name}:{}: {}", defect.line, defect.problem);
        }
        locks.push(
            reading
                .configuration
                .ok_or_else(|| anyhow!("{name}: expected a LeaderMigrationConfiguration"))?,
        );
    }
    if locks.is_empty() {
        bail!("{name}: expected a LeaderMigrationConfiguration for each lock");
    }
    Ok(Sharing { component: component.to_owned(), locks })
}

/// The documents of a stream, each with as many empty lines before it as lines were left out.
fn documents(text: &str) -> Vec<String> {
    let mut found: Vec<String> = vec![String::new()];
    for (number, line) in text.lines().enumerate() {
        if line.trim_end() == "---" {
            found.push("\n".repeat(number + 1));
        } else if let Some(last) = found.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    let says_something = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    found.retain(|document| document.lines().any(says_something));
    found
}

/// The primary Lease: the one of all engines, or with a file that of the component.
pub fn primary(namespace: &str, component: &str, is_shared: bool, identity: &str) -> LeaseOptions {
    let name = if is_shared { format!("{ENGINE_LEASE}-{component}") } else { ENGINE_LEASE.to_owned() };
    LeaseOptions {
        labels: BTreeMap::from([(lease::COMPONENT.to_owned(), component.to_owned())]),
        ..LeaseOptions::new(namespace, &name, identity)
    }
}
