//! The admission rules of Cluster API, asked before anything is sent. Owns how a change is put to them and what
//! their answers become; must not know a rule.

use serde_json::Value;

use super::control_plane::is_typed;
use super::edit::Edit;
use crate::operations::{Finding, Severity};
use capi_rules::admission::Webhooks;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::names::VERSION;
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::read::{get_value, list_values};
use capstan_engine::client::{Connection, explain};
use k8s_machinery::admission::{Admission as _, Found, Known, Need, Refusal, Request};
use k8s_machinery::merge;

/// What the rules say about `edit` of `object`. The objects that a rule looks at are read.
pub async fn findings(connection: &Connection, gvk: &Gvk, object: &Value, edit: &Edit) -> Vec<Finding> {
    if !is_typed(gvk) {
        let text = format!("what a {} takes is its provider's to say: the server asks it", gvk.kind);
        return vec![finding(Severity::Note, text)];
    }
    let known = version_of(gvk);
    if gvk.version != known {
        let text = format!(
            "the rules of Cluster API were not checked here, the server does it: they are known for {known}, and it offers {}",
            gvk.version
        );
        return vec![finding(Severity::Note, text)];
    }
    match read(connection, needs(gvk, object, edit)).await {
        Ok(known) => judge(gvk, object, edit, &known),
        Err(why) => vec![finding(
            Severity::Warning,
            format!("the rules of Cluster API were not checked here, the server does it: {why}"),
        )],
    }
}

/// The version that the rules of a kind are written for.
fn version_of(gvk: &Gvk) -> String {
    let is_it = |served: &&capi_types::Served| served.gvk.group == gvk.group && served.gvk.kind == gvk.kind;
    let served = capi_types::served();
    served.iter().find(is_it).map_or_else(|| VERSION.to_owned(), |served| served.gvk.version.clone())
}

fn request<'a>(gvk: &'a Gvk, object: &'a Value) -> Request<'a> {
    Request { group: &gvk.group, kind: &gvk.kind, old: Some(object), dry_run: false }
}

/// The object after a patch, with its defaults.
fn patched(gvk: &Gvk, object: &Value, patch: &Value) -> Result<Value, Refusal> {
    let mut new = object.clone();
    merge::apply(&mut new, patch);
    Webhooks.mutate(&request(gvk, object), &mut new)?;
    Ok(new)
}

fn needs(gvk: &Gvk, object: &Value, edit: &Edit) -> Vec<Need> {
    match edit {
        Edit::Patch(patch) | Edit::PatchAfter { patch, .. } => patched(gvk, object, patch)
            // What is refused as it stands needs no other object: `judge` meets the same refusal.
            .map_or_else(|_| Vec::new(), |new| Webhooks.needs(&request(gvk, object), &new)),
        Edit::Delete => Webhooks.needs_for_delete(&gvk.group, &gvk.kind),
    }
}

fn judge(gvk: &Gvk, object: &Value, edit: &Edit, known: &Known) -> Vec<Finding> {
    let answer = match edit {
        Edit::Patch(patch) | Edit::PatchAfter { patch, .. } => {
            patched(gvk, object, patch).and_then(|new| Webhooks.check(&request(gvk, object), &new, known))
        }
        Edit::Delete => Webhooks.check_delete(&gvk.group, &gvk.kind, object, known).map(|()| Vec::new()),
    };
    match answer {
        Ok(warnings) => warnings.into_iter().map(|text| finding(Severity::Warning, text)).collect(),
        Err(refusal) => {
            let refused =
                |text: String| finding(Severity::Blocker, format!("Cluster API refuses it: {text}"));
            refusal.findings().into_iter().map(refused).collect()
        }
    }
}

fn finding(severity: Severity, text: String) -> Finding {
    Finding { severity, rule: "admission", text }
}

/// Reads what the rules need; an error when one of the objects cannot be read.
async fn read(connection: &Connection, needs: Vec<Need>) -> Result<Known, String> {
    let catalog = Catalog::new(connection.client.clone());
    let mut known = Known::default();
    for need in needs {
        let found = match catalog.resolve(&need.group, &need.kind).await {
            Ok(gvk) => Found::Objects(objects(connection, &gvk, &need).await?),
            Err(Missing::NotServed(_)) => Found::NotServed,
            Err(Missing::Unreachable(error)) => return Err(explain(&error, &connection.server)),
        };
        known.add(need, found);
    }
    Ok(known)
}

async fn objects(connection: &Connection, gvk: &Gvk, need: &Need) -> Result<Vec<Value>, String> {
    let client = &connection.client;
    let found = if need.name.is_empty() {
        list_values(client, gvk, &need.namespace, "").await
    } else {
        let key = ObjectKey::new(&need.namespace, &need.name);
        let target = ObjectRef { gvk: gvk.clone(), key, uid: String::new() };
        get_value(client, &target).await.map(|object| object.into_iter().collect())
    };
    found.map_err(|error| format!("{} objects: {}", need.kind, explain(&error, &connection.server)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_types::control_plane::KubeadmControlPlane;

    fn control_plane() -> Value {
        let reference = json!({"apiGroup": "x.io", "kind": "XMachineTemplate", "name": "t"});
        json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": "n"},
            "spec": {"replicas": 3, "version": "v1.35.4", "kubeadmConfigSpec": {},
                "machineTemplate": {"spec": {"infrastructureRef": reference}},
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
        })
    }

    fn refusals(object: &Value, patch: Value) -> Vec<String> {
        let gvk = Gvk::of::<KubeadmControlPlane>();
        let edit = Edit::Patch(patch);
        assert_eq!(needs(&gvk, object, &edit), []);
        let found = judge(&gvk, object, &edit, &Known::default());
        assert!(found.iter().all(|f| f.severity == Severity::Blocker && f.rule == "admission"), "{found:?}");
        found.into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn what_admission_refuses_is_a_blocker() {
        let plain = control_plane();
        let mut external = control_plane();
        external["spec"]["kubeadmConfigSpec"] =
            json!({"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://e:2379"]}}}});
        let replicas = |n: i32| json!({"spec": {"replicas": n}});
        let version = |v: &str| json!({"spec": {"version": v}});
        for (object, patch, expected) in [
            (&plain, replicas(5), None),
            (
                &plain,
                replicas(4),
                Some("spec.replicas: Forbidden: cannot be an even number when etcd is stacked"),
            ),
            (&external, replicas(4), None),
            (&plain, replicas(0), Some("spec.replicas: Forbidden: cannot be less than or equal to 0")),
            (&plain, version("v1.36.2"), None),
            (
                &plain,
                version("v1.37.0"),
                Some("spec.version: Forbidden: cannot update Kubernetes version from v1.35.4 to v1.37.0"),
            ),
            (&plain, version("v1.35.3"), None),
        ] {
            let found = refusals(object, patch.clone());
            assert_eq!(found.is_empty(), expected.is_none(), "{patch}: {found:?}");
            let texts = expected.map(|text| format!("Cluster API refuses it: {text}"));
            assert!(texts.iter().all(|text| found.contains(text)), "{patch}: {found:?}");
        }
    }
}
