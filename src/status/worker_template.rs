//! What separates two worker Machine templates, as far as it matters for being up to date. Owns the
//! comparison; must not know what is done about it.
//! Source: cluster-api `mdutil.MachineTemplateUpToDate`, v1.14.0. Labels, annotations, cluster name,
//! provider ID, minReadySeconds, readiness gates, deletion timeouts and taints are propagated in place
//! and therefore not compared.

use crate::api::machine::MachineSpec;

/// One sentence for each difference between what is and what should be; empty when there is none.
#[must_use]
pub fn differences(current: &MachineSpec, desired: &MachineSpec) -> Vec<String> {
    let mut messages = Vec::new();
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    if current.version != desired.version {
        messages.push(format!("Version {}, {} required", text(&current.version), text(&desired.version)));
    }
    if current.bootstrap != desired.bootstrap {
        messages.push(match &current.bootstrap.config_ref {
            Some(config) => format!("{} is not up-to-date", without_template(&config.kind)),
            None => {
                let name = |value: &Option<String>| value.clone().unwrap_or_else(|| "nil".to_owned());
                let (a, b) = (&current.bootstrap.data_secret_name, &desired.bootstrap.data_secret_name);
                format!("spec.bootstrap.dataSecretName {}, {} required", name(a), name(b))
            }
        });
    }
    if current.infrastructure_ref != desired.infrastructure_ref {
        messages.push(format!("{} is not up-to-date", without_template(&current.infrastructure_ref.kind)));
    }
    if current.failure_domain != desired.failure_domain {
        let (a, b) = (text(&current.failure_domain), text(&desired.failure_domain));
        messages.push(format!("Failure domain {a}, {b} required"));
    }
    messages
}

fn without_template(kind: &str) -> &str {
    kind.strip_suffix("Template").unwrap_or(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::reference::ContractRef;

    #[test]
    fn differences_come_in_upstreams_order() {
        let spec = |version: &str, infra: &str, domain: Option<&str>| MachineSpec {
            version: Some(version.to_owned()),
            infrastructure_ref: ContractRef {
                kind: "DevMachineTemplate".to_owned(),
                name: infra.to_owned(),
                ..ContractRef::default()
            },
            failure_domain: domain.map(str::to_owned),
            ..MachineSpec::default()
        };
        assert!(differences(&spec("v1", "a", None), &spec("v1", "a", None)).is_empty());
        assert_eq!(
            differences(&spec("v1", "a", None), &spec("v2", "b", Some("z"))),
            ["Version v1, v2 required", "DevMachine is not up-to-date", "Failure domain , z required"]
        );
    }
}
