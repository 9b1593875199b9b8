//! Users who may not do what is needed, login shells that say more than was asked for or are no shell, commands that sshd runs in the
//! place of what was asked for, and a banner. In a mount namespace, where a test may make users.

use serde_json::json;

use super::machine::{Client, Machine, Wishes, has_namespaces};
use super::rack::{Rack, has_facts, said, state_of};

/// Users of the machine alone: name, login shell.
const USERS: [(&str, &str); 7] = [
    ("plain", "/bin/sh"),
    ("talks", "/bin/bash"),
    ("root2", "/bin/sh"),
    ("tty", "/bin/sh"),
    ("asked", "/bin/sh"),
    ("forced", "/bin/sh"),
    ("false", "/bin/false"),
];
/// Shells that are not POSIX, where one of them is installed.
const OTHER_SHELLS: [&str; 3] = ["/usr/bin/fish", "/bin/csh", "/bin/tcsh"];

/// Stands in for sudo, which need not be installed, as it is for each user.
const SUDO: &str = r#"case $(id -un) in
root2 | other) [ "$1" = -n ] && shift; exec "$@" ;;
tty) echo 'sudo: sorry, you must have a tty to run sudo' >&2; exit 1 ;;
asked) echo 'sudo: a password is required' >&2; exit 1 ;;
*) echo "sudo: $(id -un) is not in the sudoers file" >&2; exit 1 ;;
esac"#;

/// Two lines that look like a shell that warns, and like an answer.
const TALKS: &str = "echo 'Welcome to $HOSTNAME'; echo 'answer=free'; echo warned >&2";

fn other_shell() -> Option<&'static str> {
    let found = OTHER_SHELLS.into_iter().find(|shell| std::path::Path::new(shell).exists());
    if found.is_none() {
        println!("skipped: a login shell that is not POSIX: none of {OTHER_SHELLS:?} is installed");
    }
    found
}

fn with_users(users: &[(&str, &str)]) -> String {
    let mut lines = vec![
        "set -e".to_owned(),
        "cd \"$MACHINE\"".to_owned(),
        "cp /etc/passwd passwd; cp /etc/shadow shadow; chmod 0600 shadow".to_owned(),
    ];
    for (at, (name, shell)) in users.iter().enumerate() {
        let number = 54_321 + at;
        lines.push(format!("echo \"{name}:x:{number}:{number}::$MACHINE/home-{name}:{shell}\" >>passwd"));
        lines.push(format!("echo '{name}:*:19000:0:99999:7:::' >>shadow"));
        lines.push(format!("mkdir -p home-{name}; chown {number}:{number} home-{name}"));
    }
    lines.push(format!("printf '%s\\n' \"{}\" >home-talks/.bashrc", TALKS.replace('"', "\\\"")));
    lines.push("printf 'Authorized people only.\\nPermission denied to all others.\\n' >banner".to_owned());
    lines.push("mount --bind passwd /etc/passwd; mount --bind shadow /etc/shadow".to_owned());
    lines.join("\n")
}

async fn machine(users: &[(&str, &str)]) -> Option<Machine> {
    let config = "Banner FOLDER/banner\nForceCommand sh \"$MACHINE/forced\"\n".to_owned();
    let machine = Machine::start(Wishes { config, ..Wishes::mounted(&with_users(users)) }).await?;
    let forced = "if [ \"$(id -un)\" = forced ]; then echo 'This account runs backups only.' >&2; exit 1; fi\n\
                  exec \"$(getent passwd \"$(id -u)\" | cut -d : -f 7)\" -c \"$SSH_ORIGINAL_COMMAND\"";
    std::fs::write(machine.at("forced"), forced).expect("written");
    machine.program("sudo", SUDO);
    Some(machine.with_stand_ins())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_user_and_each_shell_has_its_condition() {
    if !has_namespaces() {
        return;
    }
    let other: Vec<(&str, &str)> = other_shell().map(|shell| ("other", shell)).into_iter().collect();
    let users = [&USERS[..], &other].concat();
    let Some(machine) = machine(&users).await else { return };
    let client = Client::of(&machine, "");
    let rack = Rack::start(&client).await;
    let names: Vec<&str> = users.iter().map(|(name, _)| *name).chain(["nobody-of-this-name"]).collect();
    for name in &names {
        let connection = json!({"port": machine.port(), "user": name});
        rack.host(
            name,
            json!({"address": "127.0.0.1", "connection": connection, "hostKeys": [machine.host_key()]}),
        )
        .await;
    }
    for name in names {
        let host = rack.until(name, "a look", |host| !said(host, "Reachable").contains("NotAskedYet")).await;
        let (reachable, privileged) = (said(&host, "Reachable"), said(&host, "Privileged"));
        println!("{name}: {} {reachable}; {privileged}", state_of(&host));
        let (about_reach, about_root) = match name {
            "plain" | "talks" | "tty" | "asked" => {
                ("True Reachable", "False NotPrivileged: the user is not root")
            }
            "root2" => ("True Reachable", "True Sudo"),
            "forced" => ("This account runs backups only.", "Unknown"),
            "false" => ("the answer of the machine has no end", "Unknown"),
            "other" => ("True Reachable", "True Sudo"),
            _ => ("False Denied", "Unknown"),
        };
        assert!(reachable.contains(about_reach), "{name}: {reachable}");
        assert!(privileged.starts_with(about_root), "{name}: {privileged}");
        assert_eq!(has_facts(&host), about_reach == "True Reachable", "{name}");
    }
    let denied = rack.of("nobody-of-this-name").await;
    assert_eq!(state_of(&denied), "Denied");
}
