//! Container Linux Config that a person wrote, read as Ignition. Owns what is refused, and what counts as a doubt: in a strict
//! configuration a doubt is refused too. Must not know what it is merged with.
//! Source: `flatcar/container-linux-config-transpiler` v0.9.4, `flatcar/ignition` v0.36.2 `config/v2_3/types`
//! (`Validate…`), as cluster-api `bootstrap/kubeadm/pkg/ignition/clc/clc.go`, v1.14.2, uses them.
//!
//! Its maker recommends Butane now. It stays because `ignition.containerLinuxConfig` of v1beta2 takes nothing else, and
//! upstream's tests hold the merging and the strict mode (`ignition_test.go`, `clc/clc_test.go`).
//!
//! Limit: sections that stand for units and files of their own (`etcd`, `flannel`, `update`, `docker`, `locksmith`) are
//! refused, and so are files beside the configuration (`local`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::config::{Config, DropIn, Location};

/// Known keys by path; lists have their elements' path.
const KNOWN: &[(&str, &[&str])] = &[
    ("", &["version", "ignition", "storage", "systemd", "networkd", "passwd"]),
    ("/ignition", &["config", "timeouts", "security"]),
    ("/ignition/config", &["append", "replace"]),
    ("/ignition/timeouts", &["http_response_headers", "http_total"]),
    ("/ignition/security", &["tls"]),
    ("/ignition/security/tls", &["certificate_authorities"]),
    ("/storage", &["disks", "raid", "filesystems", "files", "directories", "links"]),
    ("/storage/disks", &["device", "wipe_table", "partitions"]),
    ("/storage/disks/partitions", &["label", "number", "size", "start", "guid", "type_guid"]),
    ("/storage/raid", &["name", "level", "devices", "spares", "options"]),
    ("/storage/filesystems", &["name", "mount", "path"]),
    (
        "/storage/filesystems/mount",
        &["device", "format", "create", "wipe_filesystem", "label", "uuid", "options"],
    ),
    ("/storage/files", &["filesystem", "path", "user", "group", "mode", "contents", "overwrite", "append"]),
    ("/storage/files/contents", &["remote", "inline", "local"]),
    ("/storage/directories", &["filesystem", "path", "user", "group", "mode", "overwrite"]),
    ("/storage/links", &["filesystem", "path", "user", "group", "hard", "target", "overwrite"]),
    ("/systemd", &["units"]),
    ("/systemd/units", &["name", "enable", "enabled", "mask", "contents", "dropins"]),
    ("/systemd/units/dropins", &["name", "contents"]),
    ("/networkd", &["units"]),
    ("/networkd/units", &["name", "contents", "dropins"]),
    ("/networkd/units/dropins", &["name", "contents"]),
    ("/passwd", &["users", "groups"]),
    ("/passwd/groups", &["name", "gid", "password_hash", "system"]),
    (
        "/passwd/users",
        &[
            "name",
            "password_hash",
            "ssh_authorized_keys",
            "create",
            "uid",
            "gecos",
            "home_dir",
            "no_create_home",
            "primary_group",
            "groups",
            "no_user_group",
            "system",
            "no_log_init",
            "shell",
        ],
    ),
];
const GENERATED: [&str; 5] = ["etcd", "flannel", "update", "docker", "locksmith"];
const UNITS: [&str; 12] = [
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "snapshot",
    "slice",
    "scope",
];
const FORMATS: [(&str, usize); 5] = [("ext4", 16), ("btrfs", 256), ("xfs", 12), ("swap", 15), ("vfat", 11)];
const SHA512_DIGITS: usize = 128;

/// # Errors
/// A sentence with the path of what is wrong.
pub fn read(text: &str, strict: bool) -> Result<Config, String> {
    // Modes are written as `0644`, which YAML 1.2 reads as a decimal number.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let written: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| format!("it is not YAML: {error}"))?;
    let mut doubts = Vec::new();
    let written = without_nulls(written);
    if written.is_null() {
        doubts.push("it is empty".to_owned());
    }
    if let Some(section) = GENERATED.iter().find(|section| written.get(section).is_some()) {
        return Err(format!("section {section} is not supported here; write its units and files instead"));
    }
    if written.get("version").is_some_and(|version| version != 0) {
        return Err("version: only version 0 is supported".to_owned());
    }
    // Before the typed reading, which drops unknown keys without a word.
    look_for_unknown(&written, "", &mut doubts);
    look_for_modes(&written, &mut doubts);
    let mut config: Config = match written {
        Value::Null => Config::default(),
        written => serde_json::from_value(written).map_err(|error| error.to_string())?,
    };
    references(&mut config.ignition.config)?;
    check(&config, &mut doubts)?;
    match doubts.first() {
        // Without the strict mode doubts are dropped, as upstream only logs them.
        Some(doubt) if strict => Err(format!("{doubt} (it is strict)")),
        _ => Ok(config),
    }
}

/// An empty value in YAML is as good as none.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key, without_nulls(value))).collect()
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

fn look_for_unknown(value: &Value, path: &str, doubts: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let known = KNOWN.iter().find(|(at, _)| *at == path).map(|(_, keys)| *keys);
            for (key, value) in map {
                if known.is_some_and(|keys| !keys.contains(&key.as_str())) {
                    doubts.push(format!("{path}/{key}: config has an unrecognized key"));
                }
                look_for_unknown(value, &format!("{path}/{key}"), doubts);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| look_for_unknown(value, path, doubts)),
        _ => {}
    }
}

fn look_for_modes(written: &Value, doubts: &mut Vec<String>) {
    for kind in ["files", "directories"] {
        let list = written["storage"][kind].as_array().into_iter().flatten();
        for node in list.filter(|node| node.get("mode").is_none()) {
            doubts.push(format!("storage.{kind} {}: mode unspecified", node["path"]));
        }
    }
}

/// `append` and `replace`, whose verification is written otherwise in Ignition.
fn references(config: &mut Value) -> Result<(), String> {
    use super::config::Reference;
    let Some(map) = config.as_object_mut() else { return Err("ignition.config: expected a map".to_owned()) };
    // The typed reading keeps this section as it came, so unknown keys are dropped here.
    map.retain(|key, _| matches!(key.as_str(), "append" | "replace"));
    for value in map.values_mut() {
        let read = |value: &Value| {
            let reference: Reference = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
            check_hash(reference.verification.hash.as_deref(), &reference.source)?;
            check_url(&reference.source, "ignition.config")?;
            serde_json::to_value(reference).map_err(|error| error.to_string())
        };
        *value = match &*value {
            Value::Array(list) => list.iter().map(read).collect::<Result<Value, String>>()?,
            one => read(one)?,
        };
    }
    Ok(())
}

fn check(config: &Config, doubts: &mut Vec<String>) -> Result<(), String> {
    check_filesystems(config, doubts)?;
    check_nodes(config, doubts)?;
    check_units(config, doubts)?;
    for authority in &config.ignition.security.tls.certificate_authorities {
        check_url(&authority.source, "ignition.security.tls")?;
        check_hash(authority.verification.hash.as_deref(), &authority.source)?;
    }
    for disk in &config.storage.disks {
        absolute(&disk.device, "storage.disks")?;
        // 0 stands for "the next free number", and may repeat.
        let mut numbers: Vec<i64> = disk.partitions.iter().map(|p| p.number).filter(|n| *n != 0).collect();
        numbers.sort_unstable();
        if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(format!("storage.disks {}: partition numbers collide", disk.device));
        }
        // The name of a partition in a GUID partition table has room for 36 characters.
        if disk.partitions.iter().any(|p| p.label.as_ref().is_some_and(|label| label.len() > 36)) {
            return Err(format!(
                "storage.disks {}: partition labels may not exceed 36 characters",
                disk.device
            ));
        }
    }
    for user in config.passwd.users.iter().filter(|user| user.create.is_some()) {
        if user.account != super::config::Account::default() {
            return Err(format!("passwd.users {}: both the create object and user-level fields", user.name));
        }
        doubts.push(format!("passwd.users {}: the create object is deprecated", user.name));
    }
    Ok(())
}

fn check_filesystems(config: &Config, doubts: &mut Vec<String>) -> Result<(), String> {
    let mut names = BTreeSet::from(["root"]);
    for filesystem in &config.storage.filesystems {
        let at = format!("storage.filesystems {}", filesystem.name);
        if !names.insert(filesystem.name.as_str()) {
            doubts.push(format!("{at}: shadows an existing filesystem definition"));
        }
        match (&filesystem.mount, &filesystem.path) {
            (None, None) => return Err(format!("{at}: filesystem is missing mount or path")),
            (Some(_), Some(_)) => return Err(format!("{at}: filesystem has both mount and path defined")),
            (None, Some(path)) => absolute(path, &at)?,
            (Some(mount), None) => {
                absolute(&mount.device, &at)?;
                let format = FORMATS.iter().find(|(name, _)| *name == mount.format);
                let (name, longest) = format.ok_or_else(|| format!("{at}: invalid filesystem format"))?;
                if mount.label.as_ref().is_some_and(|label| label.len() > *longest) {
                    return Err(format!("{at}: labels of {name} have at most {longest} characters"));
                }
                if mount.create.is_some() && (mount.wipe_filesystem || !mount.options.is_empty()) {
                    return Err(format!("{at}: both the create object and mount-level fields"));
                }
                if mount.create.is_some() {
                    doubts.push(format!("{at}: the create object is deprecated"));
                }
            }
        }
    }
    Ok(())
}

fn check_nodes(config: &Config, doubts: &mut Vec<String>) -> Result<(), String> {
    let storage = &config.storage;
    let locations = storage.files.iter().map(|f| ("files", &f.location));
    let locations = locations.chain(storage.directories.iter().map(|d| ("directories", &d.location)));
    let names = storage.filesystems.iter().map(|f| f.name.as_str());
    let names: BTreeSet<&str> = names.chain(["root"]).collect();
    for (kind, location) in locations.chain(storage.links.iter().map(|l| ("links", &l.location))) {
        let at = format!("storage.{kind} {}", location.path);
        check_location(location, &at)?;
        if !names.contains(location.filesystem.as_str()) {
            doubts.push(format!("{at}: references nonexistent filesystem {:?}", location.filesystem));
        }
    }
    let modes = storage.files.iter().map(|f| (f.mode, &f.location.path));
    for (mode, path) in modes.chain(storage.directories.iter().map(|d| (d.mode, &d.location.path))) {
        // The permission bits with setuid, setgid and sticky; whatever is beyond them is not a mode.
        if !(0..=0o7777).contains(&mode) {
            return Err(format!("storage {path}: illegal file mode"));
        }
    }
    for file in &storage.files {
        let at = format!("storage.files {}", file.location.path);
        if file.append && file.location.overwrite == Some(true) {
            return Err(format!("{at}: cannot set both append and overwrite to true"));
        }
        if !matches!(file.contents.compression.as_str(), "" | "gzip") {
            return Err(format!("{at}: invalid compression method"));
        }
        check_url(&file.contents.source, &at)?;
        check_hash(file.contents.verification.hash.as_deref(), &at)?;
    }
    Ok(())
}

fn check_location(location: &Location, at: &str) -> Result<(), String> {
    if location.filesystem.is_empty() {
        return Err(format!("{at}: no filesystem specified"));
    }
    let both =
        [&location.user, &location.group].into_iter().flatten().any(|o| o.id.is_some() && !o.name.is_empty());
    if both { Err(format!("{at}: cannot set both id and name")) } else { absolute(&location.path, at) }
}

fn check_units(config: &Config, doubts: &mut Vec<String>) -> Result<(), String> {
    for unit in &config.systemd.units {
        let at = format!("systemd.units {}", unit.name);
        if !UNITS.contains(&extension(&unit.name)) {
            return Err(format!("{at}: invalid systemd unit extension"));
        }
        let is_enabled = unit.enable || unit.enabled == Some(true);
        let has_install = unit.contents.lines().any(|line| line.trim() == "[Install]");
        if is_enabled && !unit.contents.is_empty() && !has_install {
            doubts.push(format!("{at}: is enabled, but has no install section so enable does nothing"));
        }
        check_drop_ins(&unit.dropins, &at)?;
    }
    for unit in &config.networkd.units {
        let at = format!("networkd.units {}", unit.name);
        if !["link", "netdev", "network"].contains(&extension(&unit.name)) {
            return Err(format!("{at}: invalid networkd unit extension"));
        }
        check_drop_ins(&unit.dropins, &at)?;
    }
    Ok(())
}

fn check_drop_ins(drop_ins: &[DropIn], at: &str) -> Result<(), String> {
    match drop_ins.iter().find(|drop_in| extension(&drop_in.name) != "conf") {
        Some(wrong) => Err(format!("{at}: drop-in {:?} has an invalid extension", wrong.name)),
        None => Ok(()),
    }
}

fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn absolute(path: &str, at: &str) -> Result<(), String> {
    if path.starts_with('/') { Ok(()) } else { Err(format!("{at}: path not absolute")) }
}

fn check_url(url: &str, at: &str) -> Result<(), String> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    // An empty source is valid: it stands for an empty file.
    match url.is_empty() || ["http", "https", "oem", "tftp", "s3", "data"].contains(&scheme) {
        true => Ok(()),
        false => Err(format!("{at}: invalid url scheme of {url:?}")),
    }
}

fn check_hash(hash: Option<&str>, at: &str) -> Result<(), String> {
    match hash.and_then(|hash| hash.split_once('-')) {
        None => Ok(()),
        Some(("sha512", sum)) if sum.len() == SHA512_DIGITS => Ok(()),
        Some(("sha512", _)) => Err(format!("{at}: incorrect size for hash sum")),
        Some((function, _)) => Err(format!("{at}: unrecognized hash function {function:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn json_of(text: &str) -> Value {
        serde_json::to_value(read(text, false).expect(text)).expect("JSON")
    }

    #[test]
    fn every_section_has_its_counterpart() {
        let read = json_of(
            "passwd:\n  users:\n  - name: ops\n    home_dir: /srv/ops\n    uid: 7\n  groups:\n  - name: g\n    gid: 8\n\
             storage:\n  disks:\n  - device: /dev/sdb\n    wipe_table: true\n    partitions:\n    - {label: a, number: 1, \
             size: 2GiB, start: 4096KB, type_guid: swap_partition}\n  filesystems:\n  - name: data\n    mount: {device: \
             /dev/sdb1, format: ext4, wipe_filesystem: true}\n  files:\n  - path: /etc/a b\n    mode: 0640\n    contents:\n      \
             inline: \"a b\\n\"\n    user: {name: root}\n  - path: /r\n    filesystem: data\n    contents:\n      remote:\n        \
             url: https://x/y\n        compression: gzip\n        verification:\n          hash: {function: sha512}\n  \
             directories:\n  - path: /d\n  links:\n  - {path: /l, target: /d, hard: true}\n  raid:\n  - {name: md, level: raid1, \
             devices: [/dev/a]}\nsystemd:\n  units:\n  - name: a.service\n    mask: true\n    contents:\n    dropins: [{name: \
             b.conf, contents: c}]\nnetworkd:\n  units:\n  - {name: n.network, contents: x}\nignition:\n  timeouts: \
             {http_total: 3}\n  config:\n    append: [{source: 'https://x/z'}]\n",
        );
        assert_eq!(
            read["passwd"],
            json!({
            "users": [{"name": "ops", "homeDir": "/srv/ops", "uid": 7}], "groups": [{"name": "g", "gid": 8}]})
        );
        assert_eq!(
            read["storage"]["disks"][0],
            json!({"device": "/dev/sdb", "wipeTable": true, "partitions": [{
            "label": "a", "number": 1, "sizeMiB": 2048, "startMiB": 4, "typeGuid": "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f"}]})
        );
        assert_eq!(
            read["storage"]["filesystems"][0],
            json!({"name": "data",
            "mount": {"device": "/dev/sdb1", "format": "ext4", "wipeFilesystem": true}})
        );
        assert_eq!(
            read["storage"]["files"],
            json!([
            {"filesystem": "root", "path": "/etc/a b", "mode": 416, "user": {"name": "root"},
             "contents": {"source": "data:,a%20b%0A", "verification": {}}},
            {"filesystem": "data", "path": "/r", "mode": 420,
             "contents": {"source": "https://x/y", "compression": "gzip", "verification": {}}}])
        );
        assert_eq!(
            read["storage"]["directories"],
            json!([{"filesystem": "root", "path": "/d", "mode": 493}])
        );
        assert_eq!(
            read["storage"]["links"],
            json!([{"filesystem": "root", "path": "/l", "target": "/d", "hard": true}])
        );
        assert_eq!(
            read["systemd"]["units"],
            json!([
            {"name": "a.service", "mask": true, "dropins": [{"name": "b.conf", "contents": "c"}]}])
        );
        assert_eq!(
            read["ignition"],
            json!({"version": "2.3.0", "timeouts": {"httpTotal": 3}, "security": {"tls": {}},
            "config": {"append": [{"source": "https://x/z", "verification": {}}]}})
        );
    }

    #[test]
    fn what_cannot_be_used_says_where() {
        for (text, reason) in [
            ("a: [", "it is not YAML"),
            ("version: 1", "only version 0"),
            ("etcd: {}", "section etcd is not supported"),
            ("storage: {files: [{path: a}]}", "storage.files a: path not absolute"),
            ("storage: {files: [{path: /a, mode: 99999}]}", "illegal file mode"),
            ("storage: {files: [{path: /a, contents: {local: b}}]}", "local files cannot be read"),
            (
                "storage: {files: [{path: /a, contents: {inline: b, remote: {url: 'http://c'}}}]}",
                "only one of",
            ),
            ("storage: {files: [{path: /a, contents: {remote: {url: 'ftp://c'}}}]}", "invalid url scheme"),
            (
                "storage: {files: [{path: /a, contents: {remote: {url: 'http://c', verification: {hash: {function: \
                 md5, sum: d}}}}}]}",
                "unrecognized hash function \"md5\"",
            ),
            ("storage: {files: [{path: /a, append: true, overwrite: true}]}", "both append and overwrite"),
            ("storage: {files: [{path: /a, user: {id: 1, name: b}}]}", "both id and name"),
            ("storage: {filesystems: [{name: a}]}", "missing mount or path"),
            (
                "storage: {filesystems: [{name: a, mount: {device: /b, format: zfs}}]}",
                "invalid filesystem format",
            ),
            (
                "storage: {filesystems: [{name: a, mount: {device: /b, format: vfat, label: cccccccccccc}}]}",
                "labels of vfat have at most 11",
            ),
            ("storage: {disks: [{device: /b, partitions: [{size: 5}]}]}", "expected"),
            ("storage: {disks: [{device: /b, partitions: [{size: 5KiB}]}]}", "finest granularity"),
            ("storage: {disks: [{device: /b, partitions: [{number: 1}, {number: 1}]}]}", "numbers collide"),
            ("systemd: {units: [{name: a}]}", "invalid systemd unit extension"),
            (
                "systemd: {units: [{name: a.service, dropins: [{name: b}]}]}",
                "drop-in \"b\" has an invalid extension",
            ),
            ("networkd: {units: [{name: a.service}]}", "invalid networkd unit extension"),
            ("passwd: {users: [{name: a, uid: 1, create: {}}]}", "both the create object"),
        ] {
            let error = read(text, false).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn doubts_count_where_it_is_strict() {
        for (text, reason) in [
            ("storage: {files: [{path: /a}]}", "mode unspecified"),
            ("storage: {files: [{path: /a, mode: 0644, filesystem: b}]}", "nonexistent filesystem \"b\""),
            ("storages: {}", "/storages: config has an unrecognized key"),
            ("systemd: {units: [{name: a.service, masked: true}]}", "/systemd/units/masked"),
            (
                "systemd: {units: [{name: a.service, enabled: true, contents: '[Unit]'}]}",
                "no install section",
            ),
            ("", "it is empty"),
        ] {
            let error = read(text, true).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
            assert!(read(text, false).is_ok(), "{text}");
        }
        assert!(read("storage: {files: [{path: /a, mode: 0644}]}", true).is_ok());
    }
}
