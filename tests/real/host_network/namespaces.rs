//! Two network namespaces and a cable between them, for tests as root. Owns both: they end with the processes that hold them, even
//! when the test is killed.

use std::process::{Child, Command, Stdio};

use super::machine::{Client, Machine, Wishes, has_namespaces, run};

/// Where the machine is, in its namespace alone.
pub const ADDRESS: &str = "10.231.7.2";
const HERE: &str = "10.231.7.1";

/// A process that waits for the end of its input, and keeps a namespace until then.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("unshare runs");
        let mut ready = [0_u8; 6];
        let output = child.stdout.as_mut().expect("its output");
        std::io::Read::read_exact(output, &mut ready).expect("a namespace");
        Self(child)
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Words of a command that runs in it.
    fn inside(&self) -> Vec<String> {
        ["nsenter", "--net", "-t", &self.id()].map(str::to_owned).to_vec()
    }

    /// The words of a program after its name; whether it did it.
    fn tries(&self, words: &str) -> bool {
        let inside = self.inside();
        let args: Vec<&str> = inside[1..].iter().map(String::as_str).chain(words.split(' ')).collect();
        run(&inside[0], &args).status.success()
    }

    fn does(&self, words: &str) {
        assert!(self.tries(words), "{words}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Cable {
    here: Namespace,
    there: Namespace,
}

impl Cable {
    /// `None` where a test may not make one.
    pub fn new() -> Option<Self> {
        if !has_namespaces() {
            return None;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            println!("skipped: ip is not installed");
            return None;
        }
        let cable = Self { here: Namespace::new(), there: Namespace::new() };
        if !cable.here.tries(&format!("ip link add near type veth peer name far netns {}", cable.there.id()))
        {
            println!("skipped: the kernel has no veth");
            return None;
        }
        for (end, name, address) in [(&cable.here, "near", HERE), (&cable.there, "far", ADDRESS)] {
            end.does(&format!("ip addr add {address}/24 dev {name}"));
            end.does(&format!("ip link set {name} up"));
        }
        Some(cable)
    }

    /// A machine at its far end.
    pub async fn machine(&self) -> Option<Machine> {
        let inside = [self.there.inside(), ["sh", "-c"].map(str::to_owned).to_vec()].concat();
        Machine::start(Wishes { inside, ..Wishes::at(ADDRESS) }).await
    }

    /// Ssh at its near end.
    pub fn client(&self, machine: &Machine) -> Client {
        let client = Client::of(machine, &machine.known_at(machine.port()));
        let inside = self.here.inside().join(" ");
        client.called(&format!("exec {inside} ssh -F \"$folder/config\" \"$@\""));
        client
    }

    pub fn cut(&self) {
        self.there.does("ip link set far down");
    }

    pub fn mend(&self) {
        self.there.does("ip link set far up");
    }

    /// A bad line in both directions; false where the kernel cannot make one.
    pub fn worsen(&self, how: &str) -> bool {
        [(&self.here, "near"), (&self.there, "far")]
            .iter()
            .all(|(end, name)| end.tries(&format!("tc qdisc add dev {name} root netem {how}")))
    }
}
