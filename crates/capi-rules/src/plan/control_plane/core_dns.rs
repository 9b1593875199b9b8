//! CoreDNS follows `clusterConfiguration.dns` once no Machine is outdated or missing. Must not know Machines.
//! Source: KCP-18; `controlplane/kubeadm/pkg/workload_cluster_coredns.go`, v1.14.2.
//!
//! Intended difference: the Corefile stays as it is. Since CoreDNS 1.8 no migration changes what kubeadm wrote; an
//! update from an older one is refused.

use semver::Version;
use serde_json::{Value, json};

use super::{Act, Blocked, Flow, Pending, Why, Workload};
use crate::plan::WorkloadCall;
use capi_types::coredns::check_migration;
use capi_types::kubeadm::ClusterConfiguration;
use capi_types::names::annotation::SKIP_COREDNS;
use k8s_machinery::version::{compare_release, tolerant_tag};

/// The first whose Corefile needs no migration any more; also the first whose image has a folder of its own.
const UNCHANGED_SINCE: Version = Version::new(1, 8, 0);
/// Where kubeadm takes images from unless told otherwise, now and before.
const DEFAULT_REPOSITORIES: [&str; 2] = ["registry.k8s.io", "k8s.gcr.io"];

/// First what kubeadm reads, then the Deployment.
pub fn follow_spec(p: &mut Pending) -> Flow {
    let Workload::Reached(facts) = &p.observed.workload else { return Flow::Continue(()) };
    let plane = &p.observed.control_plane;
    let is_skipped = plane.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(SKIP_COREDNS));
    let own = plane.spec.kubeadm_config_spec.as_ref().and_then(|spec| spec.cluster_configuration.as_ref());
    let (Some(current), Some(own), false) = (&facts.core_dns_image, own, is_skipped) else {
        return Flow::Continue(());
    };
    let image = match wanted_image(current, own) {
        Ok(image) if image == *current => return Flow::Continue(()),
        Ok(image) => image,
        Err(detail) => return p.fail(Blocked::CoreDnsStays { detail }),
    };
    // A missing ConfigMap is ignored, as upstream.
    let stored = facts.kubeadm_config.as_ref().ok().and_then(Option::as_ref);
    if let Some(stored) = stored.and_then(|stored| with_dns(stored, own)) {
        p.step(Act::Workload(WorkloadCall::SetClusterConfiguration(stored)), Why::DnsFollowsSpec);
    }
    p.step(Act::Workload(WorkloadCall::SetCoreDnsImage { image }), Why::DnsFollowsSpec);
    Flow::Continue(())
}

/// # Errors
/// Why there is no way to the wanted image.
fn wanted_image(current: &str, own: &ClusterConfiguration) -> Result<String, String> {
    // Before the last slash a colon may belong to the port of a registry, behind it only to the
    // tag.
    let (path, rest) = current.rsplit_once('/').unwrap_or(("", current));
    // A digest names the image that runs now; which version that is only the tag says.
    let rest = rest.split('@').next().unwrap_or(rest);
    let (name, tag) = rest.split_once(':').ok_or_else(|| {
        format!("failed to update coredns deployment: does not have a valid image tag: \"{current}\"")
    })?;
    let dns = own.dns.as_ref();
    let repository = dns.and_then(|dns| dns.image_repository.as_deref()).or(own.image_repository.as_deref());
    let repository = repository.unwrap_or(path);
    // Without a tag of its own CoreDNS stays at what kubeadm
    // chose, whatever the version of the control plane.
    let wanted_tag = dns.and_then(|dns| dns.image_tag.as_deref()).unwrap_or(tag);
    let to = parsed(wanted_tag)?;
    check(&parsed(tag)?, &to, tag, wanted_tag)?;
    // Mirrors keep the flat name; only the default repositories moved the image.
    let has_folder =
        compare_release(&to, &UNCHANGED_SINCE).is_ge() && DEFAULT_REPOSITORIES.contains(&repository);
    let name = if has_folder && name == "coredns" { "coredns/coredns" } else { name };
    Ok(match repository {
        "" => format!("{name}:{wanted_tag}"),
        path => format!("{path}/{name}:{wanted_tag}"),
    })
}

fn parsed(tag: &str) -> Result<Version, String> {
    tolerant_tag(tag).map_err(|why| format!("failed to parse CoreDNS version \"{tag}\": {why}"))
}

fn check(from: &Version, to: &Version, from_tag: &str, to_tag: &str) -> Result<(), String> {
    let release = |v: &Version| format!("{}.{}.{}", v.major, v.minor, v.patch);
    match compare_release(from, to) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(format!(
            "failed to validate CoreDNS: toVersion \"{to_tag}\" must be greater than fromVersion \"{from_tag}\""
        )),
        std::cmp::Ordering::Less if compare_release(from, &UNCHANGED_SINCE).is_lt() => Err(format!(
            "the Corefile of CoreDNS {} has to be migrated by hand, with the image",
            release(from)
        )),
        std::cmp::Ordering::Less => check_migration(&release(from), &release(to))
            .map_err(|why| format!("failed to validate CoreDNS: {why}")),
    }
}

/// The stored configuration with the spec's image of CoreDNS; `None` when it has it.
fn with_dns(stored: &Value, own: &ClusterConfiguration) -> Option<Value> {
    let mut wanted = stored.as_object()?.clone();
    let mut dns = wanted.get("dns").and_then(Value::as_object).cloned().unwrap_or_default();
    let set = own.dns.as_ref();
    for (key, value) in [
        ("imageRepository", set.and_then(|dns| dns.image_repository.as_deref())),
        ("imageTag", set.and_then(|dns| dns.image_tag.as_deref())),
    ] {
        match value {
            Some(value) => dns.insert(key.to_owned(), json!(value)),
            None => dns.remove(key),
        };
    }
    if dns.is_empty() {
        wanted.remove("dns");
    } else {
        wanted.insert("dns".to_owned(), Value::Object(dns));
    }
    let wanted = Value::Object(wanted);
    (wanted != *stored).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::super::decide;
    use super::*;
    use crate::status::control_plane::fixtures::{self, of};

    #[test]
    fn the_image_follows_what_is_set() {
        let refused = |text: &str| Err(text.to_owned());
        let to = |image: &str| Ok(image.to_owned());
        for (current, configuration, expected) in [
            (
                "registry.k8s.io/coredns/coredns:v1.12.0",
                json!({}),
                to("registry.k8s.io/coredns/coredns:v1.12.0"),
            ),
            (
                "registry.k8s.io/coredns/coredns:v1.11.3",
                json!({"dns": {"imageTag": "v1.12.1"}}),
                to("registry.k8s.io/coredns/coredns:v1.12.1"),
            ),
            ("r/coredns:v1.11.3", json!({"imageRepository": "mine"}), to("mine/coredns:v1.11.3")),
            (
                "r/coredns:v1.11.3",
                json!({"imageRepository": "mine", "dns": {"imageRepository": "own:5000/x", "imageTag": "v1.12.0"}}),
                to("own:5000/x/coredns:v1.12.0"),
            ),
            (
                "r/coredns:v1.11.3",
                json!({"imageRepository": "registry.k8s.io"}),
                to("registry.k8s.io/coredns/coredns:v1.11.3"),
            ),
            ("coredns:v1.11.3@sha256:0", json!({"dns": {"imageTag": "v1.12.0"}}), to("coredns:v1.12.0")),
            (
                "r/coredns:v1.12.0",
                json!({"dns": {"imageTag": "v1.11.3"}}),
                refused(
                    "failed to validate CoreDNS: toVersion \"v1.11.3\" must be greater than fromVersion \"v1.12.0\"",
                ),
            ),
            (
                "r/coredns:v1.11.2",
                json!({"dns": {"imageTag": "v1.12.0"}}),
                refused("failed to validate CoreDNS: start version '1.11.2' not supported"),
            ),
            (
                "r/coredns:1.6.7",
                json!({"dns": {"imageTag": "v1.12.0"}}),
                refused("the Corefile of CoreDNS 1.6.7 has to be migrated by hand, with the image"),
            ),
            (
                "r/coredns",
                json!({}),
                refused(
                    "failed to update coredns deployment: does not have a valid image tag: \"r/coredns\"",
                ),
            ),
        ] {
            assert_eq!(
                wanted_image(current, &of(configuration.clone())),
                expected,
                "{current} {configuration}"
            );
        }
    }

    /// Steps and blockers with this annotation on the control plane.
    fn planned(configuration: Value, annotation: Option<&str>) -> (Vec<String>, Vec<&'static str>) {
        let mut o = fixtures::three();
        let configured = configuration.is_object();
        if configured {
            o.control_plane.spec.kubeadm_config_spec =
                Some(of(json!({"clusterConfiguration": configuration})));
            for machine in &mut o.machines {
                machine.bootstrap = None;
            }
        }
        let Workload::Reached(facts) = &mut o.workload else { unreachable!("fixtures reach it") };
        facts.core_dns_image = Some("registry.k8s.io/coredns/coredns:v1.11.3".to_owned());
        facts.kubeadm_config = Ok(Some(json!({"clusterName": "prod"})));
        let annotations = o.control_plane.metadata.annotations.get_or_insert_default();
        annotations.extend(annotation.map(|name| (name.to_owned(), String::new())));
        let plan = decide(o, fixtures::now()).plan;
        let steps =
            plan.steps.iter().filter_map(|step| step.action.as_ref().map(ToString::to_string)).collect();
        (steps, plan.blockers.iter().map(|blocker| blocker.reason.rule).collect())
    }

    #[test]
    fn kubeadm_reads_it_before_the_deployment_has_it() {
        let newer = || json!({"dns": {"imageTag": "v1.12.0"}});
        let (steps, blockers) = planned(newer(), None);
        assert_eq!(
            (steps, blockers),
            (
                vec![
                    "update ConfigMap kube-system/kubeadm-config".to_owned(),
                    "set the image of CoreDNS to registry.k8s.io/coredns/coredns:v1.12.0".to_owned()
                ],
                vec![]
            )
        );
        let nothing = (Vec::new(), Vec::new());
        assert_eq!(planned(newer(), Some(SKIP_COREDNS)), nothing);
        assert_eq!(planned(Value::Null, None), nothing, "without a clusterConfiguration");
        let (steps, blockers) = planned(json!({"dns": {"imageTag": "v1.10.0"}}), None);
        assert_eq!((steps.len(), blockers), (0, vec!["core-dns-stays"]));
    }

    #[test]
    fn the_stored_configuration_keeps_the_rest_of_dns() {
        let stored = json!({"dns": {"imageTag": "v1", "disabled": false}, "x": 1});
        let set = |tag: &str| of(json!({"dns": {"imageTag": tag}}));
        let expected = json!({"dns": {"imageTag": "v2", "disabled": false}, "x": 1});
        assert_eq!(with_dns(&stored, &set("v2")), Some(expected));
        assert_eq!(with_dns(&stored, &set("v1")), None);
        assert_eq!(with_dns(&json!({"dns": {"imageTag": "v1"}}), &of(json!({}))), Some(json!({})));
    }
}
