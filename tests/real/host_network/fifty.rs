//! Fifty hosts at once: how long until all have facts, with how many processes of ssh at a time. The times are printed and not
//! judged: they are the machine's.

use std::time::Instant;

use serde_json::json;

use super::line::Line;
use super::machine::{Client, Machine, Wishes, run};
use super::rack::{Rack, has_facts};

const HOSTS: usize = 50;
/// So many may be asked beside each other, by the command and by the controller.
const AT_ONCE: usize = 32;

/// Each call of ssh notes how many there are when it begins. A process is known by its number and its start (field 22 of `stat`), as
/// numbers are given again.
const COUNTED: &str = r#"mkdir -p "$folder/calls"
look() { read -r _ _ state _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ start _ 2>/dev/null <"/proc/$1/stat"; }
look $$ && echo "$start" >"$folder/calls/$$"
count=0
for call in "$folder"/calls/*; do
  read -r noted <"$call"
  if look "${call##*/}" && [ "$state" != Z ] && [ "$start" = "$noted" ]; then count=$((count + 1)); fi
done
echo "$count" >>"$folder/counts"
exec ssh -F "$folder/config" "$@""#;

/// How many calls there were, and how many at once.
fn calls(client: &Client) -> (usize, usize) {
    let text = std::fs::read_to_string(client.at("counts")).unwrap_or_default();
    let counts: Vec<usize> = text.lines().filter_map(|line| line.parse().ok()).collect();
    (counts.len(), counts.into_iter().max().unwrap_or_default())
}

/// Every sshd listens at 16 ports at most.
const PORTS: usize = 10;

/// A machine that has looked at itself before: its work is not that of the fifty machines that it stands for, which have processors of
/// their own. All other lines it runs.
const KNOWS_ITSELF: &str = "ForceCommand if [ \"$SSH_ORIGINAL_COMMAND\" = 'sh -s' ]; then cat >/dev/null; cat FOLDER/facts; \
                            else exec sh -c \"$SSH_ORIGINAL_COMMAND\"; fi";

fn facts() -> Vec<u8> {
    run("sh", &[concat!(env!("CARGO_MANIFEST_DIR"), "/crates/hosts/src/probe.sh")]).stdout
}

/// Some sshd that let the same person in.
struct Park {
    machines: Vec<Machine>,
    client: Client,
}

impl Park {
    async fn start() -> Option<Self> {
        let (mut machines, facts): (Vec<Machine>, _) = (Vec::new(), facts());
        while machines.len() * PORTS < HOSTS {
            let machine = Machine::start(Wishes { ports: PORTS, ..Wishes::with(KNOWS_ITSELF) }).await?;
            std::fs::write(machine.at("facts"), &facts).expect("written");
            if let Some(first) = machines.first() {
                std::fs::copy(first.at("authorized_keys"), machine.at("authorized_keys"))
                    .expect("the same people");
            }
            machines.push(machine);
        }
        let known: String = Self::all(&machines).map(|(machine, port)| machine.known_at(port)).collect();
        let client = Client::of(&machines[0], &known);
        client.called(COUNTED);
        Some(Self { machines, client })
    }

    fn all(machines: &[Machine]) -> impl Iterator<Item = (&Machine, u16)> {
        machines.iter().flat_map(|machine| machine.ports.iter().map(move |port| (machine, *port)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_addresses_are_checked() {
    let Some(Park { machines, client }) = Park::start().await else { return };
    let places: Vec<String> = Park::all(&machines).map(|(_, port)| format!("127.0.0.1:{port}")).collect();
    let args: Vec<&str> =
        places.iter().map(String::as_str).chain(["-o", "json", "--timeout", "2m"]).collect();
    let begun = Instant::now();
    let (_, text) = client.check(&args);
    let took = begun.elapsed();
    let answer: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let hosts = answer["hosts"].as_array().expect("hosts");
    assert_eq!(hosts.iter().filter(|host| host["facts"]["kernel"].is_string()).count(), HOSTS, "{text}");
    let (begun, most) = calls(&client);
    assert!(begun == HOSTS && most <= AT_ONCE, "{begun} calls, {most} at once");
    println!("host check of {HOSTS}: {:.1} s, {most} at once", took.as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_hosts_of_a_server_have_facts() {
    let Some(Park { machines, client }) = Park::start().await else { return };
    // One of them is reached over a line that counts.
    let line = Line::to(machines[0].port()).await;
    let rack = Rack::start(&client).await;
    let begun = Instant::now();
    for (at, (machine, port)) in Park::all(&machines).enumerate() {
        let port = if at == 0 { line.port } else { port };
        let spec =
            json!({"address": "127.0.0.1", "connection": {"port": port}, "hostKeys": [machine.host_key()]});
        rack.host(&format!("h{at}"), spec).await;
    }
    let created = begun.elapsed();
    for at in 0..HOSTS {
        rack.until(&format!("h{at}"), "facts", has_facts).await;
    }
    let took = begun.elapsed();
    let (begun, most) = calls(&client);
    assert!(most <= AT_ONCE, "{begun} calls, {most} at once");
    println!(
        "{HOSTS} Hosts: created after {:.1} s, all with facts after {:.1} s; {begun} calls of ssh, {most} at once; of one {} bytes up, \
         {} down, {} connections",
        created.as_secs_f64(),
        took.as_secs_f64(),
        line.up(),
        line.down(),
        line.connections()
    );
}
