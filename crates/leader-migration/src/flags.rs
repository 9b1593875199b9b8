//! The flags of a controller manager that matter to leader migration. Owns their defaults and what their values may be;
//! must not know what they lead to.
//!
//! Source: `k8s.io/component-base` `config/options/leaderelectionconfig.go`, `k8s.io/controller-manager`
//! `pkg/leadermigration/options/options.go` and `options/generic.go`; `github.com/spf13/pflag` `string_slice.go`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::command_line::{CommandLine, GivenFlag};
pub use super::known_flags::{CONFIG, ENABLE};
use super::manager_kind::ManagerKind;
use capstan_base::go_duration::GoDuration;

/// A flag whose value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--{name}={value}: expected {expected}")]
pub struct FlagError {
    /// Of the flag, without dashes.
    pub name: String,
    value: String,
    expected: &'static str,
}

/// The `--leader-elect-…` durations of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElectionTimes {
    /// Others may take over when the record did not change for this long.
    pub lease_duration: Duration,
    /// The holder gives up when it could not renew for this long.
    pub renew_deadline: Duration,
    /// How long the holder and the waiting wait between two tries.
    pub retry_period: Duration,
}

impl Default for ElectionTimes {
    fn default() -> Self {
        let s = Duration::from_secs;
        // Both programs have the defaults of component-base.
        Self { lease_duration: s(15), renew_deadline: s(10), retry_period: s(2) }
    }
}

/// What a controller manager was told, with its defaults for what it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// `--enable-leader-migration`.
    pub enable_migration: bool,
    /// Path of the migration file; empty: the built-in configuration.
    pub migration_config: String,
    /// False: it acts without a lock, beside whoever else does.
    pub leader_elect: bool,
    /// `--leader-elect-lease-duration`, `-renew-deadline`, `-retry-period`.
    pub times: ElectionTimes,
    /// `leases` works; others end the process.
    pub resource_lock: String,
    /// Name of the main Lease.
    pub resource_name: String,
    /// Namespace of both Leases.
    pub resource_namespace: String,
    /// Words of `--controllers`: a name, `-NAME`, or `*`.
    pub controllers: Vec<String>,
    /// `external`, a provider that is compiled in, or empty.
    pub cloud_provider: String,
    /// `--allocate-node-cidrs`: without it, [`Function::NodeIpam`](crate::controller_names::Function::NodeIpam) does nothing.
    pub allocate_node_cidrs: bool,
    /// As given: one range, or two with a comma between them.
    pub cluster_cidr: String,
    /// As given, a number of bits; empty: the default of the address family.
    pub node_cidr_mask_size: String,
    /// `RangeAllocator`, or the cloud's.
    pub cidr_allocator_type: String,
    /// Those that were given, not the defaults of a release.
    pub feature_gates: BTreeMap<String, bool>,
    /// Every name that was given, known or not, in its order.
    pub given: Vec<String>,
    /// Why the program exits whatever its release, in sentences: a value that is missing, a word that is not a flag.
    pub defects: Vec<String>,
}

impl Flags {
    /// What a process does without any flag.
    pub fn defaults(manager: ManagerKind) -> Self {
        Self {
            enable_migration: false,
            migration_config: String::new(),
            leader_elect: true,
            times: ElectionTimes::default(),
            resource_lock: "leases".to_owned(),
            resource_name: manager.name().to_owned(),
            resource_namespace: "kube-system".to_owned(),
            controllers: vec!["*".to_owned()],
            cloud_provider: String::new(),
            allocate_node_cidrs: false,
            cluster_cidr: String::new(),
            node_cidr_mask_size: String::new(),
            cidr_allocator_type: "RangeAllocator".to_owned(),
            feature_gates: BTreeMap::new(),
            given: Vec::new(),
            defects: Vec::new(),
        }
    }

    /// Reads arguments, the program's own name among them or not. Of a flag given twice the last one counts; the values
    /// of `--controllers` and `--feature-gates`, which are lists, add up.
    ///
    /// # Errors
    /// The first flag with a value of the wrong form.
    pub fn parse(manager: ManagerKind, args: &[String]) -> Result<Self, FlagError> {
        let mut flags = Self::defaults(manager);
        let CommandLine { given, strays } = CommandLine::read(manager, args);
        flags.defects = strays
            .iter()
            .map(|word| format!("{word:?} is not a flag, and the program takes nothing else"))
            .collect();
        for GivenFlag { name, value, .. } in given {
            match value {
                Some(value) => flags.set(&name, &value)?,
                None => flags.defects.push(format!("--{name} needs a value")),
            }
            flags.given.push(name);
        }
        Ok(flags)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), FlagError> {
        match name {
            ENABLE => self.enable_migration = boolean(name, value)?,
            CONFIG => value.clone_into(&mut self.migration_config),
            "leader-elect" => self.leader_elect = boolean(name, value)?,
            "leader-elect-lease-duration" => self.times.lease_duration = duration(name, value)?,
            "leader-elect-renew-deadline" => self.times.renew_deadline = duration(name, value)?,
            "leader-elect-retry-period" => self.times.retry_period = duration(name, value)?,
            "leader-elect-resource-lock" => value.clone_into(&mut self.resource_lock),
            "leader-elect-resource-name" => value.clone_into(&mut self.resource_name),
            "leader-elect-resource-namespace" => value.clone_into(&mut self.resource_namespace),
            "controllers" => self.add_controllers(value),
            "cloud-provider" => value.clone_into(&mut self.cloud_provider),
            "allocate-node-cidrs" => self.allocate_node_cidrs = boolean(name, value)?,
            "cluster-cidr" => value.clone_into(&mut self.cluster_cidr),
            "node-cidr-mask-size" => value.clone_into(&mut self.node_cidr_mask_size),
            "cidr-allocator-type" => value.clone_into(&mut self.cidr_allocator_type),
            // Gates of a repeated flag add up, and of one gate the last value counts.
            "feature-gates" => self.feature_gates.extend(gates(name, value)?),
            // Names of all flags are judged by `known_flags`; values of others do not matter here.
            _ => {}
        }
        Ok(())
    }

    /// The first value replaces the default, each later one is added.
    fn add_controllers(&mut self, value: &str) {
        if !self.given.iter().any(|given| given == "controllers") {
            self.controllers.clear();
        }
        self.controllers.extend(value.split(',').map(|word| word.trim().to_owned()));
    }

    /// Is `--controllers` for a controller of this name or alias? An explicit word counts before `*`.
    /// Source: `k8s.io/controller-manager` `app/helper.go`, `IsControllerEnabled`.
    pub fn enables(&self, names: [&str; 2]) -> bool {
        let is = |word: &str| names.contains(&word);
        let explicit = self.controllers.iter().find_map(|word| match word.strip_prefix('-') {
            Some(off) if is(off) => Some(false),
            None if is(word) => Some(true),
            _ => None,
        });
        explicit.unwrap_or_else(|| self.controllers.iter().any(|word| word == "*"))
    }

    /// Is the gate given and true? Its default in the release is not asked.
    pub fn gate(&self, name: &str) -> bool {
        self.feature_gates.get(name).copied().unwrap_or(false)
    }
}

fn wrong(name: &str, value: &str, expected: &'static str) -> FlagError {
    FlagError { name: name.to_owned(), value: value.to_owned(), expected }
}

fn boolean(name: &str, value: &str) -> Result<bool, FlagError> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(wrong(name, value, "true or false")),
    }
}

fn duration(name: &str, value: &str) -> Result<Duration, FlagError> {
    let duration = GoDuration::parse(value).and_then(GoDuration::to_std);
    duration.ok_or_else(|| wrong(name, value, "a duration such as 15s"))
}

fn gates(name: &str, value: &str) -> Result<BTreeMap<String, bool>, FlagError> {
    let read = |gate: &str| {
        let (gate, on) = gate.split_once('=').ok_or_else(|| wrong(name, value, "Gate=true,Other=false"))?;
        // Since 1.32 a gate may be named with the component that has it.
        let gate = gate.trim().trim_start_matches("kube:");
        Ok((gate.to_owned(), boolean(name, on.trim())?))
    };
    value.split(',').filter(|gate| !gate.trim().is_empty()).map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Flags, FlagError> {
        let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Flags::parse(ManagerKind::KubeControllerManager, &args)
    }

    #[test]
    fn flags_in_every_form_that_go_takes() {
        let flags = parse(
            "kube-controller-manager --enable-leader-migration --leader-migration-config /etc/m.yaml \
             --leader-elect-lease-duration=1m0s --leader-elect=false --leader-elect=true --cloud-provider=aws \
             --feature-gates=A=true,B=false --feature-gates=kube:B=true --controllers=*,-nodeipam",
        )
        .expect("flags");
        assert!(flags.enable_migration && flags.leader_elect && flags.gate("A") && flags.gate("B"));
        assert_eq!(flags.migration_config, "/etc/m.yaml");
        assert_eq!(flags.times.lease_duration, Duration::from_secs(60));
        assert_eq!(
            (flags.resource_name.as_str(), flags.resource_namespace.as_str()),
            ("kube-controller-manager", "kube-system")
        );
        assert!(!flags.enables(["node-ipam-controller", "nodeipam"]));
        assert!(flags.enables(["node-route-controller", "route"]));
    }

    #[test]
    fn lists_of_repeated_flags_add_up() {
        for (text, controllers, runs_route, gates) in [
            ("", "*", true, ""),
            ("--controllers=a,-b", "a,-b", false, ""),
            ("--controllers=-route --v=2 --controllers=*,a", "-route,*,a", false, ""),
            // The first word about a controller counts, whichever value it is from.
            ("--controllers=route --controllers=-route", "route,-route", true, ""),
            ("--feature-gates=A=true --feature-gates=B=true,A=false", "*", true, "A=false,B=true"),
        ] {
            let flags = parse(text).expect(text);
            let gate = |(name, on): (&String, &bool)| format!("{name}={on}");
            let found: Vec<String> = flags.feature_gates.iter().map(gate).collect();
            assert_eq!((flags.controllers.join(","), found.join(",")), (controllers.into(), gates.into()));
            assert_eq!(flags.enables(["node-route-controller", "route"]), runs_route, "{text}");
        }
    }

    #[test]
    fn what_the_program_exits_over_whatever_its_release() {
        for (text, defects) in [
            ("--leader-elect=true", vec![]),
            ("--leader-migration-config", vec!["--leader-migration-config needs a value"]),
            ("--leader-elect true", vec!["\"true\" is not a flag, and the program takes nothing else"]),
            ("kube-controller-manager -x", vec!["\"-x\" is not a flag, and the program takes nothing else"]),
        ] {
            assert_eq!(parse(text).expect(text).defects, defects, "{text}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_form_is_named() {
        for (text, message) in [
            ("--leader-elect=maybe", "--leader-elect=maybe: expected true or false"),
            (
                "--leader-elect-retry-period=2",
                "--leader-elect-retry-period=2: expected a duration such as 15s",
            ),
            ("--feature-gates=Odd", "--feature-gates=Odd: expected Gate=true,Other=false"),
        ] {
            assert_eq!(parse(text).expect_err(text).to_string(), message);
        }
    }
}
