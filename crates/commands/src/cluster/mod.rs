//! `capstan cluster`: a cluster on Hosts from nothing. Owns what is asked of the Hosts before; the objects stand in `wanted`.

pub mod args;
mod wanted;

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use self::args::ClusterCreateArgs;
use self::wanted::{ClusterWanted, labels};
use crate::creation::{Creation, CreationTalk, yaml};
use crate::exit_code::WrongUsage;
use crate::host::objects::HostsOfServer;
use capi_types::condition::find;
use capi_types::host::condition::AVAILABLE;
use capi_types::host::{Host, HostFactsStatus, label};
use capi_types::key::ObjectRef;
use capstan_dashboard::operations::object_writes::Write;
use capstan_dashboard::operations::{Finding, Severity};
use capstan_hosts::finding::NodeRole;
use k8s_machinery::merge::apply;
use k8s_machinery::version;

/// Of a runtime that no Host has named yet.
const USUAL_SOCKET: &str = "/run/containerd/containerd.sock";

/// A Host that was named, and what for.
struct Named {
    host: Host,
    document: Value,
    role: NodeRole,
}

impl Named {
    fn name(&self) -> &str {
        self.host.metadata.name.as_deref().unwrap_or_default()
    }

    fn facts(&self) -> Option<&HostFactsStatus> {
        self.host.status.as_ref().and_then(|status| status.facts.as_ref())
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.host.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map(String::as_str)
    }
}

/// Makes the objects of a cluster, as YAML where that is all that is asked for.
///
/// # Errors
/// A Host is not there or cannot be used, it was not confirmed, or the server refuses.
pub async fn create<O: std::io::Write, A: BufRead>(
    hosts: &HostsOfServer<'_>,
    args: &ClusterCreateArgs,
    mut talk: CreationTalk<'_, O, A>,
) -> anyhow::Result<()> {
    go_together(args)?;
    let named = named(hosts, args).await?;
    let version = version_of(args, &named)?;
    let key = hosts.key(&args.name);
    let wanted = ClusterWanted {
        args,
        namespace: &key.namespace,
        version: &version,
        cri_socket: &cri_socket(&named),
        kubeadm: args.kubeadm.as_deref().map(kubeadm_fields).transpose()?,
    };
    let mut objects: Vec<(ObjectRef, Write)> = Vec::new();
    let mut documents = Vec::new();
    for host in &named {
        let patch = json!({"metadata": {"labels": labels(&args.name, host.role)}});
        documents.push(labelled(host, &patch));
        let inverse = json!({"metadata": {"labels": {(label::CLUSTER): null, (label::ROLE): null}}});
        objects.push((ObjectRef::of(&host.host), Write::Patch { patch, inverse }));
    }
    for (target, object) in wanted.objects() {
        documents.push(object.clone());
        objects.push((target, Write::Create(object)));
    }
    if args.output.is_some() {
        talk.out.write_all(yaml(&documents)?.as_bytes())?;
        return Ok(());
    }
    let mut findings = meant_for_others(hosts, &named, &args.name).await?;
    findings.extend(named.iter().flat_map(|host| self::findings(host, &version)));
    if talk.create(Creation { action: "create cluster", objects, findings }).await? {
        writeln!(
            talk.out,
            "created; watch it come with `capstan`, or `capstan wait cluster/{} --for verdict=ok --timeout 20m`",
            args.name
        )?;
    }
    Ok(())
}

/// # Errors
/// [`WrongUsage`].
fn go_together(args: &ClusterCreateArgs) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = args.control_plane.iter().chain(&args.workers).find(|name| !seen.insert(*name)) {
        bail!(WrongUsage(format!("Host {twice} is named twice: a machine is one node")));
    }
    let count = args.control_plane.len();
    if count.is_multiple_of(2) {
        let why = format!(
            "--control-plane names {count} Hosts: etcd needs an odd number of members, such as 1 or 3"
        );
        bail!(WrongUsage(why));
    }
    if count > 1 && args.endpoint.is_none() {
        let why = "several Hosts of a control plane need --endpoint HOST:PORT: a load balancer or a name that leads to all of them";
        bail!(WrongUsage(why.to_owned()));
    }
    Ok(())
}

async fn named(hosts: &HostsOfServer<'_>, args: &ClusterCreateArgs) -> anyhow::Result<Vec<Named>> {
    let control_plane = args.control_plane.iter().map(|name| (name, NodeRole::ControlPlane));
    let workers = args.workers.iter().map(|name| (name, NodeRole::Worker));
    let mut named = Vec::new();
    for (name, role) in control_plane.chain(workers) {
        let (_, document) = hosts.document(name).await?;
        let host = serde_json::from_value(document.clone()).context("a Host cannot be read")?;
        named.push(Named { host, document, role });
    }
    Ok(named)
}

/// The one that was asked for, or the one that the kubelets of all Hosts have.
fn version_of(args: &ClusterCreateArgs, named: &[Named]) -> anyhow::Result<String> {
    if let Some(version) = &args.kubernetes_version {
        return Ok(version.clone());
    }
    let kubelets: BTreeSet<&str> = named.iter().filter_map(|host| host.facts()?.kubelet.as_deref()).collect();
    match kubelets.iter().collect::<Vec<_>>()[..] {
        [one] => Ok((*one).to_owned()),
        [] => bail!("no kubelet is known on these Hosts yet: name a version with --version"),
        _ => {
            let found = kubelets.into_iter().collect::<Vec<_>>().join(", ");
            bail!("the kubelets of these Hosts differ ({found}): name a version with --version")
        }
    }
}

fn cri_socket(named: &[Named]) -> String {
    let known = named.iter().find_map(|host| host.facts()?.runtime_socket.clone());
    let socket = known.unwrap_or_else(|| USUAL_SOCKET.to_owned());
    if socket.contains("://") { socket } else { format!("unix://{socket}") }
}

/// The Host as it is to be, without what the server keeps.
fn labelled(host: &Named, patch: &Value) -> Value {
    let mut object = json!({
        "apiVersion": host.document["apiVersion"], "kind": host.document["kind"],
        "metadata": {"name": host.name(), "namespace": host.host.metadata.namespace},
        "spec": host.document["spec"],
    });
    if let Some(labels) = &host.host.metadata.labels {
        object["metadata"]["labels"] = json!(labels);
    }
    // The claim is the engine's.
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("consumerRef");
    }
    apply(&mut object, patch);
    object
}

/// A label outlives its Cluster: it counts while that is there.
async fn meant_for_others(
    hosts: &HostsOfServer<'_>,
    named: &[Named],
    cluster: &str,
) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for host in named {
        let Some(other) = host.label(label::CLUSTER).filter(|other| *other != cluster) else { continue };
        if hosts.has_cluster(other).await? {
            let text =
                format!("Host {} is meant for Cluster {other} (label {})", host.name(), label::CLUSTER);
            findings.push(Finding::blocker("host-of-another-cluster", text));
        }
    }
    Ok(findings)
}

fn findings(host: &Named, version: &str) -> Vec<Finding> {
    let name = host.name();
    let mut findings = Vec::new();
    if let Some(consumer) = &host.host.spec.consumer_ref {
        findings
            .push(Finding::blocker("host-in-use", format!("HostMachine {} has Host {name}", consumer.name)));
    }
    let status = host.host.status.as_ref();
    let available = status.and_then(|status| find(&status.conditions, AVAILABLE));
    if let Some(condition) = available.filter(|it| it.status != "True") {
        let text = format!("Host {name} is not available: {}", condition.message);
        findings.push(Finding { severity: Severity::Warning, rule: "host-not-available", text });
    }
    findings.extend(host.facts().and_then(|facts| wrong_version(name, facts, version)));
    findings
}

/// kubeadm makes clusters of its own minor version and of the one before; a kubelet is not newer than its API server.
fn wrong_version(name: &str, facts: &HostFactsStatus, wanted: &str) -> Option<Finding> {
    let wanted_version = version::parse(wanted)?;
    let of = |text: &Option<String>| text.as_deref().and_then(version::parse);
    if let Some(kubeadm) = of(&facts.kubeadm) {
        let is_made = kubeadm.major == wanted_version.major
            && (wanted_version.minor..=wanted_version.minor.saturating_add(1)).contains(&kubeadm.minor);
        if !is_made {
            let text = format!("kubeadm v{kubeadm} on Host {name} does not make nodes of {wanted}");
            return Some(Finding::blocker("kubeadm-version", text));
        }
    }
    let kubelet = of(&facts.kubelet)?;
    if (kubelet.major, kubelet.minor) > (wanted_version.major, wanted_version.minor) {
        let text = format!("the kubelet of Host {name} is v{kubelet}, newer than {wanted}");
        return Some(Finding::blocker("kubelet-version", text));
    }
    (kubelet != wanted_version).then(|| Finding {
        severity: Severity::Warning,
        rule: "kubelet-version",
        text: format!("the kubelet of Host {name} is v{kubelet}, not {wanted}: its Node will say so"),
    })
}

fn kubeadm_fields(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let fields: Value = serde_saphyr::from_str(&text)
        .with_context(|| format!("{} is not YAML with fields of a KubeadmConfigSpec", path.display()))?;
    if !fields.is_object() {
        bail!("{} has no fields: expected those of a KubeadmConfigSpec, such as files:", path.display());
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(facts: HostFactsStatus) -> Named {
        let mut host = Host::new("h1", capi_types::host::HostSpec::default());
        host.status = Some(capi_types::host::HostStatus { facts: Some(facts), ..Default::default() });
        Named { document: json!({}), host, role: NodeRole::Worker }
    }

    fn facts(kubeadm: &str, kubelet: &str) -> HostFactsStatus {
        HostFactsStatus {
            kubeadm: Some(kubeadm.to_owned()),
            kubelet: Some(kubelet.to_owned()),
            ..HostFactsStatus::default()
        }
    }

    #[test]
    fn versions_that_a_host_cannot_run_are_refused() {
        for (kubeadm, kubelet, wanted, rule) in [
            ("v1.36.3", "v1.36.3", "v1.36.3", None),
            ("v1.36.3", "v1.35.1", "v1.35.1", None),
            ("v1.36.3", "v1.36.2", "v1.36.3", Some(("kubelet-version", Severity::Warning))),
            ("v1.36.3", "v1.36.3", "v1.37.0", Some(("kubeadm-version", Severity::Blocker))),
            ("v1.36.3", "v1.36.3", "v1.34.0", Some(("kubeadm-version", Severity::Blocker))),
            ("v1.36.3", "v1.36.3", "v1.35.0", Some(("kubelet-version", Severity::Blocker))),
            ("unknown", "unknown", "v1.36.3", None),
        ] {
            let found = wrong_version("h1", &facts(kubeadm, kubelet), wanted);
            assert_eq!(found.map(|it| (it.rule, it.severity)), rule, "{kubeadm} {kubelet} {wanted}");
        }
    }

    #[test]
    fn the_socket_is_what_a_host_has() {
        let with = |socket: Option<&str>| {
            let runtime_socket = socket.map(str::to_owned);
            cri_socket(&[named(HostFactsStatus { runtime_socket, ..HostFactsStatus::default() })])
        };
        assert_eq!(with(Some("/var/run/crio/crio.sock")), "unix:///var/run/crio/crio.sock");
        assert_eq!(with(Some("unix:///var/run/crio/crio.sock")), "unix:///var/run/crio/crio.sock");
        assert_eq!(with(None), "unix:///run/containerd/containerd.sock");
    }
}
