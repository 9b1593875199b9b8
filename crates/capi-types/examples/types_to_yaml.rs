//! Typed objects and definitions as text: a MachineDeployment as YAML, and the definition that a server needs for it.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::error::Error;

use capi_types::crds;
use capi_types::machine::{Bootstrap, MachineSpec};
use capi_types::machine_deployment::{MachineDeployment, MachineDeploymentSpec};
use capi_types::machine_set::MachineTemplate;
use capi_types::names::{BOOTSTRAP_GROUP, INFRASTRUCTURE_GROUP};
use capi_types::reference::ContractRef;

fn workers() -> MachineDeployment {
    let template = |group: &str, kind: &str| ContractRef {
        api_group: group.to_owned(),
        kind: kind.to_owned(),
        name: "small".to_owned(),
    };
    let machine = MachineSpec {
        cluster_name: "harbor".to_owned(),
        version: Some("v1.36.1".to_owned()),
        bootstrap: Bootstrap {
            config_ref: Some(template(BOOTSTRAP_GROUP, "KubeadmConfigTemplate")),
            ..Bootstrap::default()
        },
        infrastructure_ref: template(INFRASTRUCTURE_GROUP, "DevMachineTemplate"),
        ..MachineSpec::default()
    };
    let spec = MachineDeploymentSpec {
        cluster_name: "harbor".to_owned(),
        replicas: Some(3),
        template: MachineTemplate { spec: machine, ..MachineTemplate::default() },
        ..MachineDeploymentSpec::default()
    };
    MachineDeployment::new("md-0", spec)
}

fn text() -> Result<String, Box<dyn Error>> {
    let mut text = serde_saphyr::to_string(&workers())?;
    for definition in crds::all().into_iter().filter(|crd| crd.spec.names.kind == "MachineDeployment") {
        let version = definition.spec.versions.first().ok_or("a definition has a version")?;
        text += &format!("\n{} {}\n", definition.metadata.name.unwrap_or_default(), version.name);
        for column in version.additional_printer_columns.iter().flatten() {
            text += &format!("  {}: {}\n", column.name, column.json_path);
        }
    }
    Ok(text)
}

fn main() -> Result<(), Box<dyn Error>> {
    print!("{}", text()?);
    Ok(())
}

#[cfg(test)]
#[test]
fn it_prints_what_the_readme_shows() {
    let printed = text().expect("texts");
    assert!(include_str!("../README.md").contains(&printed), "README.md does not show:\n{printed}");
}
