//! What runs otherwise than the stored configuration says: writing manifests anew would take it back. Owns the
//! comparison and the likely reasons; must not know a request.

use std::borrow::Cow;

use serde::Serialize;

use super::super::certificate_drift::{API_SERVER_CERTIFICATE, CertificateDrift, ETCD_CERTIFICATE};
use super::super::document::DocumentKind;
use super::super::facts::ClusterFacts;
use super::super::record::ChangeRecord;
use super::super::render::{self, ClusterSettings, ETCD, RenderError, StaticPod};
use super::artefacts::{pod_differences, reversed};

/// One pod that is not as its configuration renders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// Name of the Node.
    pub node: String,
    /// As [`API_SERVER`](crate::render::API_SERVER) and the like, or the file of a certificate.
    pub component: String,
    /// From what is rendered to what runs.
    pub differences: Vec<String>,
    /// Where it probably comes from.
    pub likely: Cow<'static, str>,
}

/// A certificate that is served with other names than those that are stored, as drift of its file.
pub(super) fn of_certificate(found: &CertificateDrift) -> Drift {
    let file = if found.component == ETCD { ETCD_CERTIFICATE } else { API_SERVER_CERTIFICATE };
    Drift {
        node: found.node.clone(),
        component: file.to_owned(),
        differences: found.differences.iter().map(|line| reversed(line)).collect(),
        likely: "it was not issued anew, or from something else".into(),
    }
}

/// Names the change that is not over as the reason where it has not come yet: what runs there is what was stored before it.
///
/// # Errors
/// What was stored before cannot be rendered.
pub fn name_open_change(
    drift: &mut [Drift],
    record: &ChangeRecord,
    facts: &ClusterFacts,
) -> Result<(), RenderError> {
    let documents = record.documents().unwrap_or_default();
    let Some(cluster) = documents.document(DocumentKind::Cluster) else { return Ok(()) };
    let before = ClusterSettings::new(&cluster.old, None)?;
    // What differs from the old configuration too drifted before this change, which is not the reason.
    let others = find(&before, &before, facts)?;
    let is_other =
        |drift: &Drift| others.iter().any(|o| (&o.node, &o.component) == (&drift.node, &drift.component));
    for drift in drift.iter_mut().filter(|drift| !is_other(drift)) {
        drift.likely = format!("change {} is not over, and has not come to this node", record.id).into();
    }
    Ok(())
}

/// Every pod that runs otherwise, in the order of nodes. What is already as it is going to be does not count: a change
/// may be half done.
pub fn find(
    settings: &ClusterSettings<'_>,
    wanted: &ClusterSettings<'_>,
    facts: &ClusterFacts,
) -> Result<Vec<Drift>, RenderError> {
    let mut found = Vec::new();
    let is_rootless = settings.is_rootless();
    for node in &facts.control_plane {
        let rendered = render::node(settings, &node.host)?;
        let after = render::node(wanted, &node.host)?;
        for (component, live) in &node.static_pods {
            let empty = StaticPod::default();
            let expected = rendered.static_pods.get(component).unwrap_or(&empty);
            let mut differences = pod_differences(expected, live);
            // A half-done change has nodes with the new manifest: what is on its way there is not drift.
            let going = pod_differences(expected, after.static_pods.get(component).unwrap_or(&empty));
            differences.retain(|line| !going.contains(line));
            let is_beyond = differences.is_empty();
            let beyond = node.beyond.get(component).into_iter().flatten();
            differences
                // With RootlessControlPlane kubeadm itself writes security contexts, with users of
                // each host.
                .extend(beyond.filter(|line| !is_rootless || !line.contains("securityContext")).cloned());
            if !differences.is_empty() {
                // No difference of flags, image or volumes: only what no configuration can say is left.
                let likely = if is_beyond { BY_HAND } else { likely(&differences) }.into();
                found.push(Drift {
                    node: node.host.name.clone(),
                    component: (*component).to_owned(),
                    differences,
                    likely,
                });
            }
        }
    }
    Ok(found)
}

/// What no configuration can say was written by somebody.
const BY_HAND: &str = "a patches folder or a hand edit of the manifest: kubeadm does not write it again";

fn likely(differences: &[String]) -> &'static str {
    let all = |test: fn(&str) -> bool| differences.iter().all(|line| test(line));
    if all(|line| {
        line.contains("flexvolume-dir") || line.contains("experimental-") || line.contains("/etc/pki")
    }) {
        return "an older kubeadm wrote it";
    }
    if all(|line| line.starts_with("environment")) {
        return "a patches folder or a hand edit of variables";
    }
    "a patches folder, a hand edit, or a change of the configuration that was not rolled out"
}
