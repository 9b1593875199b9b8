//! Writes LeaderMigrationConfigurations for given readers: the newest version that the oldest one reads, and the names
//! of its release. Must not know files.

use std::fmt::Write as _;

use super::configuration::{ConfigVersion, Configuration, ControllerLeader, KIND, LEASES};
use super::controller_names::Function;
use super::release::Release;

/// As YAML. `"*"` stands in quotes, because a bare one is an alias.
pub fn write(configuration: &Configuration, version: ConfigVersion) -> String {
    let mut text = format!("apiVersion: {}\nkind: {KIND}\n", version.api_version());
    let _ = writeln!(text, "leaderName: {}", scalar(&configuration.leader_name));
    if version.has_resource_lock() {
        let _ = writeln!(text, "resourceLock: {}", scalar(&configuration.resource_lock));
    }
    if configuration.controller_leaders.is_empty() {
        text.push_str("controllerLeaders: []\n");
        return text;
    }
    text.push_str("controllerLeaders:\n");
    for ControllerLeader { name, component } in &configuration.controller_leaders {
        let _ = write!(text, "  - name: {}\n    component: {}\n", scalar(name), scalar(component));
    }
    text
}

/// Plain where that is safe.
fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c == '-';
    let is_plain = text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(plain);
    // YAML 1.1 reads these as booleans or null, and upstream's decoder follows it.
    let is_word = matches!(text, "null" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n");
    // A JSON text is a YAML text.
    if is_plain && !is_word { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// The file that lets processes of `release` migrate `functions`. `None` before leader migration existed.
pub fn generate(
    leader_name: &str,
    functions: &[Function],
    component: &str,
    release: Release,
) -> Option<(Configuration, ConfigVersion)> {
    let version = ConfigVersion::for_readers(release)?;
    let entry = |function: &Function| ControllerLeader {
        name: function.name_in(release).to_owned(),
        component: component.to_owned(),
    };
    let configuration = Configuration {
        leader_name: leader_name.to_owned(),
        resource_lock: LEASES.to_owned(),
        controller_leaders: functions.iter().map(entry).collect(),
    };
    Some((configuration, version))
}
