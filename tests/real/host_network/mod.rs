//! Hosts over real sshd and real networks: jump hosts, one session at a time, another machine at the address, answers that are none,
//! users without rights, cables that are cut, and fifty machines at once. Owns the machines, the lines to them and the servers of
//! these tests. A test that lacks a tool or a right says so and skips.

mod answers;
mod arguments;
mod cables;
mod fifty;
mod impostor;
mod jump;
mod line;
mod machine;
mod namespaces;
mod rack;
mod sessions;
mod users;

use capi_types::host::{Host, HostSpec};
use capstan_base::time::Clock;
use capstan_host_provider::plan_of;
use capstan_host_provider::reach::SshReach;
use capstan_host_provider::ssh::SshMachines;
use capstan_hosts::owner::HostOwner;
use capstan_hosts::run::RunPlan;
use capstan_remote::destination::Destination;

use machine::{Client, Machine};

/// Bootstrap data with a secret in it and a content of so many bytes, which cannot be packed.
fn data(bytes: usize) -> String {
    let mut random = vec![0_u8; bytes];
    rand::fill(&mut random[..]);
    let content = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, random);
    format!(
        "## template: jinja\n#cloud-config\nwrite_files:\n- path: /etc/secret\n  owner: root:root\n  permissions: '0600'\n  \
         content: |\n    {SECRET}\n- path: /etc/much\n  owner: root:root\n  permissions: '0600'\n  encoding: base64\n  \
         content: {content}\nruncmd:\n- kubeadm init --config /etc/secret\n"
    )
}

/// Nothing that is not trusted gets it.
const SECRET: &str = "the-token-of-this-cluster";

fn plan(bytes: usize) -> RunPlan {
    plan_of("machine", None, &Host::new("h", HostSpec::default()), &data(bytes)).expect("a plan")
}

fn owner() -> HostOwner {
    HostOwner::new("test", "host", "machine", "default/c", 1).expect("an owner")
}

/// A machine as the engine reaches it, at one of its ports or at that of a line to it.
fn reach(machine: &Machine, port: u16) -> SshReach {
    let to = Destination { port: Some(port), ..Destination::host(machine.address).expect("a host") };
    SshReach { to, jump: Vec::new(), host_keys: vec![machine.host_key()], sudo: false }
}

/// Machines as the engine asks them.
fn machines(client: &Client) -> SshMachines {
    SshMachines::new(&client.program(), Clock::system(), false)
}
