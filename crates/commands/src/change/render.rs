//! `capstan change render`: what kubeadm writes on each node. Owns which nodes, and the printed form.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::ChangeAnswer;
use super::args::{NodeAddress, RenderArgs, RenderOutputArg};
use crate::exit_code::{ExitCode, WrongUsage};
use crate::output::{self, Style};
use kubeadm_change::document::{DocumentKind, Inputs};
use kubeadm_change::live;
use kubeadm_change::render::{self, AddonImages, ClusterSettings, HostFacts, NodeArtefacts};
use kubeadm_change::running;
use kubeadm_change::yaml;

pub(super) fn run(args: &RenderArgs, inputs: &Inputs, style: Style) -> anyhow::Result<ChangeAnswer> {
    let cluster =
        inputs.document(DocumentKind::Cluster).context("there is no ClusterConfiguration to render")?;
    let settings = ClusterSettings::new(&cluster.value, args.kubeadm_version)?;
    let mut remarks = Vec::new();
    if !settings.release.is_known() {
        remarks.push(format!(
            "kubeadm 1.{} is not known here: the nearest known release is rendered",
            settings.release.minor
        ));
    }
    let mut nodes = BTreeMap::new();
    for host in hosts(args, inputs)? {
        let artefacts = render::node(&settings, &host)?;
        nodes.insert(host.name, artefacts);
    }
    let value = document(nodes, &settings.addon_images(running::coredns_image(&inputs.objects).as_deref()));
    let document = match args.output {
        RenderOutputArg::Json => output::json(&value)?,
        RenderOutputArg::Yaml => yaml::write(&value),
    };
    Ok(ChangeAnswer { document: style.block(document), remarks, exit_code: ExitCode::Success })
}

fn document(nodes: BTreeMap<String, NodeArtefacts>, addons: &AddonImages) -> Value {
    let (mut pods, mut certificates) = (Map::new(), Map::new());
    for (name, node) in nodes {
        pods.insert(name.clone(), json!(node.static_pods));
        certificates.insert(name, json!(node.certificates));
    }
    json!({"nodes": pods, "certificates": certificates, "images": addons})
}

/// The nodes that are named, else that of the InitConfiguration, else those that the mirror pods show.
fn hosts(args: &RenderArgs, inputs: &Inputs) -> anyhow::Result<Vec<HostFacts>> {
    let init = inputs.document(DocumentKind::Init).map(|document| &document.value);
    let mut hosts: Vec<HostFacts> = args.nodes.iter().map(|node| named_host(node, init)).collect();
    if hosts.is_empty() {
        hosts.extend(init.and_then(HostFacts::of_init));
    }
    if hosts.is_empty() {
        hosts = live::control_plane(&inputs.objects).into_iter().map(|node| node.host).collect();
    }
    if hosts.is_empty() {
        bail!(WrongUsage(
            "there is no node to render for: name one by --node NAME=ADDRESS, or put an InitConfiguration or the mirror pods beside the documents".to_owned()
        ));
    }
    if !args.ca_folders.is_empty() {
        hosts.iter_mut().for_each(|host| host.ca_folders.clone_from(&args.ca_folders));
    }
    Ok(hosts)
}

/// A node that is named has the port of the InitConfiguration, unless that is another node's.
fn named_host(node: &NodeAddress, init: Option<&Value>) -> HostFacts {
    let mut host = HostFacts::new(&node.name, &node.address);
    let is_its_own =
        |init: &&Value| init["nodeRegistration"]["name"].as_str().is_none_or(|name| name == node.name);
    if let Some(init) = init.filter(is_its_own) {
        host.take_port(init);
    }
    host
}
