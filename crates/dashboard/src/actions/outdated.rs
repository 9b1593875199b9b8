//! Why a Machine is not as its owner wants it, field by field: its owner's template beside the one that the Machine was made from, and both
//! templates' fields. Owns which objects are read for it; what is compared is upstream's rule. Must not know where it is shown.

use serde_json::Value;

use capi_rules::observe::older_version;
use capi_rules::status::control_plane::up_to_date::kubeadm;
use capi_rules::status::fields::{self, FieldDifference};
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::names::annotation::CLONED_FROM_NAME;
use capstan_base::text::sanitize_line;
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::read::get_value;
use capstan_engine::client::{Connection, explain};

const CORE: &str = "cluster.x-k8s.io";
/// So many fields of one object are named; the rest is counted.
const FIELDS_MAX: usize = 12;

/// What one server has, one object after the other.
struct Reader<'a> {
    connection: &'a Connection,
    catalog: &'a Catalog,
    namespace: &'a str,
}

/// Reads what a Machine and its owner are made from, and answers how they differ, a line for each.
///
/// # Errors
/// Something cannot be read, in a sentence.
pub async fn read_outdated(
    connection: &Connection,
    catalog: &Catalog,
    machine: &ObjectKey,
) -> Result<Vec<String>, String> {
    let reader = Reader { connection, catalog, namespace: &machine.namespace };
    let machine =
        reader.get(CORE, "Machine", &machine.name).await?.ok_or("the Machine does not exist any more")?;
    let Some((group, kind, name)) = owner_of(&machine) else { return Ok(Vec::new()) };
    let owner =
        reader.get(&group, &kind, &name).await?.ok_or_else(|| format!("{kind} {name} is not there"))?;
    if kind != "MachineSet" {
        return reader.of_control_plane(&machine, &owner).await;
    }
    let wanted = match owner_of(&owner) {
        Some((group, kind, name)) if kind == "MachineDeployment" => reader.get(&group, &kind, &name).await?,
        _ => None,
    };
    let Some(wanted) = wanted else { return Ok(Vec::new()) };
    reader.of_templates(&owner["spec"]["template"]["spec"], &wanted["spec"]["template"]["spec"]).await
}

impl Reader<'_> {
    /// As v1beta2. `None` when it does not exist.
    async fn get(&self, group: &str, kind: &str, name: &str) -> Result<Option<Value>, String> {
        let gvk = self.catalog.resolve(group, kind).await.map_err(|missing| match missing {
            Missing::NotServed(why) => why,
            Missing::Unreachable(error) => explain(&error, &self.connection.server),
        })?;
        let target = ObjectRef { gvk, key: ObjectKey::new(self.namespace, name), uid: String::new() };
        let read = get_value(&self.connection.client, &target).await;
        let read = read.map_err(|error| explain(&error, &self.connection.server))?;
        Ok(read.map(|mut object| {
            if older_version::convert(&mut object) {
                older_version::take_over(&mut object);
            }
            object
        }))
    }

    /// What a MachineSet was made from, beside what its MachineDeployment wants now.
    async fn of_templates(&self, current: &Value, wanted: &Value) -> Result<Vec<String>, String> {
        let mut lines = plain(current, wanted);
        for (what, path) in [("bootstrap", "/bootstrap/configRef"), ("infrastructure", "/infrastructureRef")]
        {
            let (Some(current), Some(wanted)) = (current.pointer(path), wanted.pointer(path)) else {
                continue;
            };
            let name = text(current, "name");
            lines.extend(self.of_references(what, (current, name), wanted).await?);
        }
        Ok(lines)
    }

    /// A template that gave way to another one, with the fields in which they differ.
    async fn of_references(
        &self,
        what: &str,
        (current, name): (&Value, &str),
        wanted: &Value,
    ) -> Result<Vec<String>, String> {
        let (kind, wanted_name) = (text(wanted, "kind"), text(wanted, "name"));
        if name == wanted_name && text(current, "kind") == kind {
            return Ok(Vec::new());
        }
        let mut lines =
            vec![format!("{what}: {kind} {} → {}", sanitize_line(name), sanitize_line(wanted_name))];
        let old = self.get(text(current, "apiGroup"), text(current, "kind"), name).await?;
        let new = self.get(text(wanted, "apiGroup"), kind, wanted_name).await?;
        match (old, new) {
            (Some(old), Some(new)) => {
                lines.extend(listed(&template_differences(&old, &new)));
            }
            (None, _) => lines.push(format!("  {name} is not there any more")),
            (_, None) => lines.push(format!("  {wanted_name} is not there")),
        }
        Ok(lines)
    }

    /// A Machine beside its KubeadmControlPlane; of another kind of control plane what stands at the same places.
    async fn of_control_plane(&self, machine: &Value, owner: &Value) -> Result<Vec<String>, String> {
        let (current, spec) = (&machine["spec"], &owner["spec"]);
        let mut lines = plain(current, spec);
        let reference = &current["infrastructureRef"];
        let made =
            self.get(text(reference, "apiGroup"), text(reference, "kind"), text(reference, "name")).await?;
        let wanted = spec.pointer("/machineTemplate/spec/infrastructureRef");
        if let (Some(made), Some(wanted)) = (made, wanted) {
            let from = text(&made["metadata"]["annotations"], CLONED_FROM_NAME);
            if !from.is_empty() {
                lines.extend(self.of_references("infrastructure", (wanted, from), wanted).await?);
            }
        }
        let reference = &current["bootstrap"]["configRef"];
        if let (Some(wanted), false) = (spec.get("kubeadmConfigSpec"), reference.is_null()) {
            let (group, kind) = (text(reference, "apiGroup"), text(reference, "kind"));
            if let Some(live) = self.get(group, kind, text(reference, "name")).await? {
                let version = text(spec, "version");
                let found = kubeadm::differences(&live["spec"], wanted, version);
                lines.extend((!found.is_empty()).then(|| "kubeadm configuration".to_owned()));
                lines.extend(listed(&found));
            }
        }
        Ok(lines)
    }
}

/// Fields of the Machine itself.
fn plain(current: &Value, wanted: &Value) -> Vec<String> {
    let differs = |field: &&str| wanted.get(*field).is_some() && text(current, field) != text(wanted, field);
    let line = |field: &str| {
        format!("{field}: {} → {}", sanitize_line(text(current, field)), sanitize_line(text(wanted, field)))
    };
    ["version", "failureDomain"].into_iter().filter(differs).map(line).collect()
}

fn template_differences(old: &Value, new: &Value) -> Vec<FieldDifference> {
    let spec = |object: &Value| object["spec"]["template"]["spec"].clone();
    // Of kubeadm configurations some values may be credentials.
    let is_kubeadm = text(new, "kind").starts_with("Kubeadm");
    let hidden: &[&str] = if is_kubeadm { &kubeadm::HIDDEN } else { &[] };
    fields::differences(&spec(old), &spec(new), hidden)
}

fn listed(found: &[FieldDifference]) -> Vec<String> {
    let line = |field: &FieldDifference| format!("  {}", sanitize_line(&field.to_string()));
    let mut lines: Vec<String> = found.iter().take(FIELDS_MAX).map(line).collect();
    let more = found.len().saturating_sub(FIELDS_MAX);
    lines.extend((more > 0).then(|| format!("  and {more} more fields")));
    lines
}

/// Group, kind and name of the controller of an object.
fn owner_of(object: &Value) -> Option<(String, String, String)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let (group, _) = text(owner, "apiVersion").split_once('/')?;
    Some((group.to_owned(), text(owner, "kind").to_owned(), text(owner, "name").to_owned()))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_the_machine_that_the_owner_names_are_compared() {
        let current = json!({"version": "v1.33.1", "failureDomain": "a", "clusterName": "c"});
        let wanted = json!({"version": "v1.34.0\u{1b}[2J", "replicas": 3});
        // A control plane has no failure domain for its Machines: nothing is wanted of it.
        assert_eq!(plain(&current, &wanted), ["version: v1.33.1 → v1.34.0\u{fffd}[2J"]);
        assert_eq!(plain(&current, &current), Vec::<String>::new());
    }

    #[test]
    fn templates_differ_in_fields_and_secrets_stay_hidden() {
        let template = |kind: &str, spec: Value| json!({"kind": kind, "spec": {"template": {"spec": spec}}});
        let old = template("DevMachineTemplate", json!({"size": 1, "disk": {"gib": 20}}));
        let new = template("DevMachineTemplate", json!({"size": 2, "disk": {"gib": 20, "fast": true}}));
        assert_eq!(listed(&template_differences(&old, &new)), ["  disk.fast: unset → true", "  size: 1 → 2"]);
        let old =
            template("KubeadmConfigTemplate", json!({"users": [{"name": "a", "passwd": "old-secret"}]}));
        let new =
            template("KubeadmConfigTemplate", json!({"users": [{"name": "a", "passwd": "new-secret"}]}));
        let told = listed(&template_differences(&old, &new)).join("\n");
        assert!(told.contains("users") && !told.contains("secret"), "{told}");
        let many =
            |value: i32| template("X", (0..20).map(|at| (format!("f{at:02}"), json!(value))).collect());
        let told = listed(&template_differences(&many(1), &many(2)));
        assert_eq!((told.len(), told[12].as_str()), (13, "  and 8 more fields"));
    }

    #[test]
    fn the_owner_is_the_one_that_controls() {
        let of = |owners: Value| owner_of(&json!({"metadata": {"ownerReferences": owners}}));
        assert_eq!(of(json!([{"apiVersion": "a/v1", "kind": "K", "name": "n"}])), None);
        let owner = json!([{"apiVersion": "x/v1", "kind": "C", "name": "c"},
                           {"apiVersion": "a.b/v1", "kind": "K", "name": "n", "controller": true}]);
        assert_eq!(of(owner), Some(("a.b".to_owned(), "K".to_owned(), "n".to_owned())));
    }
}
