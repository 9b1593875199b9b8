//! Does a Machine spec match the template its owner has now, and if not, in what? A judgement over the
//! fields that make a worker rollout. Must not know what is done about it.
//! Source: cluster-api `core/reconcilers/machinedeployment/mdutil/util.go` (`MachineTemplateUpToDate`), v1.14.2.

use capi_types::machine::MachineSpec;
use capi_types::reference::ContractRef;

/// One field that keeps a Machine from being up to date, in upstream's two wordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// As in logs and in the reason for a new MachineSet.
    pub log: String,
    /// As in the Machine's `UpToDate` condition.
    pub condition: String,
}

/// The rollout-relevant differences from `current` to `desired`, in upstream's order: version,
/// bootstrap, infrastructure, failure domain. Everything else is changed in place and never listed.
pub fn differences(current: &MachineSpec, desired: &MachineSpec) -> Vec<Difference> {
    [
        field("version", "Version", current.version.as_deref(), desired.version.as_deref()),
        bootstrap(current, desired),
        infrastructure(current, desired),
        field(
            "failureDomain",
            "Failure domain",
            current.failure_domain.as_deref(),
            desired.failure_domain.as_deref(),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn field(name: &str, words: &str, current: Option<&str>, desired: Option<&str>) -> Option<Difference> {
    // Unset and empty are the same to upstream, which compares plain strings.
    let (current, desired) = (current.unwrap_or_default(), desired.unwrap_or_default());
    (current != desired).then(|| Difference {
        log: format!("spec.{name} {current}, {desired} required"),
        condition: format!("{words} {current}, {desired} required"),
    })
}

/// The whole of it counts: with a reference, another data secret is a difference, too.
fn bootstrap(current: &MachineSpec, desired: &MachineSpec) -> Option<Difference> {
    let (current, desired) = (&current.bootstrap, &desired.bootstrap);
    if current == desired {
        return None;
    }
    if let Some(config) = &current.config_ref {
        return Some(replaced("spec.bootstrap.configRef", config, desired.config_ref.as_ref()));
    }
    let secret = |name: &Option<String>| name.clone().unwrap_or_else(|| "nil".to_owned());
    let text = format!(
        "spec.bootstrap.dataSecretName {}, {} required",
        secret(&current.data_secret_name),
        secret(&desired.data_secret_name)
    );
    Some(Difference { log: text.clone(), condition: text })
}

fn infrastructure(current: &MachineSpec, desired: &MachineSpec) -> Option<Difference> {
    let (current, desired) = (&current.infrastructure_ref, &desired.infrastructure_ref);
    (current != desired).then(|| replaced("spec.infrastructureRef", current, Some(desired)))
}

fn replaced(path: &str, current: &ContractRef, desired: Option<&ContractRef>) -> Difference {
    let words = |r: &ContractRef| format!("{} {}", r.kind, r.name);
    let required = desired.map_or_else(String::new, words);
    let kind = current.kind.strip_suffix("Template").unwrap_or(&current.kind);
    Difference {
        log: format!("{path} {}, {required} required", words(current)),
        condition: format!("{kind} is not up-to-date"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::machine::Bootstrap;

    fn spec(version: &str, config: &str, infra: &str) -> MachineSpec {
        let r = |kind: &str, name: &str| ContractRef {
            kind: kind.into(),
            name: name.into(),
            api_group: "g".into(),
        };
        MachineSpec {
            version: Some(version.into()),
            bootstrap: Bootstrap {
                config_ref: Some(r("KubeadmConfigTemplate", config)),
                data_secret_name: None,
            },
            infrastructure_ref: r("DevMachineTemplate", infra),
            ..MachineSpec::default()
        }
    }

    #[test]
    fn only_rollout_fields_count_and_in_order() {
        let desired = spec("v1.36.2", "b1", "i2");
        let mut current = spec("v1.35.4", "b1", "i1");
        current.min_ready_seconds = Some(30);
        let found = differences(&current, &desired);
        assert_eq!(
            found.iter().map(|d| d.condition.as_str()).collect::<Vec<_>>(),
            ["Version v1.35.4, v1.36.2 required", "DevMachine is not up-to-date"]
        );
        assert_eq!(
            found[1].log,
            "spec.infrastructureRef DevMachineTemplate i1, DevMachineTemplate i2 required"
        );
        assert_eq!(differences(&desired, &desired), []);
    }

    #[test]
    fn a_data_secret_is_compared_by_name() {
        let secret = |name: Option<&str>| MachineSpec {
            bootstrap: Bootstrap { config_ref: None, data_secret_name: name.map(str::to_owned) },
            ..MachineSpec::default()
        };
        let found = differences(&secret(None), &secret(Some("s")));
        assert_eq!(found[0].condition, "spec.bootstrap.dataSecretName nil, s required");
        let mut named = spec("v1.36.2", "b1", "i1");
        named.bootstrap.data_secret_name = Some("s".to_owned());
        let found = differences(&spec("v1.36.2", "b1", "i1"), &named);
        assert_eq!(found[0].condition, "KubeadmConfig is not up-to-date");
    }

    #[test]
    fn every_kind_of_difference_has_its_words() {
        let mut current = spec("v1.35.4", "b1", "i1");
        current.failure_domain = Some("a".to_owned());
        let mut desired = spec("v1.36.2", "b2", "i2");
        desired.version = None;
        let words: Vec<String> = differences(&current, &desired).into_iter().map(|d| d.condition).collect();
        assert_eq!(
            words,
            [
                "Version v1.35.4,  required",
                "KubeadmConfig is not up-to-date",
                "DevMachine is not up-to-date",
                "Failure domain a,  required",
            ]
        );
    }
}
