//! Documents in a newer version of kubeadm's API, as `kubeadm config migrate` writes them. Owns what moves from one document to
//! another on the way; must not know a file.
//!
//! Source: kubeadm 1.36 `util/config/common.go` (`MigrateOldConfig`, `defaultMigrateMutators`), `util/config/initconfiguration.go`
//! (`SetNodeRegistrationDynamicDefaults`, `SetClusterDynamicDefaults`).

use serde_json::{Map, Value, json};

use super::convert::{ConvertError, to_stored};
use super::document::{DocumentKind, Inputs};
use super::kind::{KUBEADM_GROUP, V1BETA3};
use super::network::with_port;
use super::render::PORT_DEFAULT;

/// Every document of `inputs`, those of kubeadm in `version` of its API, in the order in which they were read. What kubeadm would
/// fill in from the host and from its defaults is left out.
///
/// # Errors
/// A document holds what that version cannot say.
pub fn migrate(inputs: &Inputs, version: &str) -> Result<Vec<Value>, ConvertError> {
    // kubeadm completes an endpoint with the port of the InitConfiguration.
    let port = inputs.document(DocumentKind::Init).map(|init| &init.value["localAPIEndpoint"]["bindPort"]);
    let port =
        // 0 stands for kubeadm's own port.
        port.and_then(Value::as_u64).filter(|port| *port != 0).unwrap_or(PORT_DEFAULT.into()).to_string();
    let mut documents: Vec<(DocumentKind, Value)> = Vec::new();
    let mut moved = None;
    for document in &inputs.documents {
        let mut value = document.value.clone();
        if document.version == V1BETA3 && version != V1BETA3 {
            match document.kind {
                DocumentKind::Cluster => moved = take(&mut value, "apiServer", "timeoutForControlPlane"),
                DocumentKind::Join => {
                    let timeout = take(&mut value, "discovery", "timeout");
                    wait(&mut value, "discovery", timeout);
                }
                _ => {}
            }
        }
        complete(&mut value, &port);
        documents.push((document.kind, value));
    }
    if moved.is_some() && documents.iter().all(|(kind, _)| *kind != DocumentKind::Init) {
        // ClusterConfiguration has no timeouts any more, so kubeadm adds a document that has.
        documents.push((DocumentKind::Init, json!({})));
    }
    let init = documents.iter_mut().find(|(kind, _)| *kind == DocumentKind::Init);
    if let Some((_, init)) = init {
        wait(init, "controlPlaneComponentHealthCheck", moved);
    }
    let written = |(kind, value): &(DocumentKind, Value)| {
        // The version of the kubeadm API says nothing of kubelet and kube-proxy.
        let own = inputs.document(*kind).map_or(version, |document| document.version.as_str());
        to_stored(*kind, if kind.group() == KUBEADM_GROUP { version } else { own }, value)
    };
    documents.iter().map(written).collect()
}

/// What kubeadm completes: an endpoint has a port, a node's name is in lower case, its socket has a scheme.
fn complete(value: &mut Value, port: &str) {
    if let Some(Value::String(endpoint)) = value.get_mut("controlPlaneEndpoint")
        && let Some(whole) = with_port(endpoint, port)
    {
        *endpoint = whole;
    }
    let Some(node) = value.get_mut("nodeRegistration") else { return };
    if let Some(Value::String(name)) = node.get_mut("name") {
        *name = name.trim().to_lowercase();
    }
    if let Some(Value::String(socket)) = node.get_mut("criSocket")
        && !socket.is_empty()
        && !socket.starts_with("unix")
    {
        *socket = format!("unix://{socket}");
    }
}

/// A field of a part, which goes away with the part when that has nothing else.
fn take(value: &mut Value, part: &str, field: &str) -> Option<Value> {
    let map = value.as_object_mut()?;
    let fields = map.get_mut(part)?.as_object_mut()?;
    let taken = fields.remove(field).filter(|taken| !taken.is_null());
    if fields.is_empty() {
        map.remove(part);
    }
    taken
}

/// Writes how long kubeadm waits for something.
fn wait(value: &mut Value, field: &str, timeout: Option<Value>) {
    let (Some(timeout), Value::Object(map)) = (timeout, value) else { return };
    let timeouts = map.entry("timeouts").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(timeouts) = timeouts {
        timeouts.insert(field.to_owned(), timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::differences;
    use super::super::document::read_inputs;
    use super::super::kind::{V1, V1BETA4};
    use super::*;

    fn read(text: &str) -> Inputs {
        read_inputs(&[("f".to_owned(), text.to_owned())]).expect("documents")
    }

    #[test]
    fn timeouts_move_and_flags_become_lists() {
        let inputs = read(
            "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer: {timeoutForControlPlane: 6m0s, extraArgs: {v: \"2\", a: b}}\nscheduler: {extraArgs: {v: \"2\"}}\n---\napiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery: {timeout: 7m0s, tlsBootstrapToken: x}\n---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 20\n",
        );
        let list = json!([{"name": "a", "value": "b"}, {"name": "v", "value": "2"}]);
        assert_eq!(
            migrate(&inputs, V1BETA4).expect("migrated"),
            [
                json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "apiServer": {"extraArgs": list}, "scheduler": {"extraArgs": [{"name": "v", "value": "2"}]}}),
                json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration", "discovery": {"tlsBootstrapToken": "x"}, "timeouts": {"discovery": "7m0s"}}),
                json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": 20}),
                json!({"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration", "timeouts": {"controlPlaneComponentHealthCheck": "6m0s"}}),
            ]
        );
    }

    #[test]
    fn a_merged_flag_has_no_way_back() {
        let text = "apiVersion: kubeadm.k8s.io/v1\nkind: ClusterConfiguration\nscheduler: {extraArgs: [{name: v, value: \"2\", mergeMethod: append}]}\n";
        assert!(migrate(&read(text), V1).is_ok());
        assert!(matches!(migrate(&read(text), V1BETA4), Err(ConvertError::Merged { .. })));
    }

    const VECTORS: &str = include_str!("migrate/vectors.txt");

    /// A document of kubeadm's answer, with what kubeadm fills in.
    fn of_kubeadm(answer: &[Value], kind: DocumentKind) -> Option<&Value> {
        answer.iter().find(|document| document["kind"] == kind.name())
    }

    /// Is everything that is written here in kubeadm's document too, with the same meaning?
    fn is_within(kind: DocumentKind, ours: &Value, theirs: &Value) -> bool {
        differences(kind, ours, theirs).iter().all(|change| change.old.is_null() || change.old == json!([]))
    }

    #[test]
    fn what_kubeadm_migrates_is_migrated_the_same() {
        let mut all = 0;
        for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
            let (before, after) = line.split_once('\t').expect("two sides");
            let text: Vec<Value> = serde_json::from_str(before).expect("documents");
            let answer: Vec<Value> = serde_json::from_str(after).expect("documents");
            let text = text.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
            for ours in migrate(&read(&text), V1BETA4).expect("migrated") {
                let kind = DocumentKind::named(ours["kind"].as_str().expect("a kind")).expect("known");
                let theirs = of_kubeadm(&answer, kind).expect("kubeadm writes it too");
                let plain = |value: &Value| {
                    let text = value.to_string();
                    read(&text).documents.remove(0).value
                };
                let (ours, theirs) = (plain(&ours), plain(theirs));
                assert!(
                    is_within(kind, &ours, &theirs),
                    "{before}\n{:#?}",
                    differences(kind, &ours, &theirs)
                );
                // kubeadm fills in the endpoints of HTTP from the others.
                let mut more = differences(kind, &theirs, &ours);
                more.retain(|change| change.path.to_string() != "etcd.external.httpEndpoints");
                assert!(kind != DocumentKind::Cluster || more.is_empty(), "{before}\n{more:#?}");
                all += 1;
            }
        }
        assert!(all >= 75, "{all}");
    }
}
