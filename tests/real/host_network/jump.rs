//! Hosts behind one and behind two jump hosts: each hop has a user, a port, a host key and an authorized key of its own, and each
//! is verified.

use capstan_host_provider::access::Machines as _;
use capstan_host_provider::reach::SshReach;
use capstan_remote::trouble::SshTrouble;
use serde_json::{Value, json};

use super::machine::{Client, Machine, Wishes, is_root, user};
use super::rack::{Rack, has_facts, said, state_of};
use super::{machines, reach};

/// A machine that only passes connections on, for one user.
async fn jump_host(address: &'static str, user: &str) -> Option<Machine> {
    let config = format!("AllowUsers {user}\nMaxSessions 0\n");
    Machine::start(Wishes { config, ..Wishes::at(address) }).await
}

struct Way {
    target: Machine,
    /// From here to the target.
    jumps: [Machine; 2],
    users: [String; 2],
}

impl Way {
    async fn start() -> Option<Self> {
        for address in ["127.0.0.2", "127.0.0.3"] {
            if let Err(error) = std::net::TcpListener::bind((address, 0)) {
                println!("skipped: {address} cannot be listened at: {error}");
                return None;
            }
        }
        let others = if is_root() { ["nobody", "daemon"].map(str::to_owned) } else { [user(), user()] };
        let jumps = [jump_host("127.0.0.2", &others[0]).await?, jump_host("127.0.0.3", &others[1]).await?];
        Some(Self { target: Machine::start(Wishes::default()).await?, jumps, users: others })
    }

    fn hops(&self) -> [&Machine; 3] {
        [&self.jumps[0], &self.jumps[1], &self.target]
    }

    fn known(&self) -> String {
        self.hops().map(|machine| machine.known_at(machine.port())).concat()
    }

    /// Each hop by the key that only it lets in. `more` counts for the first jump host.
    fn client(&self, more: &str) -> Client {
        let of = |machine: &Machine| {
            format!("Host {}\n  IdentityFile {}\n", machine.address, machine.at("id").display())
        };
        let first = format!("Host {}\n  {more}\n", self.jumps[0].address);
        Client::new(&format!("{first}{}", self.hops().map(of).concat()), &self.known())
    }

    /// A Host behind so many of them, the last ones of the way.
    fn spec(&self, count: usize) -> Value {
        let jumps = self.jumps.iter().zip(&self.users).skip(2 - count);
        let jumps: Vec<Value> = jumps
            .map(|(jump, user)| json!({"address": jump.address, "user": user, "port": jump.port()}))
            .collect();
        json!({"address": self.target.address, "connection": {"port": self.target.port(), "jump": jumps}})
    }

    fn visits(&mut self) -> usize {
        self.target.visits(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_hop_is_verified_and_a_changed_one_stops_the_way() {
    let Some(mut way) = Way::start().await else { return };
    let client = way.client("LogLevel INFO");
    let rack = Rack::start(&client).await;
    rack.host("one", way.spec(1)).await;
    rack.host("two", way.spec(2)).await;
    for name in ["one", "two"] {
        rack.until(name, "facts", has_facts).await;
    }
    for (jump, user) in way.jumps.iter_mut().zip(way.users.clone()) {
        jump.until_log(&format!("Accepted publickey for {user} ")).await;
    }

    // The jump host of both is another machine now. What was open over it has ended.
    let begun = way.jumps[1].log().len();
    way.jumps[1].replace_key().await;
    let before = way.visits();
    for name in ["one", "two"] {
        let host = rack.until(name, "untrusted", |host| state_of(host) == "Untrusted").await;
        let verified = said(&host, "HostKeyVerified");
        assert!(verified.starts_with("False ChangedHostKey"), "{verified}");
    }
    assert_eq!(way.visits(), before, "{}", way.target.log());
    assert!(!way.jumps[1].log()[begun..].contains("Accepted publickey"), "no user is named to a stranger");

    // A person compared the key and made it known.
    client.knows(&way.known());
    for name in ["one", "two"] {
        rack.until(name, "trusted again", |host| said(host, "Reachable").starts_with("True")).await;
    }
}

/// The engine keeps connections open, and then ssh says nothing of what a jump host complains of.
#[tokio::test(flavor = "multi_thread")]
async fn a_jump_host_that_changed_is_named_at_the_first_look() {
    let Some(mut way) = Way::start().await else { return };
    let client = way.client("LogLevel INFO");
    let asked = machines(&client);
    let jump = way
        .jumps
        .iter()
        .zip(&way.users)
        .map(|(jump, user)| format!("{user}@{}", jump.place()).parse().expect("a destination"));
    let at = SshReach { jump: jump.collect(), ..reach(&way.target, way.target.port()) };
    let facts = asked.facts(&at).await;
    assert!(facts.as_ref().is_ok_and(|facts| facts.kernel.is_some()), "{facts:?}");
    for number in [1, 0] {
        let before = way.visits();
        way.jumps[number].replace_key().await;
        for _ in 0..2 {
            let silence = asked.facts(&at).await.expect_err("not trusted");
            assert_eq!(silence.trouble, Some(SshTrouble::ChangedHostKey), "{silence}");
            let place = format!("[{}]:{}", way.jumps[number].address, way.jumps[number].port());
            assert!(silence.reason.contains(&place), "{silence}");
        }
        assert_eq!(way.visits(), before, "{}", way.target.log());
        client.knows(&way.known());
        assert!(asked.facts(&at).await.is_ok());
    }
}

/// What a person's configuration allows for a jump host does not count either: no key is learnt.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_jump_host_is_never_taken_for_known() {
    let Some(mut way) = Way::start().await else { return };
    for more in ["StrictHostKeyChecking no", "StrictHostKeyChecking accept-new"] {
        let client = way.client(more);
        let known: String = way.hops()[1..].iter().map(|machine| machine.known_at(machine.port())).collect();
        client.knows(&known);
        let jumps: Vec<String> =
            way.jumps.iter().zip(&way.users).map(|(jump, user)| format!("{user}@{}", jump.place())).collect();
        let (code, text) = client.check(&["-J", &jumps.join(","), &way.target.place()]);
        assert_eq!(code, Some(13), "{text}");
        assert!(text.contains("not trusted: its host key is not known"), "{text}");
        assert_eq!(std::fs::read_to_string(client.at("known_hosts")).expect("the file"), known, "{more}");
        assert_eq!(way.visits(), 0, "{more}: {}", way.target.log());
    }
}
