//! The rule base: what a change of each attribute touches, whether it may be made, and what to say about it. Owns
//! the embedded tables and which rule counts for a path; must not know how anything is carried out.

mod condition;
mod pattern;
mod sides;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

pub use condition::RuleCondition;
use pattern::Pattern;

use super::difference::FieldChange;
use super::document::DocumentKind;
use super::facts::ClusterFacts;
use super::path::FieldPath;
use super::schema::Schema;

/// What a change reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Component {
    /// Its static pods.
    Etcd,
    /// Those of members: server and peer.
    EtcdCertificates,
    /// That of the API server, which clients see.
    Certificates,
    /// Its static pods.
    #[serde(rename = "apiserver")]
    ApiServer,
    /// Its static pods.
    ControllerManager,
    /// Its static pods.
    Scheduler,
    /// The files on hosts that name the endpoint.
    Kubeconfigs,
    /// The ConfigMap that joining nodes read.
    ClusterInfo,
    /// DaemonSet and ConfigMap.
    KubeProxy,
    /// Its Deployment.
    #[serde(rename = "coredns")]
    CoreDns,
    /// On every node.
    Kubelet,
}

impl Component {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::EtcdCertificates => "etcd's certificates",
            Self::Certificates => "the API server's certificate",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubeconfigs => "kubeconfigs",
            Self::ClusterInfo => "cluster-info",
            Self::KubeProxy => "kube-proxy",
            Self::CoreDns => "CoreDNS",
            Self::Kubelet => "kubelet",
        }
    }
}

/// May it be changed?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It works as kubeadm's steps do it.
    Ok,
    /// After somebody has acknowledged what is said about it.
    Advise,
    /// It breaks the cluster, or does not happen at all.
    Block,
}

/// What a KubeadmControlPlane does with the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlPlaneEffect {
    /// Machines are replaced one by one.
    Rollout,
    /// Changed in the cluster, no Machine is replaced.
    #[serde(rename = "in place")]
    InPlace,
    /// Its webhook does not allow a change.
    Refused,
    /// It has no field for it.
    Unmodelled,
    /// It is spec.version.
    Version,
}

/// Attributes that have to change together with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Linked {
    /// KubeProxyConfiguration.clusterCIDR becomes networking.podSubnet.
    #[serde(rename = "kube-proxy clusterCIDR")]
    KubeProxyClusterCidr,
    /// node-cidr-mask-size of the controller manager is split by address family.
    #[serde(rename = "node mask flags")]
    NodeMaskFlags,
}

/// One entry of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Of the document; `ClusterConfiguration` when the table does not say.
    #[serde(default = "cluster_configuration")]
    pub kind: String,
    /// Fields that the rule is about; where several rules match, the most specific pattern counts.
    pub paths: Vec<Pattern>,
    /// What has to be written anew or restarted.
    pub touches: Vec<Component>,
    /// Unless a case says otherwise.
    pub verdict: Judgement,
    /// What a person has to know.
    pub message: String,
    /// What to do instead.
    #[serde(default)]
    pub alternative: Option<String>,
    /// Steps beside those that follow from what is touched.
    #[serde(default)]
    pub steps: Vec<String>,
    /// `--force` may pass the block.
    #[serde(default)]
    pub force: bool,
    /// What the component takes when nothing is given: a value, or `unlimited`.
    #[serde(default)]
    pub unset: Option<String>,
    /// What a KubeadmControlPlane that looks after the cluster does with the field.
    pub kcp: ControlPlaneEffect,
    /// The first whose condition holds counts instead.
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
}

impl Rule {
    /// Is it about whatever no other rule of its document is about?
    pub fn is_of_the_rest(&self) -> bool {
        self.paths.iter().all(|pattern| pattern.text() == "**")
    }
}

/// What counts instead when its condition holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What of the change or of the cluster has to be true.
    pub when: RuleCondition,
    /// Instead of the rule's.
    pub verdict: Judgement,
    /// Instead of the rule's.
    pub message: String,
    /// Instead of the rule's.
    #[serde(default)]
    pub alternative: Option<String>,
    /// `--force` may pass the block.
    #[serde(default)]
    pub force: bool,
    /// Steps beside those of its rule.
    #[serde(default)]
    pub steps: Vec<String>,
    /// Beside the rule's.
    #[serde(default)]
    pub linked: Vec<Linked>,
}

fn cluster_configuration() -> String {
    DocumentKind::Cluster.name().to_owned()
}

/// What is said about one change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleFinding {
    /// Whether it may be changed.
    pub verdict: Judgement,
    /// Why, for a person.
    pub message: String,
    /// What to do instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alternative: Option<String>,
    /// `--force` may pass the block.
    pub forceable: bool,
    /// What has to be written anew or restarted.
    pub touches: Vec<Component>,
    /// Names of [`StepId`](crate::steps::StepId), beside those that follow from what is touched.
    pub steps: Vec<String>,
    /// What a KubeadmControlPlane that looks after the cluster does with the field.
    pub control_plane_effect: ControlPlaneEffect,
    /// What has to change with it.
    #[serde(skip)]
    pub linked: Vec<Linked>,
}

#[derive(Deserialize)]
struct Table {
    rule: Vec<Rule>,
}

const TABLES: [&str; 3] =
    [include_str!("cluster.toml"), include_str!("flags.toml"), include_str!("components.toml")];

static RULES: LazyLock<Vec<Rule>> =
    // The tables are part of the program, and a test reads each: nothing is lost by the default.
    LazyLock::new(|| TABLES.iter().flat_map(|text| parse(text).unwrap_or_default()).collect());

fn parse(text: &str) -> Result<Vec<Rule>, toml::de::Error> {
    toml::from_str::<Table>(text).map(|table| table.rule)
}

/// Those of all files, in the files' order.
pub fn all() -> &'static [Rule] {
    &RULES
}

/// The tables, for plans to be known by.
pub fn version() -> String {
    TABLES.concat()
}

/// The rule that counts for a path of a document: the most specific one that matches.
pub fn rule_for(kind: DocumentKind, path: &FieldPath) -> Option<&'static Rule> {
    let matching = all().iter().filter(|rule| rule.kind == kind.name());
    // A rule for a part of a document says nothing of fields that are not in it.
    let is_field = Schema::embedded().type_at(kind.name(), path).is_ok();
    let score = |pattern: &Pattern| pattern.score(path).filter(|_| is_field || pattern.text() == "**");
    let scored = matching.filter_map(|rule| Some((rule.paths.iter().filter_map(score).max()?, rule)));
    // No two rules score alike for a field of the schema, which a test holds: ties need no order.
    scored.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, rule)| rule)
}

/// What the rule base says about a change of a cluster.
pub fn judge(change: &FieldChange, facts: &ClusterFacts) -> Option<RuleFinding> {
    let rule = rule_for(change.kind, &change.path)?;
    let unset = rule.unset.as_deref();
    let case = rule.cases.iter().find(|case| case.when.holds(change, facts, unset));
    let mut finding = RuleFinding {
        verdict: rule.verdict,
        message: rule.message.clone(),
        alternative: rule.alternative.clone(),
        forceable: rule.force,
        touches: rule.touches.clone(),
        steps: rule.steps.clone(),
        control_plane_effect: rule.kcp,
        linked: Vec::new(),
    };
    if let Some(case) = case {
        finding.verdict = case.verdict;
        finding.message.clone_from(&case.message);
        // The case's words replace the rule's as a whole: an alternative of the rule may be wrong here.
        finding.alternative.clone_from(&case.alternative);
        finding.forceable = case.force;
        finding.steps.extend(case.steps.iter().cloned());
        finding.linked.clone_from(&case.linked);
    }
    // What is refused stays refused: an upgrade would give it its effect.
    let ignored = ignored(change, facts).filter(|_| finding.verdict != Judgement::Block);
    if let Some(message) = ignored {
        // Nothing has to be restarted for it: what the rule says about the field is true of later releases.
        finding = RuleFinding {
            verdict: Judgement::Advise,
            message,
            alternative: None,
            touches: Vec::new(),
            steps: Vec::new(),
            ..finding
        };
    }
    Some(finding)
}

/// What is said about a field of a component's own document that the component of this release does not read.
fn ignored(change: &FieldChange, facts: &ClusterFacts) -> Option<String> {
    let (minor, name, schema) = (facts.minor?, change.kind.name(), Schema::embedded());
    let is_of_component = matches!(change.kind, DocumentKind::Kubelet | DocumentKind::Proxy);
    if !is_of_component || schema.is_read(name, &change.path, minor) {
        return None;
    }
    let what_to_do = match schema.first_read(name, &change.path) {
        Some(since) => format!("It is read from 1.{since} on: upgrade first if it is needed."),
        None => "No release has it: check its name.".to_owned(),
    };
    let reader = change.kind.reader();
    Some(format!("It is stored and has no effect: {reader} 1.{minor} ignores the field. {what_to_do}"))
}

#[cfg(test)]
mod tests;
