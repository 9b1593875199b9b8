//! Look-ups among objects that are at hand. Owns which look-ups there are; must not know where the objects
//! come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::Resource;

use crate::status::contract::External;
use crate::status::machines::is_control_plane;
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_pool::MachinePool;
use capi_types::machine_set::MachineSet;
use capi_types::names::label;
use capi_types::reference::ContractRef;
use k8s_machinery::selector::matches;

/// The objects of one kind.
pub trait Objects<K: Resource> {
    /// `None`: there is no such object here.
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// The objects of one namespace that `wanted` picks, ordered by name.
    fn select(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>>;

    /// The objects that carry the label of a cluster, ordered by name.
    fn of_cluster(&self, cluster: &ObjectKey) -> Vec<Arc<K>> {
        let is_mine = |object: &K| label_of(object, label::CLUSTER_NAME) == Some(cluster.name.as_str());
        self.select(&cluster.namespace, is_mine)
    }
}

impl<K: Resource> Objects<K> for BTreeMap<ObjectKey, Arc<K>> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        BTreeMap::get(self, key).cloned()
    }

    fn select(&self, namespace: &str, wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let here =
            // Keys sort by namespace first, so a namespace is one stretch of the map.
            self.range(ObjectKey::new(namespace, "")..).take_while(|(key, _)| key.namespace == namespace);
        here.map(|(_, object)| object).filter(|object| wanted(object)).cloned().collect()
    }
}

/// Objects of every kind that statuses and plans look at.
///
/// The functions about provider objects have a default: the reference is followed. A source that can lack a
/// whole kind returns there what it assumes instead.
pub trait Source {
    /// Every Cluster that there is.
    fn clusters(&self) -> &impl Objects<Cluster>;
    /// Every MachineDeployment that there is.
    fn machine_deployments(&self) -> &impl Objects<MachineDeployment>;
    /// Every MachineSet that there is.
    fn machine_sets(&self) -> &impl Objects<MachineSet>;
    /// Every MachinePool that there is.
    fn machine_pools(&self) -> &impl Objects<MachinePool>;
    /// Every Machine that there is.
    fn machines(&self) -> &impl Objects<Machine>;
    /// Every KubeadmConfig that there is.
    fn kubeadm_configs(&self) -> &impl Objects<KubeadmConfig>;

    /// The control plane Machines of a Cluster, ordered by name.
    fn control_plane_machines(&self, cluster: &ObjectKey) -> Vec<Arc<Machine>> {
        let mut found = self.machines().of_cluster(cluster);
        found.retain(|machine| is_control_plane(machine));
        found
    }

    /// Does a release look after this KubeadmControlPlane that has nothing newer than v1beta1?
    fn is_of_older_release(&self, _control_plane: &ObjectKey) -> bool {
        false
    }

    /// What a reference in a spec leads to, as the provider contract shows it.
    fn external(&self, namespace: &str, reference: Option<&ContractRef>) -> External;

    /// A template that objects are made from.
    fn template(&self, namespace: &str, reference: Option<&ContractRef>) -> External {
        self.external(namespace, reference)
    }

    /// What `spec.infrastructureRef` of a Machine leads to.
    fn infrastructure_of_machine(&self, machine: &Machine) -> External {
        self.external(namespace(machine), Some(&machine.spec.infrastructure_ref))
    }

    /// What `spec.bootstrap.configRef` of a Machine leads to.
    fn bootstrap_of_machine(&self, machine: &Machine) -> External {
        self.external(namespace(machine), machine.spec.bootstrap.config_ref.as_ref())
    }

    /// What `spec.infrastructureRef` of a Cluster leads to.
    fn infrastructure_of_cluster(&self, cluster: &Cluster) -> External {
        self.external(namespace(cluster), cluster.spec.infrastructure_ref.as_ref())
    }

    /// What `spec.controlPlaneRef` of a Cluster leads to.
    fn control_plane_of_cluster(&self, cluster: &Cluster) -> External {
        self.external(namespace(cluster), cluster.spec.control_plane_ref.as_ref())
    }
}

/// The objects of one namespace that `selector` matches, ordered by name. One that demands the label of a Cluster is only
/// compared with the objects of that Cluster.
pub fn selected<K: Resource>(
    objects: &impl Objects<K>,
    namespace: &str,
    selector: &LabelSelector,
) -> Vec<Arc<K>> {
    let is_selected = |object: &K| matches(selector, object.meta().labels.as_ref());
    // Sources keep an index by cluster: without this
    // each owner would look through the whole namespace.
    let demanded = selector.match_labels.as_ref().and_then(|labels| labels.get(label::CLUSTER_NAME));
    let Some(cluster) = demanded.filter(|name| !name.is_empty()) else {
        return objects.select(namespace, is_selected);
    };
    let mut found = objects.of_cluster(&ObjectKey::new(namespace, cluster));
    // The whole selector again: the label is only one of its demands.
    found.retain(|object| is_selected(object));
    found
}

/// The namespace of an object; without one `default`, as kubectl has it.
pub fn namespace<K: Resource>(object: &K) -> &str {
    object.meta().namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or("default")
}

/// Namespace and name of an object.
pub fn key_of<K: Resource>(object: &K) -> ObjectKey {
    ObjectKey::new(namespace(object), object.meta().name.as_deref().unwrap_or_default())
}
