//! `capstan plan` over a large fleet: one cluster, and everything.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::Sizes;
use crate::process::{BINARY, Server};
use crate::table::{Table, median};

/// Clusters of a thousand Machines, as the largest that the dashboard plans unasked.
const MACHINES_OF_A_CLUSTER: usize = 1_000;

pub fn measure(sizes: &Sizes, table: &mut Table) {
    let clusters = (sizes.planned / MACHINES_OF_A_CLUSTER).max(1);
    let sample = format!("synthetic:clusters={clusters},machines={}", sizes.planned);
    let server = Server::start("memory", &["--sample", &sample]);
    let name = format!("{} Machines in {clusters} clusters", sizes.planned);
    let (namespace, cluster) = first_cluster(&server);
    let target = format!("cluster/{cluster}");
    let one = |_| run_ms(&server, &["plan", &target, "-n", &namespace, "-o", "json"]);
    table.add(format!("{name}: capstan plan of one cluster"), ms((0..sizes.repeats).map(one).collect()));
    let all = |_| run_ms(&server, &["plan", "-A", "-o", "json"]);
    table.add(format!("{name}: capstan plan -A"), ms((0..sizes.repeats.min(3)).map(all).collect()));
}

fn ms(times: Vec<f64>) -> String {
    format!("{:.0} ms", median(times))
}

fn run_ms(server: &Server, args: &[&str]) -> f64 {
    let start = Instant::now();
    let status = command(server, args).stdout(Stdio::null()).status().expect("capstan runs");
    assert!(status.success(), "capstan {}", args.join(" "));
    start.elapsed().as_secs_f64() * 1000.0
}

/// Namespace and name of the first cluster that `capstan get` lists.
fn first_cluster(server: &Server) -> (String, String) {
    let output = command(server, &["get", "clusters", "-A", "-o", "json"]).output().expect("capstan runs");
    let list: Value = serde_json::from_slice(&output.stdout).expect("a list");
    let metadata = &list["items"][0]["metadata"];
    let text = |field: &str| metadata[field].as_str().expect("a name").to_owned();
    (text("namespace"), text("name"))
}

fn command(server: &Server, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(args).arg("--kubeconfig").arg(server.kubeconfig()).stderr(Stdio::inherit());
    command
}
