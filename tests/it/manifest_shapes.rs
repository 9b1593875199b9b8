//! Files of the shapes that templates of other projects have: which kinds stand in them, in which groups and versions, what a Cluster
//! names as its control plane. Each is planned and run ahead, nothing of it is left out, and what is not planned is said to be so.
//! Every object is written here; names and groups are those of each project's API.

use std::fmt::Write as _;

use capstan::cli::args::{Cli, Command};
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_commands::output::Style;
use capstan_commands::{plan, simulate, status_compute};
use clap::Parser as _;

/// A kind with the version it is served in.
type Api = (&'static str, &'static str);

/// What makes the Machines of the control plane.
#[derive(Clone, Copy)]
enum Plane {
    Kubeadm,
    /// With hosts from a template, such as Talos, K3s and RKE2.
    Own(Api),
    /// Of a cloud that runs it.
    Managed(Api),
    /// A ClusterClass has its template.
    Class(Api),
}

/// What makes the workers.
#[derive(Clone, Copy)]
enum Workers {
    /// A MachineDeployment, with the template of its bootstrap configurations; `true`: with a selector.
    Deployment(Api, bool),
    /// A MachinePool of a cloud's own groups, which need no bootstrap configuration.
    Pool(Api),
    /// In the topology.
    Class,
}

struct Shape {
    name: &'static str,
    /// Cluster API's version in the file.
    core: &'static str,
    plane: Plane,
    cluster: Api,
    hosts: Api,
    workers: Workers,
}

const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

const KUBEADM: Workers = Workers::Deployment(("v1beta1", "KubeadmConfigTemplate"), true);

/// Kubeadm's by one project, workers by MachineDeployments.
const fn kubeadm(name: &'static str, cluster: Api, hosts: Api) -> Shape {
    Shape { name, core: "v1beta1", plane: Plane::Kubeadm, cluster, hosts, workers: KUBEADM }
}

/// Sources: the API packages of each project, as of November 2026.
const SHAPES: [Shape; 20] = [
    kubeadm("aws", ("v1beta2", "AWSCluster"), ("v1beta2", "AWSMachineTemplate")),
    Shape {
        name: "aws-eks",
        core: "v1beta1",
        plane: Plane::Managed(("controlplane.cluster.x-k8s.io/v1beta2", "AWSManagedControlPlane")),
        cluster: ("v1beta2", "AWSManagedCluster"),
        hosts: ("v1beta2", "AWSMachineTemplate"),
        workers: Workers::Deployment(("v1beta2", "EKSConfigTemplate"), true),
    },
    Shape {
        name: "aws-eks-pool",
        core: "v1beta1",
        plane: Plane::Managed(("controlplane.cluster.x-k8s.io/v1beta2", "AWSManagedControlPlane")),
        cluster: ("v1beta2", "AWSManagedCluster"),
        hosts: ("v1beta2", "AWSMachineTemplate"),
        workers: Workers::Pool(("v1beta2", "AWSManagedMachinePool")),
    },
    Shape {
        name: "aws-rosa",
        core: "v1beta1",
        plane: Plane::Managed(("controlplane.cluster.x-k8s.io/v1beta2", "ROSAControlPlane")),
        cluster: ("v1beta2", "ROSACluster"),
        hosts: ("v1beta2", "AWSMachineTemplate"),
        workers: Workers::Pool(("v1beta2", "ROSAMachinePool")),
    },
    kubeadm("azure", ("v1beta1", "AzureCluster"), ("v1beta1", "AzureMachineTemplate")),
    Shape {
        name: "azure-aks",
        core: "v1beta1",
        plane: Plane::Managed(("infrastructure.cluster.x-k8s.io/v1beta1", "AzureManagedControlPlane")),
        cluster: ("v1beta1", "AzureManagedCluster"),
        hosts: ("v1beta1", "AzureMachineTemplate"),
        workers: Workers::Pool(("v1beta1", "AzureManagedMachinePool")),
    },
    Shape {
        name: "azure-aks-aso",
        core: "v1beta1",
        plane: Plane::Managed(("infrastructure.cluster.x-k8s.io/v1beta1", "AzureASOManagedControlPlane")),
        cluster: ("v1beta1", "AzureASOManagedCluster"),
        hosts: ("v1beta1", "AzureMachineTemplate"),
        workers: Workers::Pool(("v1beta1", "AzureASOManagedMachinePool")),
    },
    kubeadm("gcp", ("v1beta1", "GCPCluster"), ("v1beta1", "GCPMachineTemplate")),
    Shape {
        name: "gcp-gke",
        core: "v1beta1",
        plane: Plane::Managed(("infrastructure.cluster.x-k8s.io/v1beta1", "GCPManagedControlPlane")),
        cluster: ("v1beta1", "GCPManagedCluster"),
        hosts: ("v1beta1", "GCPMachineTemplate"),
        workers: Workers::Pool(("v1beta1", "GCPManagedMachinePool")),
    },
    kubeadm("openstack", ("v1beta1", "OpenStackCluster"), ("v1beta1", "OpenStackMachineTemplate")),
    kubeadm("digitalocean", ("v1beta1", "DOCluster"), ("v1beta1", "DOMachineTemplate")),
    Shape {
        workers: Workers::Deployment(("v1beta1", "KubeadmConfigTemplate"), false),
        ..kubeadm("ibm-cloud", ("v1beta2", "IBMVPCCluster"), ("v1beta2", "IBMVPCMachineTemplate"))
    },
    Shape {
        name: "kubevirt-talos",
        core: "v1beta1",
        plane: Plane::Own(("v1alpha3", "TalosControlPlane")),
        cluster: ("v1alpha1", "KubevirtCluster"),
        hosts: ("v1alpha1", "KubevirtMachineTemplate"),
        workers: Workers::Deployment(("v1alpha3", "TalosConfigTemplate"), true),
    },
    kubeadm("nutanix", ("v1beta1", "NutanixCluster"), ("v1beta1", "NutanixMachineTemplate")),
    Shape {
        core: "v1beta2",
        ..kubeadm("proxmox", ("v1alpha2", "ProxmoxCluster"), ("v1alpha2", "ProxmoxMachineTemplate"))
    },
    kubeadm("oracle", ("v1beta2", "OCICluster"), ("v1beta2", "OCIMachineTemplate")),
    Shape {
        name: "oracle-oke",
        core: "v1beta1",
        plane: Plane::Managed(("infrastructure.cluster.x-k8s.io/v1beta2", "OCIManagedControlPlane")),
        cluster: ("v1beta2", "OCIManagedCluster"),
        hosts: ("v1beta2", "OCIMachineTemplate"),
        workers: Workers::Pool(("v1beta2", "OCIManagedMachinePool")),
    },
    Shape {
        name: "k3s",
        core: "v1beta1",
        plane: Plane::Own(("v1beta2", "KThreesControlPlane")),
        cluster: ("v1beta1", "DockerCluster"),
        hosts: ("v1beta1", "DockerMachineTemplate"),
        workers: Workers::Deployment(("v1beta2", "KThreesConfigTemplate"), true),
    },
    Shape {
        name: "rke2-class",
        core: "v1beta1",
        plane: Plane::Class(("v1beta1", "RKE2ControlPlaneTemplate")),
        cluster: ("v1beta1", "DockerClusterTemplate"),
        hosts: ("v1beta1", "DockerMachineTemplate"),
        workers: Workers::Class,
    },
    kubeadm("hetzner", ("v1beta1", "HetznerCluster"), ("v1beta1", "HCloudMachineTemplate")),
];

impl Shape {
    /// A reference in the form of the file's version.
    fn reference(&self, api_version: &str, kind: &str, name: &str) -> String {
        let (group, _) = api_version.split_once('/').expect("a group");
        match self.core {
            "v1beta1" => format!("{{apiVersion: {api_version}, kind: {kind}, name: {name}}}"),
            _ => format!("{{apiGroup: {group}, kind: {kind}, name: {name}}}"),
        }
    }

    fn document(&self, text: &mut String, api_version: &str, kind: &str, spec: &str) {
        let meta =
            "metadata: {name: alpha, namespace: default, labels: {cluster.x-k8s.io/cluster-name: alpha}}";
        let _ = writeln!(text, "---\napiVersion: {api_version}\nkind: {kind}\n{meta}\nspec: {spec}");
    }

    fn file(&self) -> String {
        let mut text = String::new();
        let core = format!("cluster.x-k8s.io/{}", self.core);
        let of = |group: &str, version: &str| format!("{group}/{version}");
        let cluster = of(INFRASTRUCTURE, self.cluster.0);
        let hosts = of(INFRASTRUCTURE, self.hosts.0);
        let machines = self.reference(&hosts, self.hosts.1, "alpha");
        let infrastructure = self.reference(&cluster, self.cluster.1, "alpha");
        let named =
            |plane: &str| format!("{{infrastructureRef: {infrastructure}, controlPlaneRef: {plane}}}");
        match self.plane {
            Plane::Kubeadm => {
                let api_version = of(CONTROL_PLANE, self.core);
                let template = match self.core {
                    "v1beta1" => format!("{{infrastructureRef: {machines}}}"),
                    _ => format!("{{spec: {{infrastructureRef: {machines}}}}}"),
                };
                let plane = self.reference(&api_version, "KubeadmControlPlane", "alpha");
                self.document(&mut text, &core, "Cluster", &named(&plane));
                let spec = format!(
                    "{{replicas: 3, version: v1.34.1, kubeadmConfigSpec: {{}}, machineTemplate: {template}}}"
                );
                self.document(&mut text, &api_version, "KubeadmControlPlane", &spec);
            }
            Plane::Own((version, kind)) => {
                let api_version = of(CONTROL_PLANE, version);
                let plane = self.reference(&api_version, kind, "alpha");
                self.document(&mut text, &core, "Cluster", &named(&plane));
                let spec = format!("{{replicas: 1, version: v1.34.1, infrastructureTemplate: {machines}}}");
                self.document(&mut text, &api_version, kind, &spec);
            }
            Plane::Managed((api_version, kind)) => {
                let plane = self.reference(api_version, kind, "alpha");
                self.document(&mut text, &core, "Cluster", &named(&plane));
                self.document(&mut text, api_version, kind, "{version: v1.34.1}");
            }
            Plane::Class((version, kind)) => {
                let api_version = of(CONTROL_PLANE, version);
                let topology = "{topology: {class: alpha, version: v1.34.1, controlPlane: {replicas: 3}, \
                                workers: {machineDeployments: [{class: md, name: md-0, replicas: 2}]}}}";
                self.document(&mut text, &core, "Cluster", topology);
                let plane = self.reference(&api_version, kind, "alpha");
                let class =
                    format!("{{infrastructure: {{ref: {infrastructure}}}, controlPlane: {{ref: {plane}}}}}");
                self.document(&mut text, &core, "ClusterClass", &class);
                self.document(&mut text, &api_version, kind, "{template: {spec: {}}}");
            }
        }
        self.document(&mut text, &cluster, self.cluster.1, "{}");
        self.document(&mut text, &hosts, self.hosts.1, "{template: {spec: {}}}");
        self.workers(&mut text, &core, &machines);
        text
    }

    fn workers(&self, text: &mut String, core: &str, machines: &str) {
        let template = |bootstrap: &str, infrastructure: &str| {
            format!(
                "template: {{metadata: {{labels: {{pool: a}}}}, spec: {{clusterName: alpha, version: v1.34.1, \
                 bootstrap: {bootstrap}, infrastructureRef: {infrastructure}}}}}"
            )
        };
        match self.workers {
            Workers::Class => {}
            Workers::Deployment((version, kind), has_selector) => {
                let version = if kind.starts_with("Kubeadm") { self.core } else { version };
                let api_version = format!("{BOOTSTRAP}/{version}");
                let config = format!("{{configRef: {}}}", self.reference(&api_version, kind, "alpha"));
                let selector = if has_selector { "selector: {matchLabels: {pool: a}}, " } else { "" };
                let spec =
                    format!("{{clusterName: alpha, replicas: 2, {selector}{}}}", template(&config, machines));
                self.document(text, core, "MachineDeployment", &spec);
                self.document(text, &api_version, kind, "{template: {spec: {}}}");
            }
            Workers::Pool((version, kind)) => {
                let api_version = format!("{INFRASTRUCTURE}/{version}");
                let group = self.reference(&api_version, kind, "alpha");
                let spec = format!(
                    "{{clusterName: alpha, replicas: 2, {}}}",
                    template("{dataSecretName: ''}", &group)
                );
                self.document(text, core, "MachinePool", &spec);
                self.document(text, &api_version, kind, "{}");
            }
        }
    }
}

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn command(line: &str) -> Command {
    let words = std::iter::once("capstan").chain(line.split(' '));
    Cli::try_parse_from(words).expect("arguments").command.expect("a command")
}

#[test]
fn files_of_every_projects_shape_are_planned_run_ahead_and_computed() {
    let folder = tempfile::tempdir().expect("a folder");
    for shape in &SHAPES {
        let name = shape.name;
        let path = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, shape.file()).expect("written");
        let path = path.display();
        let Command::Plan(args) = command(&format!("plan -f {path}")) else { panic!("plan") };
        let planned = plan::from_files(&args, None, now(), Style::default());
        let planned = planned.unwrap_or_else(|error| panic!("{name}: {error:#}\n{}", shape.file()));
        let Command::Simulate(args) = command(&format!("simulate -f {path}")) else { panic!("simulate") };
        let ahead = simulate::from_files(&args, None, now(), Style::default());
        let ahead = ahead.unwrap_or_else(|error| panic!("{name}: {error:#}\n{}", shape.file()));
        let Command::Status(args) = command(&format!("status compute -f {path}")) else { panic!("status") };
        let capstan::cli::args::StatusCommand::Compute(args) = args;
        let computed = status_compute::run(&args, now(), Style::default());
        let computed = computed.unwrap_or_else(|error| panic!("{name}: {error:#}\n{}", shape.file()));
        println!(
            "== {name}\n{}\n{:?}\n{}\n{:?}",
            planned.document, planned.remarks, ahead.document, ahead.remarks
        );
        for (what, remarks) in
            [("plan", &planned.remarks), ("simulate", &ahead.remarks), ("status", &computed.remarks)]
        {
            // A class is not looked at: nothing here computes topologies.
            let beside =
                remarks.iter().filter(|remark| !remark.contains("ClusterClass default/alpha is left out"));
            for remark in beside {
                for word in ["left out", "not valid", "cannot be read", "expected"] {
                    assert!(!remark.contains(word), "{name} {what}: {remarks:?}");
                }
            }
            let is_converted = remarks.iter().any(|remark| remark.contains("of v1beta1 read as v1beta2"));
            assert_eq!(is_converted, shape.core == "v1beta1", "{name} {what}: {remarks:?}");
        }
        let said = |word: &str| planned.remarks.iter().any(|remark| remark.contains(word));
        match shape.plane {
            Plane::Kubeadm => {
                assert!(planned.document.contains("KubeadmControlPlane"), "{name}: {}", planned.document);
            }
            Plane::Own((_, kind)) | Plane::Managed((_, kind)) => {
                assert!(said(&format!("{kind} object is not planned")), "{name}: {:?}", planned.remarks);
            }
            Plane::Class(_) => assert!(said("is not computed here"), "{name}: {:?}", planned.remarks),
        }
        match shape.workers {
            Workers::Deployment(..) => {
                assert!(planned.document.contains("MachineDeployment"), "{name}: {}", planned.document);
            }
            Workers::Pool(_) => assert!(said("MachinePool"), "{name}: {:?}", planned.remarks),
            Workers::Class => {}
        }
        assert!(computed.document.contains("kind: Cluster"), "{name}: {}", computed.document);
    }
}
