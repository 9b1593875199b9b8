//! Ignition user data: a script that runs kubeadm once, what it needs, and a Container Linux Config of the user's merged
//! in. Owns the layout; must not know how kubeadm's documents came about.
//! Source: cluster-api `bootstrap/kubeadm/pkg/ignition/{ignition.go,clc/clc.go}`, v1.14.2.

mod config;
mod container_linux;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::cloud_init::{self, KubeadmPhase, end_with_newline};
use capi_types::bootstrap::{KubeadmConfigSpec, User};
use config::{
    Account, Config, Contents, Disk, FILE_MODE, File, Filesystem, Location, Mount, NodeOwner, Partition, Unit,
};

const SERVICE: &str = "[Unit]
Description=kubeadm
# The script moves this file away when it succeeds, so it runs once.
ConditionPathExists=/etc/kubeadm.yml
After=network.target
[Service]
# It ends, and is not started again.
Type=oneshot
ExecStart=/bin/bash /etc/kubeadm.sh
[Install]
WantedBy=multi-user.target
";
/// What follows the servers in the time server's configuration: this machine serves nobody.
const NTP_RESTRICTIONS: &str = "
# Others may ask for the time, and for nothing else.
restrict default nomodify nopeer noquery notrap limited kod
restrict 127.0.0.1
restrict [::1]
";

/// The user data, JSON. `files` are certificates and the user's files, in this order; `kubeadm` is kubeadm's
/// configuration; `passwords` are by user name.
///
/// # Errors
/// A sentence, when a file, a mount or the user's configuration cannot be used.
pub fn render(
    phase: KubeadmPhase,
    spec: &KubeadmConfigSpec,
    files: Vec<cloud_init::File>,
    kubeadm: &str,
    passwords: &BTreeMap<String, String>,
) -> Result<String, String> {
    let mut config = Config::default();
    config.passwd.users = spec.users.iter().map(|user| account(user, passwords)).collect();
    config.systemd.units = units(spec)?;
    config.storage.disks = disks(spec);
    config.storage.filesystems = filesystems(spec);
    let out = &mut config.storage.files;
    out.extend(users_files(spec));
    // Certificates and files of users come before the script, so that theirs cannot replace it.
    for file in files {
        out.push(written(file)?);
    }
    out.push(root_file("/etc/kubeadm.sh", 0o700, &script(phase, spec)));
    out.push(root_file("/etc/kubeadm.yml", 0o600, &format!("---\n{kubeadm}")));
    out.extend(ntp_file(spec));
    let written = spec.ignition.as_ref().and_then(|ignition| ignition.container_linux_config.as_ref());
    if let Some(additional) = written.and_then(|c| c.additional_config.as_deref()) {
        let strict = written.is_some_and(|c| c.strict == Some(true));
        let additional = container_linux::read(additional, strict);
        // Last, so that people can override what stands alone, as upstream merges it.
        config.append(additional.map_err(|error| format!("additional Container Linux Config: {error}"))?);
    }
    serde_json::to_string(&config).map_err(|error| format!("the Ignition config cannot be written: {error}"))
}

fn account(user: &User, passwords: &BTreeMap<String, String>) -> config::User {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let groups = user.groups.as_deref().unwrap_or_default();
    config::User {
        create: None,
        account: Account {
            gecos: text(&user.gecos),
            // With the blank: the field is one text with commas, as cloud-init reads it.
            groups: groups.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            home_dir: text(&user.home_dir),
            primary_group: text(&user.primary_group),
            shell: text(&user.shell),
            ..Account::default()
        },
        name: user.name.clone(),
        password_hash: passwords.get(&user.name).or(user.passwd.as_ref()).cloned(),
        ssh_authorized_keys: user.ssh_authorized_keys.clone(),
    }
}

fn units(spec: &KubeadmConfigSpec) -> Result<Vec<Unit>, String> {
    let unit =
        |name: String, contents: String| Unit { name, contents, enabled: Some(true), ..Unit::default() };
    let mut units = vec![unit("kubeadm.service".to_owned(), SERVICE.to_owned())];
    if spec.ntp.as_ref().is_some_and(|ntp| ntp.enabled == Some(true)) {
        // The distribution has the unit; only its start is asked for.
        units.push(unit("ntpd.service".to_owned(), String::new()));
    }
    for mount in &spec.mounts {
        let [label, folder, options @ ..] = mount.as_slice() else {
            return Err(format!("mounts: {mount:?} needs a label and a folder"));
        };
        let filesystems = spec.disk_setup.iter().flat_map(|disks| &disks.filesystems);
        let device = filesystems.into_iter().find(|f| f.label.as_ref() == Some(label));
        let device = device.map_or("", |filesystem| filesystem.device.as_str());
        // systemd takes a mount unit only under the name of its folder.
        let name = folder.replace('/', "-");
        let name = name.strip_prefix('-').unwrap_or(&name);
        let contents = format!(
            "[Unit]\nDescription = Mount {label}\n\n[Mount]\nWhat={device}\nWhere={folder}\nOptions={}\n\n\
             [Install]\nWantedBy=multi-user.target\n",
            options.join(",")
        );
        units.push(unit(format!("{name}.mount"), contents));
    }
    Ok(units)
}

fn disks(spec: &KubeadmConfigSpec) -> Vec<Disk> {
    let partitions = spec.disk_setup.iter().flat_map(|disks| &disks.partitions);
    let disk = |partition: &capi_types::bootstrap::Partition| Disk {
        device: partition.device.clone(),
        // One partition without number and size fills the disk, as the flag of cloud-init does.
        partitions: (partition.layout == Some(true)).then(Partition::default).into_iter().collect(),
        wipe_table: partition.overwrite == Some(true),
    };
    partitions.map(disk).collect()
}

fn filesystems(spec: &KubeadmConfigSpec) -> Vec<Filesystem> {
    let filesystems = spec.disk_setup.iter().flat_map(|disks| &disks.filesystems);
    let filesystem = |made: &capi_types::bootstrap::Filesystem| Filesystem {
        mount: Some(Mount {
            device: made.device.clone(),
            format: made.filesystem.clone(),
            label: made.label.clone(),
            options: made.extra_opts.clone(),
            wipe_filesystem: made.overwrite == Some(true),
            ..Mount::default()
        }),
        name: made.label.clone().unwrap_or_default(),
        path: None,
    };
    filesystems.map(filesystem).collect()
}

/// What users may do as root, and who may log in by password.
fn users_files(spec: &KubeadmConfigSpec) -> Vec<File> {
    let sudoers = spec.users.iter().filter_map(|user| Some((user, user.sudo.as_ref()?)));
    let mut files: Vec<File> = sudoers
        .map(|(user, sudo)| {
            let path = format!("/etc/sudoers.d/{}", user.name);
            root_file(&path, 0o600, &format!("{} {sudo}\n", user.name))
        })
        .collect();
    let unlocked = spec.users.iter().filter(|user| user.lock_password == Some(false));
    let unlocked: Vec<&str> = unlocked.map(|user| user.name.as_str()).collect();
    if !unlocked.is_empty() {
        let text = format!(
            "# Mostly defaults.\nSubsystem sftp internal-sftp\nClientAliveInterval 180\nUseDNS no\nUsePAM yes\n\
             PrintLastLog no # PAM does\nPrintMotd no # PAM does\n\nMatch User {}\n  PasswordAuthentication yes\n",
            unlocked.join(",")
        );
        files.push(root_file("/etc/ssh/sshd_config", 0o600, &text));
    }
    files
}

fn ntp_file(spec: &KubeadmConfigSpec) -> Option<File> {
    let ntp = spec.ntp.as_ref().filter(|ntp| ntp.enabled == Some(true) && !ntp.servers.is_empty())?;
    let servers: String = ntp.servers.iter().map(|server| format!("server {server}\n")).collect();
    Some(root_file("/etc/ntp.conf", FILE_MODE, &format!("{servers}{NTP_RESTRICTIONS}")))
}

fn script(phase: KubeadmPhase, spec: &KubeadmConfigSpec) -> String {
    let lines =
        |commands: &[String]| commands.iter().map(|command| format!("{command}\n")).collect::<String>();
    let flag = spec.verbosity.map_or(String::new(), |v| format!(" --v {v}"));
    let (before, after) = (lines(&spec.pre_kubeadm_commands), lines(&spec.post_kubeadm_commands));
    format!(
        "#!/bin/bash\nset -e\n\n{before}\nkubeadm {} --config /etc/kubeadm.yml{flag}\n\
         mkdir -p /run/cluster-api && echo success > /run/cluster-api/bootstrap-success.complete\n\
         mv /etc/kubeadm.yml /tmp/\n{}{after}",
        phase.verb(),
        if after.is_empty() { "" } else { "\n" },
    )
}

/// Whether it is appended is not looked at, as upstream.
fn written(file: cloud_init::File) -> Result<File, String> {
    let path = file.path;
    let bytes = match file.encoding.as_deref() {
        Some("base64") => {
            // People wrap base64 at 76 columns, which the decoder would refuse.
            let compact: String = file.content.split_ascii_whitespace().collect();
            BASE64
                .decode(compact)
                .map_err(|error| format!("file {path}: its content is not base64: {error}"))?
        }
        _ => {
            let mut content = file.content;
            end_with_newline(&mut content);
            content.into_bytes()
        }
    };
    let mode = match file.permissions.as_deref().map(|digits| digits.trim_start_matches("0o")) {
        None | Some("") => FILE_MODE,
        Some(digits) => i64::from_str_radix(digits, 8)
            .ok()
            .filter(|mode| (0..=0o7777).contains(mode))
            .ok_or_else(|| format!("file {path}: permissions {digits:?} are not an octal mode"))?,
    };
    let owner = file.owner.unwrap_or_default();
    let mut parts = owner.split(':').map(str::trim);
    let mut next = || {
        let name = parts.next().filter(|name| !name.is_empty())?.to_owned();
        Some(NodeOwner { id: None, name })
    };
    let (user, group) = (next(), next());
    let location = Location { path, user, group, ..Location::default() };
    Ok(File { location, contents: Contents::of_bytes(&bytes), mode, append: false })
}

fn root_file(path: &str, mode: i64, text: &str) -> File {
    let location = Location { path: path.to_owned(), ..Location::default() };
    File { location, contents: Contents::of_bytes(text.as_bytes()), mode, append: false }
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use serde_json::{Value, json};

    use super::*;
    use capstan_testing::golden::golden;

    fn spec() -> KubeadmConfigSpec {
        serde_json::from_value(json!({
            "format": "ignition", "verbosity": 5,
            "preKubeadmCommands": ["echo before", "echo again"], "postKubeadmCommands": ["echo after"],
            "users": [
                {"name": "ops", "sudo": "ALL=(ALL) NOPASSWD:ALL", "sshAuthorizedKeys": ["ssh-ed25519 A"],
                 "groups": "wheel, docker", "homeDir": "/srv/ops", "lockPassword": false},
                {"name": "bob", "lockPassword": true, "passwdFrom": {"secret": {"name": "s", "key": "k"}}}],
            "ntp": {"enabled": true, "servers": ["0.pool.example", "1.pool.example"]},
            "diskSetup": {
                "partitions": [{"device": "/dev/sdb", "layout": true, "overwrite": true, "tableType": "gpt"}],
                "filesystems": [{"device": "/dev/sdb1", "filesystem": "ext4", "label": "data", "overwrite": false,
                    "extraOpts": ["-E", "lazy_itable_init=1"]}]},
            "mounts": [["data", "/var/lib/data", "defaults", "noatime"]],
            "ignition": {"containerLinuxConfig": {"strict": true, "additionalConfig":
                "storage:\n  files:\n  - path: /etc/extra\n    mode: 0600\n    contents: {inline: x}\nsystemd:\n  units:\n  \
                 - name: kubeadm.service\n    dropins: [{name: 10-late.conf, contents: '[Unit]'}]\n"}},
        }))
        .expect("a spec")
    }

    fn files() -> Vec<cloud_init::File> {
        let base64 = cloud_init::File {
            path: "/opt/bytes".to_owned(),
            encoding: Some("base64".to_owned()),
            content: "aGkg\ndG9v\n".to_owned(),
            ..cloud_init::File::default()
        };
        vec![cloud_init::File::root("/etc/kubernetes/pki/ca.crt", "0640", "PEM"), base64]
    }

    fn rendered(phase: KubeadmPhase, spec: &KubeadmConfigSpec) -> Value {
        let passwords = BTreeMap::from([("bob".to_owned(), "$6$hash".to_owned())]);
        let text = render(phase, spec, files(), "kind: InitConfiguration\n", &passwords).expect("user data");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The whole of it as text for people: JSON, with what files hold behind it.
    fn shown(config: &Value) -> String {
        let mut text = format!("{config:#}\n");
        for file in config["storage"]["files"].as_array().into_iter().flatten() {
            let source = file["contents"]["source"].as_str().unwrap_or_default();
            let bytes: Vec<u8> =
                percent_decode_str(source.strip_prefix("data:,").unwrap_or_default()).collect();
            text.push_str(&format!("\n== {}\n{}", file["path"], String::from_utf8_lossy(&bytes)));
        }
        text
    }

    #[test]
    fn user_data_of_everything() {
        golden("ignition_init", &shown(&rendered(KubeadmPhase::Init, &spec())));
    }

    #[test]
    fn bytes_that_are_no_text_stay_as_they_are() {
        let file = cloud_init::File {
            encoding: Some("base64".to_owned()),
            content: "AAH/".to_owned(),
            ..cloud_init::File::default()
        };
        assert_eq!(written(file).expect("a file").contents.source, "data:,%00%01%FF");
    }

    #[test]
    fn a_plain_worker_has_kubeadm_and_nothing_else() {
        let config = rendered(KubeadmPhase::Join, &KubeadmConfigSpec::default());
        golden("ignition_join", &shown(&config));
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let with = |part: Value| -> KubeadmConfigSpec { serde_json::from_value(part).expect("a spec") };
        let file = |permissions: &str, encoding: Option<&str>| cloud_init::File {
            encoding: encoding.map(str::to_owned),
            ..cloud_init::File::root("/f", permissions, "???")
        };
        for (spec, file, reason) in [
            (with(json!({"mounts": [["data"]]})), file("0600", None), "needs a label and a folder"),
            (with(json!({})), file("rw", None), "permissions \"rw\" are not an octal mode"),
            (with(json!({})), file("77777", None), "are not an octal mode"),
            (with(json!({})), file("0600", Some("base64")), "its content is not base64"),
            (
                with(
                    json!({"ignition": {"containerLinuxConfig": {"additionalConfig": "storage: {files: [{path: a}]}"}}}),
                ),
                file("0600", None),
                "additional Container Linux Config: storage.files a: path not absolute",
            ),
        ] {
            let error =
                render(KubeadmPhase::Join, &spec, vec![file], "", &BTreeMap::new()).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }
}
