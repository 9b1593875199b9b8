//! What Cluster API's webhooks do, in code: the defaults its controllers rely on, and the rules for
//! create, update, delete and scale. Owns those rules per kind; must not know a server, a store or a
//! schema. Rules that look at other objects name them ([`Admission::needs`]) and get them passed in. The API
//! server is given them as [`Webhooks`]; actions and commands ask the same ones before they send anything.
//!
//! Every feature gate counts as open. `docs/admission.md` lists all defaults and rules.
//! Source: cluster-api `core/webhooks/admission`, `{bootstrap,controlplane}/kubeadm/webhooks/admission`,
//! `test/infrastructure/docker/internal/webhooks`, v1.14.2; controller-runtime
//! `pkg/webhook/admission/{validator,defaulter}_custom.go`.

mod add_ons;
mod addresses;
mod bootstrap;
mod class;
mod class_patches;
mod class_use;
mod cluster;
mod control_plane;
mod finding;
mod hosts;
mod infrastructure;
mod naming_template;
mod parts;
pub mod replicas;
mod selector;
mod topology;
mod value;
mod workers;

#[cfg(test)]
mod tests;

use serde_json::Value;

use capi_types::host;
use capi_types::names::{
    ADDONS_GROUP, BOOTSTRAP_GROUP, CONTROL_PLANE_GROUP, CORE_GROUP, INFRASTRUCTURE_GROUP, IPAM_GROUP,
    RUNTIME_GROUP, VERSION, annotation,
};
use finding::{Denial, Findings};
use k8s_machinery::admission::{Admission, Known, Need, Refusal, RefusalReason, Request};
use k8s_machinery::validation::cause::Cause;

/// A dry run by which a topology controller finds out what would change.
fn compares_topology(request: &Request<'_>, new: &Value) -> bool {
    request.dry_run && value::annotation(new, annotation::TOPOLOGY_DRY_RUN).is_some()
}

/// What the rules of a kind look at.
struct Review<'a> {
    kind: &'a str,
    old: Option<&'a Value>,
    new: &'a Value,
    compares_topology: bool,
    known: &'a Known,
}

/// How refusals of a kind are answered.
#[derive(Clone, Copy)]
enum Answer {
    /// 422 with causes. The group is the one upstream's answers name.
    Invalid { group: &'static str },
    /// 403 with one sentence.
    Denied,
}

type Default = fn(&Request<'_>, &mut Value) -> Result<(), Denial>;

/// What is done to objects of one kind.
struct Rules {
    group: &'static str,
    /// The version that they are written for.
    version: &'static str,
    kind: &'static str,
    default: Default,
    needs: fn(&Request<'_>, &Value) -> Vec<Need>,
    check: fn(&Review<'_>, &mut Findings),
    answer: Answer,
}

const fn rules(group: &'static str, kind: &'static str, check: fn(&Review<'_>, &mut Findings)) -> Rules {
    let answer = Answer::Invalid { group };
    let default: Default = |_, _| Ok(());
    Rules { group, version: VERSION, kind, default, needs: |_, _| Vec::new(), check, answer }
}

/// Of a kind of this project.
const fn of_hosts(kind: &'static str, check: fn(&Review<'_>, &mut Findings)) -> Rules {
    Rules { version: host::VERSION, ..rules(INFRASTRUCTURE_GROUP, kind, check) }
}

/// Webhooks of KubeadmControlPlanes answer in the name of the core group.
const AS_CORE: Answer = Answer::Invalid { group: CORE_GROUP };

const KINDS: [Rules; 31] = [
    Rules {
        default: cluster::default,
        needs: topology::needs,
        ..rules(CORE_GROUP, "Cluster", cluster::check)
    },
    Rules { needs: class::needs, ..rules(CORE_GROUP, topology::CLASS, class::check) },
    Rules {
        default: workers::default_deployment,
        ..rules(CORE_GROUP, "MachineDeployment", workers::check_deployment)
    },
    Rules { default: workers::default_set, ..rules(CORE_GROUP, "MachineSet", workers::check_set) },
    Rules { default: workers::default_machine, ..rules(CORE_GROUP, "Machine", workers::check_machine) },
    Rules { default: workers::default_pool, ..rules(CORE_GROUP, "MachinePool", workers::check_pool) },
    Rules {
        default: workers::default_health_check,
        ..rules(CORE_GROUP, "MachineHealthCheck", workers::check_health_check)
    },
    rules(CORE_GROUP, "MachineDrainRule", add_ons::check_drain_rule),
    Rules {
        default: control_plane::default,
        answer: AS_CORE,
        ..rules(CONTROL_PLANE_GROUP, "KubeadmControlPlane", control_plane::check)
    },
    Rules {
        answer: AS_CORE,
        ..rules(CONTROL_PLANE_GROUP, "KubeadmControlPlaneTemplate", control_plane::check_template)
    },
    rules(BOOTSTRAP_GROUP, "KubeadmConfig", bootstrap::check_config),
    Rules {
        default: bootstrap::default_template,
        ..rules(BOOTSTRAP_GROUP, "KubeadmConfigTemplate", bootstrap::check_template)
    },
    Rules {
        default: add_ons::default_resource_set,
        ..rules(ADDONS_GROUP, "ClusterResourceSet", add_ons::check_resource_set)
    },
    rules(ADDONS_GROUP, "ClusterResourceSetBinding", add_ons::check_binding),
    Rules {
        default: add_ons::default_extension,
        ..rules(RUNTIME_GROUP, "ExtensionConfig", add_ons::check_extension)
    },
    Rules {
        needs: addresses::needs,
        answer: Answer::Denied,
        ..rules(IPAM_GROUP, "IPAddress", addresses::check_address)
    },
    Rules { answer: Answer::Denied, ..rules(IPAM_GROUP, "IPAddressClaim", addresses::check_fixed) },
    Rules {
        default: infrastructure::default_cluster,
        ..rules(INFRASTRUCTURE_GROUP, "DevCluster", infrastructure::check_cluster)
    },
    Rules {
        default: infrastructure::default_cluster_template,
        ..rules(INFRASTRUCTURE_GROUP, "DevClusterTemplate", infrastructure::check_cluster_template)
    },
    Rules {
        default: infrastructure::default_machine,
        ..rules(INFRASTRUCTURE_GROUP, "DevMachine", infrastructure::check_machine)
    },
    Rules {
        default: infrastructure::default_machine_template,
        ..rules(INFRASTRUCTURE_GROUP, "DevMachineTemplate", infrastructure::check_machine_template)
    },
    Rules {
        default: infrastructure::default_docker_cluster,
        ..rules(INFRASTRUCTURE_GROUP, "DockerCluster", infrastructure::check_docker_cluster)
    },
    Rules {
        default: infrastructure::default_docker_template,
        ..rules(INFRASTRUCTURE_GROUP, "DockerClusterTemplate", infrastructure::check_cluster_template)
    },
    rules(INFRASTRUCTURE_GROUP, "DockerMachine", infrastructure::check_docker_machine),
    rules(INFRASTRUCTURE_GROUP, "DockerMachineTemplate", infrastructure::check_machine_template),
    of_hosts("HostPool", hosts::check_pool),
    of_hosts("Host", hosts::check_host),
    of_hosts("HostMachine", hosts::check_machine),
    of_hosts("HostMachineTemplate", hosts::check_machine_template),
    of_hosts("HostCluster", hosts::check_cluster),
    of_hosts("HostClusterTemplate", hosts::check_cluster_template),
];

/// The rules for an object. They are written for one version; an object of another one is left alone.
fn rules_for(group: &str, kind: &str, object: &Value) -> Option<&'static Rules> {
    static ALL: &[Rules] = &KINDS;
    let version =
        object["apiVersion"].as_str().and_then(|text| text.rsplit_once('/')).map(|(_, version)| version);
    let found = ALL.iter().find(|rules| rules.group == group && rules.kind == kind)?;
    version.is_none_or(|version| version == found.version).then_some(found)
}

impl Rules {
    /// `default.machine.cluster.x-k8s.io`: how upstream's webhook of this purpose is called.
    fn webhook(&self, purpose: &str) -> String {
        format!("{purpose}.{}.{}", self.kind.to_lowercase(), self.group)
    }

    fn refuse(&self, purpose: &str, object: &Value, causes: Vec<Cause>) -> Refusal {
        let why = match self.answer {
            Answer::Invalid { group } => RefusalReason::Invalid {
                group,
                kind: self.kind.to_owned(),
                name: name_of(object).to_owned(),
                causes,
            },
            Answer::Denied => {
                let texts: Vec<String> = causes.iter().map(Cause::to_string).collect();
                RefusalReason::Denied(match texts.as_slice() {
                    [one] => one.clone(),
                    many => format!("[{}]", many.join(", ")),
                })
            }
        };
        Refusal { webhook: self.webhook(purpose), why }
    }
}

fn name_of(object: &Value) -> &str {
    value::text(object, "/metadata/name")
}

/// What Cluster API's webhooks do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Webhooks;

impl Admission for Webhooks {
    fn mutate(&self, request: &Request<'_>, new: &mut Value) -> Result<(), Refusal> {
        let Some(rules) = rules_for(request.group, request.kind, new) else { return Ok(()) };
        (rules.default)(request, new).map_err(|denial| match denial {
            Denial::Sentence(why) => {
                Refusal { webhook: rules.webhook("default"), why: RefusalReason::Denied(why) }
            }
            Denial::Cause(cause) => rules.refuse("default", new, vec![cause]),
        })
    }

    fn needs(&self, request: &Request<'_>, new: &Value) -> Vec<Need> {
        rules_for(request.group, request.kind, new).map_or_else(Vec::new, |rules| (rules.needs)(request, new))
    }

    fn check(&self, request: &Request<'_>, new: &Value, known: &Known) -> Result<Vec<String>, Refusal> {
        let Some(rules) = rules_for(request.group, request.kind, new) else { return Ok(Vec::new()) };
        // Unlike upstream, which can lock an object in: finalizers can always be removed.
        if !new["metadata"]["deletionTimestamp"].is_null() {
            return Ok(Vec::new());
        }
        let compares_topology = compares_topology(request, new);
        let review = Review { kind: rules.kind, old: request.old, new, compares_topology, known };
        let mut findings = Findings::default();
        (rules.check)(&review, &mut findings);
        if findings.causes.is_empty() {
            return Ok(findings.warnings);
        }
        Err(rules.refuse("validation", new, findings.causes))
    }

    fn needs_for_delete(&self, group: &str, kind: &str) -> Vec<Need> {
        if (group, kind) == (CORE_GROUP, topology::CLASS) { class_use::clusters() } else { Vec::new() }
    }

    fn check_delete(&self, group: &str, kind: &str, object: &Value, known: &Known) -> Result<(), Refusal> {
        let Some(rules) = rules_for(group, kind, object).filter(|rules| rules.kind == topology::CLASS) else {
            return Ok(());
        };
        class::deletion_refusal(object, known.all("Cluster")).map_or(Ok(()), |why| {
            let [group, kind, name] = [group, kind, name_of(object)].map(str::to_owned);
            Err(Refusal {
                webhook: rules.webhook("validation"),
                why: RefusalReason::Forbidden { group, kind, name, why },
            })
        })
    }

    fn check_scale(&self, group: &str, kind: &str, object: &Value, replicas: i64) -> Result<(), Refusal> {
        if (group, kind) != (CONTROL_PLANE_GROUP, "KubeadmControlPlane") {
            return Ok(());
        }
        control_plane::check_scale(object, replicas).map_err(|why| Refusal {
            webhook: "validation-scale.kubeadmcontrolplane.controlplane.cluster.x-k8s.io".to_owned(),
            why: RefusalReason::Denied(why.to_owned()),
        })
    }
}
