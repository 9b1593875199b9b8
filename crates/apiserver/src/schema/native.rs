//! Schemas of the built-in kinds, taken from the types of k8s-openapi: field names, types and the
//! words `kubectl explain` shows. Owns the list of those kinds; must not know how they are served.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::authorization::v1::{
    SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
};
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Event, Namespace, Node as KubeNode, Pod, Secret, ServiceAccount,
};
use k8s_openapi::api::events::v1::Event as NewEvent;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ListMeta, ObjectMeta};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use super::{Node, Schema, compile, merging};

const RBAC: &str = "rbac.authorization.k8s.io";

/// Group, version and kind.
type Id = (String, String, String);

/// Everything known about built-in kinds, made on first use.
struct Catalog {
    /// By OpenAPI name, such as `io.k8s.api.core.v1.Secret`; they refer to each other by
    /// `#/components/schemas/NAME`.
    definitions: Map<String, Value>,
    names: BTreeMap<Id, String>,
    schemas: BTreeMap<Id, Schema>,
    metadata: Node,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::build);

/// The schema of a built-in kind.
pub fn schema(group: &str, version: &str, kind: &str) -> Option<&'static Schema> {
    CATALOG.schemas.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))
}

/// The schema of `metadata` in any object.
pub fn metadata() -> &'static Node {
    &CATALOG.metadata
}

/// The OpenAPI definitions behind the schemas.
pub fn definitions() -> &'static Map<String, Value> {
    &CATALOG.definitions
}

/// The OpenAPI name of a built-in kind.
pub fn definition_name(group: &str, version: &str, kind: &str) -> Option<&'static str> {
    CATALOG.names.get(&(group.to_owned(), version.to_owned(), kind.to_owned())).map(String::as_str)
}

impl Catalog {
    fn build() -> Self {
        let settings = SchemaSettings::draft07().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
            settings.transforms.clear();
        });
        let mut collector = Collector { generator: settings.into_generator(), names: BTreeMap::new() };
        collector.add::<Namespace>("", "v1", "Namespace");
        collector.add::<KubeNode>("", "v1", "Node");
        collector.add::<Secret>("", "v1", "Secret");
        collector.add::<ConfigMap>("", "v1", "ConfigMap");
        collector.add::<Event>("", "v1", "Event");
        collector.add::<NewEvent>("events.k8s.io", "v1", "Event");
        collector.add::<Lease>("coordination.k8s.io", "v1", "Lease");
        collector.add::<CustomResourceDefinition>("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        collector.add::<SelfSubjectAccessReview>("authorization.k8s.io", "v1", "SelfSubjectAccessReview");
        collector.add::<SelfSubjectRulesReview>("authorization.k8s.io", "v1", "SelfSubjectRulesReview");
        collector.add::<SubjectAccessReview>("authorization.k8s.io", "v1", "SubjectAccessReview");
        collector.add::<SelfSubjectReview>("authentication.k8s.io", "v1", "SelfSubjectReview");
        collector.add::<TokenReview>("authentication.k8s.io", "v1", "TokenReview");
        collector.add::<Scale>("autoscaling", "v1", "Scale");
        collector.add::<Pod>("", "v1", "Pod");
        collector.add::<DaemonSet>("apps", "v1", "DaemonSet");
        collector.add::<Deployment>("apps", "v1", "Deployment");
        collector.add::<ServiceAccount>("", "v1", "ServiceAccount");
        collector.add::<Role>(RBAC, "v1", "Role");
        collector.add::<RoleBinding>(RBAC, "v1", "RoleBinding");
        collector.add::<ClusterRole>(RBAC, "v1", "ClusterRole");
        collector.add::<ClusterRoleBinding>(RBAC, "v1", "ClusterRoleBinding");
        collector.add::<DeleteOptions>("", "v1", "DeleteOptions");
        // Lists in the documents refer to it, and no kind does.
        collector.generator.subschema_for::<ListMeta>();
        collector.finish()
    }
}

struct Collector {
    generator: SchemaGenerator,
    names: BTreeMap<Id, String>,
}

impl Collector {
    fn add<T: JsonSchema>(&mut self, group: &str, version: &str, kind: &str) {
        // The generator keeps the definition; the reference to it is of no use here.
        self.generator.subschema_for::<T>();
        self.names
            .insert((group.to_owned(), version.to_owned(), kind.to_owned()), T::schema_name().into_owned());
    }

    fn finish(mut self) -> Catalog {
        let definitions: Map<String, Value> = self.generator.take_definitions(false).into_iter().collect();
        let compiled = |name: &str| {
            definitions
                .get(name)
                .map(|definition| compile::trusted(definition, &definitions))
                .unwrap_or_default()
        };
        let schemas = self.names.iter().map(|(id, name)| {
            let mut root = compiled(name);
            root.embedded = true;
            merging::mark(&id.2, &mut root);
            let schema = Schema { kind: id.2.clone(), version: id.1.clone(), root, native: true };
            (id.clone(), schema)
        });
        let schemas = schemas.collect();
        let mut metadata = compiled(&ObjectMeta::schema_name());
        merging::mark("ObjectMeta", &mut metadata);
        Catalog { schemas, metadata, names: self.names, definitions }
    }
}
