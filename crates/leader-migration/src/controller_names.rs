//! The controllers that can move between controller managers, and what each is called in which release. Owns the
//! table; must not know processes.
//!
//! Release 1.28 renamed them. The old names stayed as aliases of `--controllers` alone: a migration file names
//! controllers exactly, and the built-in file of 1.28 and later has two names that match nothing.
//! Source: `cmd/kube-controller-manager/names/controller_names.go`, `k8s.io/cloud-provider`
//! `names/controller_names.go`.

use super::release::Release;

/// The first release with canonical names.
pub const RENAMED_IN: Release = Release(28);

/// The first release whose kube-controller-manager has no cloud provider in it.
pub const WITHOUT_CLOUD_PROVIDER: Release = Release(31);

/// What a controller does, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Function {
    /// Routes between Nodes in the cloud's network.
    Routes,
    /// Load balancers of Services.
    LoadBalancers,
    /// Nodes whose machine is gone or shut down in the cloud.
    NodeLifecycle,
    /// Addresses, zone and type of a new Node; takes its taint away.
    NodeInitialization,
    /// Ranges of pod addresses for Nodes. Not of a cloud, but a cloud's manager may have one of its own.
    NodeIpam,
}

struct Names {
    function: Function,
    title: &'static str,
    /// Up to 1.27, and the alias of `--controllers` since.
    old: &'static str,
    canonical: &'static str,
    /// In the built-in file since 1.28.
    built_in: Option<&'static str>,
}

const NAMES: [Names; 5] = [
    Names {
        function: Function::Routes,
        title: "routes",
        old: "route",
        canonical: "node-route-controller",
        built_in: Some("route-controller"),
    },
    Names {
        function: Function::LoadBalancers,
        title: "load balancers",
        old: "service",
        canonical: "service-lb-controller",
        built_in: Some("service-controller"),
    },
    Names {
        function: Function::NodeLifecycle,
        title: "node lifecycle",
        old: "cloud-node-lifecycle",
        canonical: "cloud-node-lifecycle-controller",
        built_in: Some("cloud-node-lifecycle-controller"),
    },
    Names {
        function: Function::NodeInitialization,
        title: "node initialisation",
        old: "cloud-node",
        canonical: "cloud-node-controller",
        built_in: None,
    },
    Names {
        function: Function::NodeIpam,
        title: "node IPAM",
        old: "nodeipam",
        canonical: "node-ipam-controller",
        built_in: None,
    },
];

impl Function {
    /// In the order in which people are shown them.
    pub const ALL: [Self; 5] =
        [Self::Routes, Self::LoadBalancers, Self::NodeLifecycle, Self::NodeInitialization, Self::NodeIpam];

    fn names(self) -> &'static Names {
        // The table is in the order of the variants; a test holds it.
        &NAMES[self as usize]
    }

    /// For people.
    pub fn title(self) -> &'static str {
        self.names().title
    }

    /// What the controller is called in a process of `release`.
    pub fn name_in(self, release: Release) -> &'static str {
        if release < RENAMED_IN { self.names().old } else { self.names().canonical }
    }

    /// The other word that `--controllers` understands since 1.28.
    pub fn alias(self) -> &'static str {
        self.names().old
    }

    /// Does it need a cloud provider, which kube-controller-manager has no more since 1.31?
    pub fn is_cloud(self) -> bool {
        self != Self::NodeIpam
    }
}

/// What the built-in file of `release` calls it.
pub fn in_built_in_file(function: Function, release: Release) -> &'static str {
    let names = function.names();
    if release < RENAMED_IN { names.old } else { names.built_in.unwrap_or(names.canonical) }
}

/// What a name in a file means to a process of `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// This is its name.
    Matches(Function),
    /// It was meant, and is called otherwise: the name matches nothing.
    Meant(Function),
    /// None of the controllers in the table; a provider may have its own.
    NotKnown,
}

/// Reads a name of a file as a process of `release` does.
pub fn naming(name: &str, release: Release) -> Naming {
    // Upstream's filter looks the name up as it stands, without the aliases of `--controllers`.
    if let Some(function) = Function::ALL.into_iter().find(|f| f.name_in(release) == name) {
        return Naming::Matches(function);
    }
    let meant = NAMES.iter().find(|n| n.old == name || n.canonical == name || n.built_in == Some(name));
    meant.map_or(Naming::NotKnown, |names| Naming::Meant(names.function))
}

/// As people type it on the command line: `routes`, an old name or a canonical one.
pub fn function_named(text: &str) -> Option<Function> {
    let is_it = |n: &&Names| n.title == text || n.old == text || n.canonical == text;
    NAMES.iter().find(is_it).map(|names| names.function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_variants() {
        for function in Function::ALL {
            assert_eq!(function.names().function, function);
        }
    }

    #[test]
    fn a_name_counts_only_in_its_own_releases() {
        for (name, release, expected) in [
            ("route", 27, Naming::Matches(Function::Routes)),
            ("route", 28, Naming::Meant(Function::Routes)),
            ("route-controller", 28, Naming::Meant(Function::Routes)),
            ("node-route-controller", 28, Naming::Matches(Function::Routes)),
            ("node-route-controller", 27, Naming::Meant(Function::Routes)),
            ("service-controller", 30, Naming::Meant(Function::LoadBalancers)),
            ("cloud-node-lifecycle-controller", 30, Naming::Matches(Function::NodeLifecycle)),
            ("nodeipam", 27, Naming::Matches(Function::NodeIpam)),
            ("aws-tagging", 30, Naming::NotKnown),
        ] {
            assert_eq!(naming(name, Release(release)), expected, "{name} in 1.{release}");
        }
    }
}
