//! The checks before a MachineSet makes a Machine, by name. Owns the names, their order and who can end a failure; must not
//! know how a check is made.
//! Source: cluster-api `api/core/v1beta2/machineset_types.go` (`MachineSetPreflightCheck`), v1.14.2.

use std::fmt;

/// In the annotation that skips checks: every one.
pub const ALL_CHECKS: &str = "All";

macro_rules! checks {
    ($($(#[doc = $doc:literal])+ $check:ident,)+) => {
        /// One check. Its name is the one that the annotation and messages have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PreflightCheck {
            $($(#[doc = $doc])+ $check,)+
        }

        impl PreflightCheck {
            /// In the order in which messages name them.
            pub const ALL: &'static [Self] = &[$(Self::$check),+];

            /// As the annotation that skips it and messages write it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$check => stringify!($check),)+
                }
            }
        }
    };
}

checks! {
    /// The control plane is neither being made nor upgraded.
    ControlPlaneIsStable,
    /// The versions of Machines and control plane may run side by side.
    KubernetesVersionSkew,
    /// The kubeadm of the Machines may join this control plane.
    KubeadmVersionSkew,
    /// With a topology: the Machines have the control plane's version already.
    ControlPlaneVersionSkew,
}

impl PreflightCheck {
    /// The checks whose names stand in quotes in a message.
    pub fn named_in(message: &str) -> impl Iterator<Item = Self> {
        // Whole words in quotes: one name may be a part of another.
        let is_named = |check: &Self| message.split('"').any(|part| part == check.name());
        Self::ALL.iter().copied().filter(is_named)
    }

    /// Does only another version end its failure, which a person sets? Others end when the control plane is through.
    pub const fn needs_another_version(self) -> bool {
        match self {
            Self::KubernetesVersionSkew | Self::KubeadmVersionSkew => true,
            Self::ControlPlaneIsStable | Self::ControlPlaneVersionSkew => false,
        }
    }
}

impl fmt::Display for PreflightCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_found_by_its_name_in_quotes() {
        let named = |message: &str| PreflightCheck::named_in(message).collect::<Vec<_>>();
        let two = "* x (\"KubeadmVersionSkew\" preflight check failed)\n* y (\"ControlPlaneIsStable\" preflight check failed)";
        assert_eq!(named(two), [PreflightCheck::ControlPlaneIsStable, PreflightCheck::KubeadmVersionSkew]);
        assert_eq!(named("KubeadmVersionSkew of \"TheKubeadmVersionSkew\""), []);
    }
}
