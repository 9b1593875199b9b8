//! Cloud-init user data: files, commands, users, disks. Owns the layout; must not know how kubeadm's
//! documents came about.
//! Source: cluster-api `bootstrap/kubeadm/cloudinit/*.go`, v1.14.2. The order of keys is upstream's; the
//! quoting is that of our YAML writer.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use serde_with::skip_serializing_none;

use capi_types::bootstrap::KubeadmConfigSpec;

/// One file to write.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct File {
    /// On the host.
    pub path: String,
    /// `base64`, `gzip`, `gzip+base64`; plain text without one.
    pub encoding: Option<String>,
    /// `USER:GROUP`; root's without one.
    pub owner: Option<String>,
    /// In octal, such as `0640`.
    pub permissions: Option<String>,
    /// Behind what is there already.
    pub append: Option<bool>,
    /// As [`encoding`](Self::encoding) has it.
    pub content: String,
}

impl File {
    /// A file of root's.
    pub fn root(path: &str, permissions: &str, content: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            owner: Some("root:root".to_owned()),
            permissions: Some(permissions.to_owned()),
            content: content.into(),
            ..Self::default()
        }
    }
}

/// What kubeadm does on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeadmPhase {
    /// It begins a cluster.
    Init,
    /// It joins one, as control plane or as worker.
    Join,
}

impl KubeadmPhase {
    /// Where its configuration is written.
    pub fn config_path(self) -> &'static str {
        match self {
            Self::Init => "/run/kubeadm/kubeadm.yaml",
            Self::Join => "/run/kubeadm/kubeadm-join-config.yaml",
        }
    }

    /// What kubeadm is told to do.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Join => "join",
        }
    }

    fn command(self, verbosity: Option<i32>) -> String {
        let verb = self.verb();
        let flag = verbosity.map_or(String::new(), |v| format!(" --v {v}"));
        let path = self.config_path();
        // Infrastructure providers look for this file by contract; `&&` keeps it away when kubeadm
        // failed.
        format!(
            "kubeadm {verb} --config {path}{flag} && echo success > /run/cluster-api/bootstrap-success.complete"
        )
    }
}

#[skip_serializing_none]
#[derive(Serialize)]
struct CloudConfig {
    write_files: Vec<File>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bootcmd: Vec<String>,
    runcmd: Vec<String>,
    ntp: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    users: Vec<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    disk_setup: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fs_setup: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<Vec<String>>,
}

/// The user data. `files` are certificates, the user's files and kubeadm's configuration, in this
/// order; `passwords` are by user name.
///
/// # Errors
/// A sentence, when the text cannot be written as YAML.
pub fn render(
    phase: KubeadmPhase,
    spec: &KubeadmConfigSpec,
    mut files: Vec<File>,
    passwords: &BTreeMap<String, String>,
) -> Result<String, String> {
    files.push(File::root(
        "/run/cluster-api/placeholder",
        "0640",
        "This file makes sure that the folder exists before kubeadm reports success in it.",
    ));
    // After the placeholder, which is a file like the others.
    files.iter_mut().for_each(|file| end_with_newline(&mut file.content));
    let mut commands = spec.pre_kubeadm_commands.clone();
    commands.push(phase.command(spec.verbosity));
    // Run even when kubeadm failed: cloud-init goes on to the next command.
    commands.extend(spec.post_kubeadm_commands.iter().cloned());
    let config = CloudConfig {
        write_files: files,
        bootcmd: spec.boot_commands.clone(),
        runcmd: commands,
        ntp: spec
            .ntp
            .as_ref()
            .map(|ntp| without_nulls(json!({"enabled": ntp.enabled, "servers": ntp.servers}))),
        users: users(spec, passwords),
        disk_setup: disks(spec),
        fs_setup: filesystems(spec),
        mounts: spec.mounts.clone(),
    };
    // Folding would put line breaks into commands and keys, which not every reader of YAML undoes.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
    let text = serde_saphyr::to_string_with_options(&config, options)
        .map_err(|error| format!("the user data cannot be written as YAML: {error}"))?;
    // The first line makes cloud-init fill in what it knows of the instance, such as its host name.
    Ok(format!("## template: jinja\n#cloud-config\n\n{text}"))
}

/// As upstream, whose block of text always ends so; with `append` the next line begins after it.
pub(super) fn end_with_newline(content: &mut String) {
    if !content.is_empty() && !content.ends_with('\n') {
        content.push('\n');
    }
}

fn users(spec: &KubeadmConfigSpec, passwords: &BTreeMap<String, String>) -> Vec<Value> {
    spec.users
        .iter()
        .map(|user| {
            without_nulls(json!({
                "name": user.name,
                // A password out of a Secret counts before one that stands in the object.
                "passwd": passwords.get(&user.name).or(user.passwd.as_ref()),
                "gecos": user.gecos,
                "groups": user.groups,
                "homedir": user.home_dir,
                "inactive": user.inactive,
                "lock_passwd": user.lock_password,
                "primary_group": user.primary_group,
                "shell": user.shell,
                "sudo": user.sudo,
                "ssh_authorized_keys": user.ssh_authorized_keys,
            }))
        })
        .collect()
}

fn disks(spec: &KubeadmConfigSpec) -> BTreeMap<String, Value> {
    let partitions = spec.disk_setup.iter().flat_map(|d| &d.partitions);
    partitions
        .map(|p| {
            // A list says all about the partitions, so that the flag beside it has no meaning.
            let layout = if p.disk_layout.is_empty() {
                json!(p.layout)
            } else {
                let slice = |s: &capi_types::bootstrap::PartitionSpec| match &s.partition_type {
                    Some(kind) => json!([s.percentage, partition_code(kind)]),
                    None => json!(s.percentage),
                };
                p.disk_layout.iter().map(slice).collect()
            };
            let table = p.table_type.clone();
            (
                p.device.clone(),
                without_nulls(json!({"table_type": table, "layout": layout, "overwrite": p.overwrite})),
            )
        })
        .collect()
}

/// The code that cloud-init hands to the partitioning tool. Whatever has no name here is one already.
fn partition_code(kind: &str) -> &str {
    match kind {
        "Linux" => "83",
        "LinuxSwap" => "82",
        "LinuxRAID" => "fd",
        "LVM" => "8e",
        "Fat32" => "0c",
        "NTFS" => "07",
        "LinuxExtended" => "85",
        code => code,
    }
}

fn filesystems(spec: &KubeadmConfigSpec) -> Vec<Value> {
    let filesystems = spec.disk_setup.iter().flat_map(|d| &d.filesystems);
    filesystems
        .map(|f| {
            without_nulls(json!({
                "label": f.label, "filesystem": f.filesystem, "device": f.device, "partition": f.partition,
                "overwrite": f.overwrite, "replace_fs": f.replace_fs, "extra_opts": f.extra_opts,
            }))
        })
        .collect()
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        // Empty lists go too, as Go leaves them out.
        map.retain(|_, v| !v.is_null() && v.as_array().is_none_or(|list| !list.is_empty()));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_types_were_names_that_no_partitioning_tool_knows() {
        let names = ["Linux", "LinuxSwap", "LinuxRAID", "LVM", "Fat32", "NTFS", "LinuxExtended", "ef00"];
        let slices: Vec<Value> =
            names.iter().map(|name| json!({"percentage": 10, "partitionType": name})).collect();
        let spec: KubeadmConfigSpec = serde_json::from_value(json!({"diskSetup": {"partitions": [
            {"device": "/dev/sdb", "layout": true, "diskLayout": slices}]}}))
        .expect("a spec");
        let text = render(KubeadmPhase::Join, &spec, Vec::new(), &BTreeMap::new()).expect("user data");
        let read: Value = serde_saphyr::from_str(&text).expect("YAML");
        let layout = read["disk_setup"]["/dev/sdb"]["layout"].as_array().expect("a list").clone();
        let codes: Vec<&str> = layout.iter().filter_map(|slice| slice[1].as_str()).collect();
        assert_eq!(codes, ["83", "82", "fd", "8e", "0c", "07", "85", "ef00"], "{text}");
    }

    #[test]
    fn files_ended_without_a_newline_so_that_appended_text_ran_into_the_last_line() {
        let files = ["a", "a\n", ""].map(|content| File::root("/etc/x", "0644", content));
        let spec = KubeadmConfigSpec::default();
        let text = render(KubeadmPhase::Join, &spec, files.into(), &BTreeMap::new()).expect("user data");
        let read: Value = serde_saphyr::from_str(&text).expect("YAML");
        let content = |at: usize| read["write_files"][at]["content"].as_str().unwrap_or_default();
        assert_eq!([content(0), content(1), content(2)], ["a\n", "a\n", ""]);
    }

    /// What a machine of one's own carries out has to be all that is written here: a key that only one of the two knows fails.
    #[test]
    fn hosts_read_all_that_is_rendered() {
        let spec: KubeadmConfigSpec = serde_json::from_value(json!({
            "bootCommands": ["at boot"], "preKubeadmCommands": ["before"], "postKubeadmCommands": ["after"],
            "ntp": {"enabled": true, "servers": ["time.example"]},
            "users": [{"name": "ops", "gecos": "Operators", "groups": "adm", "homeDir": "/srv/ops", "inactive": true,
                       "shell": "/bin/sh", "passwd": "$6$hash", "primaryGroup": "users", "lockPassword": false,
                       "sudo": "ALL", "sshAuthorizedKeys": ["k"]}],
            "mounts": [["/dev/sdb", "/data"]],
        }))
        .expect("a spec");
        let mut file = File::root("/etc/x", "0640", "{{ ds.meta_data.local_hostname }}");
        (file.append, file.encoding) = (Some(true), Some("base64".to_owned()));
        file.content = "aGk=".to_owned();
        let text = render(KubeadmPhase::Join, &spec, vec![file], &BTreeMap::new()).expect("user data");
        let instance = capstan_hosts::bootstrap::Instance {
            instance_id: "uid".to_owned(),
            local_hostname: "h1".to_owned(),
        };
        let data = capstan_hosts::bootstrap::read(&text, &instance).expect("all of it is known");
        let counts = [data.files.len(), data.boot_commands.len(), data.commands.len(), data.users.len()];
        assert_eq!(counts, [2, 1, 3, 1]);
        assert_eq!((data.mounts.len(), data.time_servers.is_some()), (1, true));
        assert_eq!((data.files[0].content.as_slice(), data.files[0].append), (b"hi".as_slice(), true));
    }

    #[test]
    fn user_data_reads_back_in_upstreams_order() {
        let spec: KubeadmConfigSpec = serde_json::from_value(json!({
            "preKubeadmCommands": ["before"], "postKubeadmCommands": ["after"], "verbosity": 5,
            "users": [{"name": "ops", "sudo": "ALL", "sshAuthorizedKeys": ["k"]}],
            "mounts": [["a", "b"]],
        }))
        .expect("a spec");
        let files = vec![File::root("/etc/x", "0644", "one\ntwo: on\n")];
        let text = render(KubeadmPhase::Init, &spec, files, &BTreeMap::new()).expect("user data");
        assert!(text.starts_with("## template: jinja\n#cloud-config\n"), "{text}");
        let order: Vec<usize> = ["write_files:", "runcmd:", "users:", "mounts:"]
            .iter()
            .filter_map(|key| text.find(key))
            .collect();
        assert!(order.len() == 4 && order.is_sorted(), "{text}");
        let read: Value = serde_saphyr::from_str(&text).expect("YAML");
        assert_eq!(read["write_files"][0]["content"], "one\ntwo: on\n");
        assert_eq!(read["write_files"][0]["permissions"], "0644", "stays a string");
        assert_eq!(
            read["runcmd"],
            json!([
                "before",
                "kubeadm init --config /run/kubeadm/kubeadm.yaml --v 5 && echo success > \
                   /run/cluster-api/bootstrap-success.complete",
                "after"
            ])
        );
        assert_eq!(read["users"][0], json!({"name": "ops", "sudo": "ALL", "ssh_authorized_keys": ["k"]}));
    }
}
