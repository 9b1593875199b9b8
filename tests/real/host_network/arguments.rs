//! What the real ssh makes of every address, user, port and jump host that is accepted: `ssh -G` prints what it would do and does
//! nothing. None of them becomes an option, a command, or another destination.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::process::Command;

use capi_types::host::{Host, HostConnection, HostJump, HostSpec};
use capstan_base::command_line::CommandLine;
use capstan_host_provider::reach::{SshReach, reach_of};
use capstan_remote::destination::Destination;
use capstan_remote::openssh::{Call, OpenSsh};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

/// Words of those who try, and words that are accepted.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z0-9_.-]{1,12}",
        1 => "[-@:a-z0-9.%;$ \\[\\]`'\"|&<>{}\\\\/#~,=+\n]{1,24}",
        1 => "-[oFJLRDWwESib]{1,2}[a-zA-Z=/]{0,12}",
        1 => prop_oneof![
            Just("-oProxyCommand=touch MARK".to_owned()),
            Just("$(touch MARK)".to_owned()),
            Just("a;touch MARK".to_owned()),
            Just("%h".to_owned()),
            Just("fe80::1%eth0".to_owned()),
            Just("fe80::1%h".to_owned()),
            Just("fd00::1".to_owned()),
            Just("::ffff:10.0.0.1".to_owned()),
            Just("none".to_owned()),
            Just("..".to_owned()),
            Just("0".to_owned()),
            Just("_-o".to_owned()),
            Just("ssh://h1".to_owned()),
            Just("a@b".to_owned()),
            Just("a,b".to_owned()),
        ],
        1 => "\\PC{1,12}",
    ]
}

prop_compose! {
    fn jump()(address in word(), user in proptest::option::of(word()), port in proptest::option::of(-1..70_000)) -> HostJump {
        HostJump { address, user, port }
    }
}

prop_compose! {
    fn host()(
        address in word(),
        user in proptest::option::of(word()),
        port in proptest::option::of(-1..70_000),
        jump in proptest::collection::vec(jump(), 0..3),
        has_jump in any::<bool>(),
    ) -> Host {
        let jump = if has_jump { jump } else { Vec::new() };
        let connection = Some(HostConnection { user, port, jump });
        Host::new("h", HostSpec { address, connection, ..HostSpec::default() })
    }
}

/// The real ssh, which says what it would do, in a folder in which a mark would be left.
struct Asked {
    folder: tempfile::TempDir,
}

impl Asked {
    fn new() -> Self {
        let asked = Self { folder: tempfile::tempdir().expect("a folder") };
        let place = asked.folder.path().display();
        std::fs::write(asked.folder.path().join("config"), "").expect("written");
        let program = format!("#!/bin/sh\ncd '{place}'\nexec ssh -F '{place}/config' -G \"$@\"\n");
        super::machine::written(&asked.folder.path().join("ssh"), &program, 0o700);
        asked
    }

    /// What it would do to reach a machine.
    async fn says(&self, reach: &SshReach) -> Said {
        let program = self.folder.path().join("ssh").display().to_string();
        let ssh = OpenSsh { jump: reach.jump.clone(), ..OpenSsh::named(&program) };
        let line = CommandLine::of("sh -s", []);
        let call = Call { to: &reach.to, line: &line, input: b"", environment: &[], limit: None };
        let output = ssh.call(call).await.expect("ssh runs");
        assert!(output.is_success(), "{reach:?}: {output:?}");
        options_of(&output.stdout)
    }

    fn is_untouched(&self) -> bool {
        let names = std::fs::read_dir(self.folder.path()).expect("the folder");
        names.count() == 2
    }
}

/// Options as ssh prints them, their names in small letters.
type Said = BTreeMap<String, String>;

fn options_of(text: &str) -> Said {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// `7` and `0x7f.1` are addresses of IPv4, too, which ssh writes in full.
fn is_number(host: &str) -> bool {
    let is_part = |part: &str| {
        let digits = part.to_lowercase();
        let digits = digits.strip_prefix("0x").unwrap_or(&digits);
        digits.chars().all(|c| c.is_ascii_hexdigit())
    };
    host.split('.').all(is_part)
}

/// What ssh would do for one hop is what was asked for.
fn assert_hop(to: &Destination, said: &Said) {
    let is = |name: &str, value: &str| {
        assert_eq!(said.get(name).map(String::as_str), Some(value), "{name}: {to:?}");
    };
    let name = said.get("hostname").map_or("", String::as_str);
    let is_address = is_number(&to.host) && name.parse::<Ipv4Addr>().is_ok();
    assert!(name == to.host.to_lowercase() || is_address, "{name}: {to:?}");
    is("port", &to.port.unwrap_or(22).to_string());
    if let Some(user) = &to.user {
        is("user", user);
    }
    for (name, value) in [
        ("batchmode", "yes"),
        ("stricthostkeychecking", "true"),
        ("forwardagent", "no"),
        ("forwardx11", "no"),
        ("permitlocalcommand", "no"),
    ] {
        is(name, value);
    }
    let silent =
        ["localcommand", "remotecommand", "knownhostscommand", "localforward", "remoteforward", "proxyjump"];
    for name in silent {
        assert!(said.get(name).is_none_or(|value| value == "none"), "{name}: {said:?}");
    }
}

/// As ssh does before it gives the command to a shell.
fn expanded(command: &str, to: &Destination) -> String {
    let mut out = String::new();
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match (c, if c == '%' { rest.next() } else { None }) {
            ('%', Some('%')) => out.push('%'),
            ('%', Some('h')) => out.push_str(&to.host),
            ('%', Some('p')) => out.push_str(&to.port.unwrap_or(22).to_string()),
            ('%', other) => panic!("ssh refuses %{other:?} in {command}"),
            (c, _) => out.push(c),
        }
    }
    out
}

/// Each hop, from the machine back to the first jump host, by the command that the hop behind it would run.
fn assert_way(reach: &SshReach, mut said: Said) {
    assert_hop(&reach.to, &said);
    let mut to = &reach.to;
    for jump in reach.jump.iter().rev() {
        let command = said.get("proxycommand").unwrap_or_else(|| panic!("no way to {to:?}: {said:?}"));
        let output = super::machine::run("sh", &["-c", &format!("exec {}", expanded(command, to))]);
        assert!(output.status.success(), "{jump:?}: {output:?}");
        said = options_of(&String::from_utf8_lossy(&output.stdout));
        assert_hop(jump, &said);
        to = jump;
    }
    assert!(said.get("proxycommand").is_none_or(|value| value == "none"), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_accepted_is_an_option_or_a_command() {
    if Command::new("ssh").arg("-V").output().is_err() {
        println!("skipped: ssh is not installed");
        return;
    }
    let asked = Asked::new();
    let mut runner = TestRunner::deterministic();
    let (mut accepted, mut refused) = (0, 0);
    while accepted < 120 {
        let host = host().new_tree(&mut runner).expect("a Host").current();
        match reach_of(&host, None) {
            Ok(reach) => {
                accepted += 1;
                let said = asked.says(&reach).await;
                assert_way(&reach, said);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(asked.is_untouched(), "a command was run");
    assert!(refused > 120, "{refused} of {accepted}: too few are hostile");
}
