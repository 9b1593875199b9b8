//! Rules of the development infrastructure.

use serde_json::json;

use super::{Row, create, update};

pub fn rows() -> Vec<Row> {
    let unsorted = json!([{"name": "b"}, {"name": "a"}]);
    vec![
        create(
            "INF-1",
            "DevCluster",
            json!({"spec": {"backend": {"docker": {"failureDomains": unsorted}}}}),
            "spec.backend.docker.failureDomains: Invalid value: [{\"name\":\"b\"},{\"name\":\"a\"}]: failure domains must \
             be sorted by name",
        ),
        update(
            "INF-1",
            "DockerCluster",
            json!({"spec": {"failureDomains": unsorted}}),
            "spec.failureDomains: Invalid value: [{\"name\":\"b\"},{\"name\":\"a\"}]: failure domains must be sorted by name",
        ),
        create(
            "INF-1",
            "DevClusterTemplate",
            json!({"spec": {"template": {"spec": {"backend": {"docker": {"failureDomains": unsorted}}}}}}),
            "spec.backend.docker.failureDomains: Invalid value: [{\"name\":\"b\"},{\"name\":\"a\"}]: failure domains must \
             be sorted by name",
        ),
        update(
            "INF-2",
            "DevMachine",
            json!({"spec": {"backend": {"docker": {"customImage": "j"}}}}),
            "spec.backend.docker.customImage: Forbidden: cannot be modified",
        ),
        update(
            "INF-2",
            "DockerMachine",
            json!({"spec": {"customImage": null}}),
            "spec.customImage: Forbidden: cannot be modified",
        ),
        update(
            "INF-3",
            "DevClusterTemplate",
            json!({"spec": {"template": {"spec": {"controlPlaneEndpoint": {"host": "h"}}}}}),
            "spec.template.spec: Invalid value: \"object\": DevClusterTemplate spec.template.spec field is immutable. \
             Please create a new resource instead. Diff: + controlPlaneEndpoint: {\"host\":\"h\"}",
        ),
        update(
            "INF-3",
            "DockerClusterTemplate",
            json!({"spec": {"template": {"spec": {"controlPlaneEndpoint": {"port": 1}}}}}),
            "spec.template.spec: Invalid value: \"object\": DockerClusterTemplate spec.template.spec field is immutable. \
             Please create a new resource instead. Diff: - controlPlaneEndpoint.port: 6443\n\
             + controlPlaneEndpoint.port: 1",
        ),
        update(
            "INF-3",
            "DevMachineTemplate",
            json!({"spec": {"template": {"spec": {"backend": {"docker": {"customImage": null}}}}}}),
            "spec.template.spec: Invalid value: \"object\": DevMachineTemplate spec.template.spec field is immutable. \
             Please create a new resource instead. Diff: - backend.docker.customImage: \"i\"",
        ),
        update(
            "INF-3",
            "DockerMachineTemplate",
            json!({"spec": {"template": {"spec": {"customImage": "j"}}}}),
            "spec.template.spec: Invalid value: \"object\": DockerMachineTemplate spec.template.spec field is immutable. \
             Please create a new resource instead. Diff: - customImage: \"i\"\n+ customImage: \"j\"",
        ),
        create(
            "ME-3",
            "DevMachineTemplate",
            json!({"spec": {"template": {"metadata": {"annotations": {"/a": "x"}}}}}),
            "spec.template.metadata.annotations: Invalid value: \"/a\": prefix part must be non-empty",
        ),
    ]
}
