//! Names of fields that no configuration document has, from the proposal for this command, from Init- and JoinConfiguration
//! and from older versions: what to write instead. Must not know which document was looked through.

use super::path::{FieldPath, PathStep};

/// The last name of a path in small letters, and the rest of a sentence.
const NAMES: &[(&[&str], &str)] = &[
    (
        &["extraargs", "apiserverextraargs", "controllermanagerextraargs", "schedulerextraargs"],
        "arguments are named one by one: apiServer.extraArgs[NAME], and so of controllerManager, scheduler and etcd.local",
    ),
    (
        &["kubeletextraargs", "noderegistration"],
        "it belongs to one node; what all kubelets have in common is a field of KubeletConfiguration, such as maxPods",
    ),
    (
        &["hostvolumes", "extravolumes", "extramounts"],
        "volumes are named one by one: apiServer.extraVolumes[NAME].hostPath",
    ),
    (
        &["advertiseaddress", "bindport", "localapiendpoint"],
        "it belongs to one node and is in no ConfigMap: the node is removed and joins again",
    ),
    (&["controlplaneaddress", "apiendpoint", "apiendpoints"], "the field is controlPlaneEndpoint"),
    (&["imagesrepository"], "the field is imageRepository"),
    (
        &["imagetags", "imagetag"],
        "tags of images are etcd.local.imageTag and dns.imageTag; the others follow kubernetesVersion",
    ),
    (&["version"], "the field is kubernetesVersion"),
];

/// What to write instead of a name that is not a field. `apiServer.extraArgs.NAME` is found by the name before its last.
pub fn instead_of(path: &FieldPath) -> Option<&'static str> {
    let names = path.0.iter().rev().take(2).filter_map(|step| match step {
        PathStep::Field(name) => Some(name.to_ascii_lowercase()),
        PathStep::Item(_) | PathStep::Index(_) => None,
    });
    let find = |name: String| NAMES.iter().find(|(known, _)| known.contains(&name.as_str()));
    names.filter_map(find).map(|(_, sentence)| *sentence).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::DocumentKind;
    use crate::schema::Schema;

    #[test]
    fn names_of_the_proposal_lead_to_the_field() {
        for (typed, part) in [
            ("apiServerExtraArgs", Some("apiServer.extraArgs[NAME]")),
            ("APIServerExtraArgs", Some("apiServer.extraArgs[NAME]")),
            ("apiServer.extraArgs.audit-log-path", Some("apiServer.extraArgs[NAME]")),
            ("apiServer.hostVolumes", Some("apiServer.extraVolumes[NAME].hostPath")),
            ("localAPIEndpoint.advertiseAddress", Some("one node")),
            ("controlPlaneAddress", Some("controlPlaneEndpoint")),
            ("networking.podSubnets", None),
        ] {
            let path = FieldPath::parse(typed).expect("a path");
            let sentence = instead_of(&path);
            assert_eq!(sentence.is_some(), part.is_some(), "{typed}");
            assert!(sentence.unwrap_or_default().contains(part.unwrap_or_default()), "{typed}: {sentence:?}");
        }
    }

    #[test]
    fn names_that_alone_are_fields_of_a_document_are_not_here() {
        let fields = Schema::embedded().fields(DocumentKind::Cluster.name()).expect("its fields");
        for name in NAMES.iter().flat_map(|(names, _)| *names) {
            assert!(!fields.keys().any(|field| field.eq_ignore_ascii_case(name)), "{name}");
        }
    }
}
