//! `capstan cluster create` and `capstan host add -o yaml` against the embedded server: what is refused, what is only shown, and a
//! cluster that comes.

use std::path::PathBuf;

use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::host::Host;
use capi_types::host_machine::HostMachine;
use capi_types::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan_base::time::Clock;
use capstan_commands::cluster::args::ClusterCommand;
use capstan_commands::cluster::create;
use capstan_commands::creation::CreationTalk;
use capstan_commands::host::objects::HostsOfServer;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use clap::Parser as _;
use serde_json::json;
use tempfile::TempDir;

use super::site::Site;

/// A person at a terminal, with a journal.
struct Person(TempDir);

impl Person {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn journal(&self) -> PathBuf {
        self.0.path().join("journal.jsonl")
    }

    /// The answer, or the error, behind what was printed before.
    async fn creates(&self, site: &Site, words: &[&str], answer: &str) -> Result<String, String> {
        let line = ["capstan", "cluster", "create", "harbor"].into_iter().chain(words.iter().copied());
        let parsed = Cli::try_parse_from(line).map_err(|error| error.to_string())?;
        let Some(Command::Cluster(ClusterCommand::Create(args))) = parsed.command else { panic!("not it") };
        let guard = Guard::new(Journal::at(self.journal()), Clock::system(), "ann".to_owned());
        let hosts = HostsOfServer { connection: &site.connection, namespace: "default" };
        let (mut out, mut answers) = (Vec::new(), answer.as_bytes());
        let talk = CreationTalk {
            connection: &site.connection,
            guard: &guard,
            confirm: &args.confirm,
            out: &mut out,
            answers: &mut answers,
        };
        let ended = create(&hosts, &args, talk).await;
        let printed = String::from_utf8(out).expect("text");
        ended.map(|()| printed.clone()).map_err(|error| format!("{printed}{error:#}"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_shown_confirmed_written_and_comes() {
    let (site, person) = (Site::start(4).await, Person::new());
    for host in ["h1", "h2", "h3"] {
        site.until_state(host, "Available").await;
    }
    let words = ["--control-plane", "h1", "--workers", "h2,h3"];

    let shown = person.creates(&site, &[&words[..], &["-o", "yaml"]].concat(), "").await.expect("shown");
    let kinds: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    let expected = [
        "Host",
        "Host",
        "Host",
        "HostCluster",
        "HostMachineTemplate",
        "KubeadmControlPlane",
        "Cluster",
        "HostMachineTemplate",
        "KubeadmConfigTemplate",
        "MachineDeployment",
    ];
    assert_eq!(kinds, expected, "{shown}");
    let dry = person.creates(&site, &[&words[..], &["--dry-run"]].concat(), "").await.expect("tried");
    assert!(
        dry.contains("create Cluster default/harbor") && dry.ends_with("nothing was written.\n"),
        "{dry}"
    );
    let refused = person.creates(&site, &words, "n\n").await.expect_err("a no");
    assert!(refused.contains("not confirmed"), "{refused}");
    assert!(site.get::<Cluster>("harbor").await.is_none() && !person.journal().exists());

    let said = person.creates(&site, &words, "y\n").await.expect("written");
    assert!(said.contains("Write these at"), "{said}");
    let advice = said.rsplit('`').nth(1).expect("a command").split(' ');
    Cli::try_parse_from(advice).unwrap_or_else(|error| panic!("{said}: {error}"));
    let journal = std::fs::read_to_string(person.journal()).expect("a journal");
    assert!(journal.contains("\"action\":\"create cluster\"") && journal.contains("\"outcome\":\"done\""));

    let plane: KubeadmControlPlane = site.get("harbor-control-plane").await.expect("a control plane");
    assert_eq!((plane.spec.replicas, plane.spec.version.as_str()), (Some(1), "v1.36.3"));
    let workers: MachineDeployment = site.get("harbor-workers").await.expect("workers");
    assert_eq!(workers.spec.replicas, Some(2));
    site.until("the control plane on its Host", async |site| site.state("h1").await == "InUse").await;
    let host: Host = site.get("h1").await.expect("a Host");
    let user = host.spec.consumer_ref.expect("a user").name;
    assert!(
        site.get::<HostMachine>(&user).await.is_some() && user.starts_with("harbor-control-plane-"),
        "{user}"
    );
    // The Host of nobody's stays free, and no Host is taken by the other role.
    assert_eq!(site.state("h4").await, "Available");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_become_a_cluster_is_refused_with_its_reason() {
    let (site, person) = (Site::start(3).await, Person::new());
    site.until_state("h1", "Available").await;
    site.until_state("h2", "Available").await;
    for (words, reason) in [
        (&["--control-plane", "h1,h2"][..], "an odd number of members"),
        (&["--control-plane", "h1", "--workers", "h1"], "named twice"),
        (&["--control-plane", "h1,h2,h3"], "need --endpoint HOST:PORT"),
        (&["--control-plane", "h9"], "there is no Host default/h9"),
        (&["--control-plane", "h1", "--version", "1.36"], "expected a version such as"),
        (&["--control-plane", "h1", "--version", "v1.38.0"], "does not make nodes of v1.38.0"),
        (&["--control-plane", "h1", "--pod-cidr", "all"], "expected a range of addresses"),
        (&["--control-plane", "h1", "--kubeadm", "/no/such/file"], "cannot read /no/such/file"),
    ] {
        let said = person.creates(&site, &[words, &["--yes"]].concat(), "").await.expect_err(reason);
        assert!(said.contains(reason), "{words:?}: {said}");
    }
    assert!(site.get::<Cluster>("harbor").await.is_none());

    // A Host that is meant for another cluster, and objects that are there.
    site.label::<Host>("h1", json!({"hosts.capstan.dev/cluster": "lagoon"})).await;
    let words = ["--control-plane", "h1", "--yes"];
    let infrastructure =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "HostCluster", "name": "lagoon"});
    site.create::<Cluster>("lagoon", json!({"infrastructureRef": infrastructure})).await;
    let said = person.creates(&site, &words, "").await.expect_err("another cluster's");
    assert!(said.contains("is meant for Cluster lagoon"), "{said}");
    // The label of a Cluster that is gone does not count.
    site.label::<Host>("h2", json!({"hosts.capstan.dev/cluster": "atoll"})).await;
    person.creates(&site, &["--control-plane", "h2", "--yes"], "").await.expect("written");
    let said = person.creates(&site, &["--control-plane", "h3", "--yes"], "").await.expect_err("it is there");
    assert!(said.contains("default/harbor is there already"), "{said}");
}
