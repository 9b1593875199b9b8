//! What a list over the fleet may be of: the kinds that are kept as rows, as people name them. Owns these names; must not
//! know how a list is drawn, nor what it is narrowed to.

use super::row::{Kind, Row};

/// The objects of one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    #[default]
    Clusters,
    ControlPlanes,
    MachineDeployments,
    MachineSets,
    MachinePools,
    Machines,
    MachineHealthChecks,
}

impl Listed {
    pub const ALL: [Self; 7] = [
        Self::Clusters,
        Self::ControlPlanes,
        Self::MachineDeployments,
        Self::MachineSets,
        Self::MachinePools,
        Self::Machines,
        Self::MachineHealthChecks,
    ];

    /// The list that a row stands on.
    pub fn of(row: &Row) -> Option<Self> {
        Self::ALL.into_iter().find(|listed| listed.has(row))
    }

    /// What its rows are to the model.
    pub fn kind(self) -> Kind {
        match self {
            Self::Clusters => Kind::Cluster,
            Self::ControlPlanes => Kind::ControlPlane,
            Self::MachineDeployments => Kind::MachineDeployment,
            Self::MachineSets => Kind::MachineSet,
            Self::MachinePools => Kind::MachinePool,
            Self::Machines => Kind::Machine,
            Self::MachineHealthChecks => Kind::Other,
        }
    }

    pub fn has(self, row: &Row) -> bool {
        row.kind == self.kind() && (row.kind != Kind::Other || row.health_check().is_some())
    }

    /// The command that opens the list; other names for it are in [`Self::aliases`].
    pub const fn command(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::ControlPlanes => "controlplanes",
            Self::MachineDeployments => "machinedeployments",
            Self::MachineSets => "machinesets",
            Self::MachinePools => "machinepools",
            Self::Machines => "machines",
            Self::MachineHealthChecks => "machinehealthchecks",
        }
    }

    /// As in kubectl and k9s.
    pub const fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Clusters => &["cluster", "cl", "fleet", "home"],
            Self::ControlPlanes => {
                &["controlplane", "kubeadmcontrolplanes", "kubeadmcontrolplane", "kcp", "cp"]
            }
            Self::MachineDeployments => &["machinedeployment", "md"],
            Self::MachineSets => &["machineset", "ms"],
            Self::MachinePools => &["machinepool", "mp", "pools", "pool"],
            Self::Machines => &["machine", "ma"],
            Self::MachineHealthChecks => &["machinehealthcheck", "mhc"],
        }
    }

    /// The list that a word stands for; capitals do not matter.
    pub fn named(word: &str) -> Option<Self> {
        let is_it = |name: &str| name.eq_ignore_ascii_case(word);
        Self::ALL
            .into_iter()
            .find(|listed| is_it(listed.command()) || listed.aliases().iter().any(|alias| is_it(alias)))
    }

    /// As the list is called.
    pub fn word(self) -> &'static str {
        match self {
            Self::Clusters => "clusters",
            Self::ControlPlanes => "control planes",
            Self::MachineDeployments => "machine deployments",
            Self::MachineSets => "machine sets",
            Self::MachinePools => "machine pools",
            Self::Machines => "machines",
            Self::MachineHealthChecks => "machine health checks",
        }
    }

    /// One of them.
    pub fn singular(self) -> &'static str {
        // All of them are regular.
        self.word().trim_end_matches('s')
    }
}
