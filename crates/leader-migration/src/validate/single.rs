//! What is wrong with one process, whatever the others do.

use std::time::Duration;

use crate::actors::Behaviour;
use crate::configuration::{ANY, Configuration};
use crate::controller_names::{Function, Naming, WITHOUT_CLOUD_PROVIDER, naming};
use crate::flags::{CONFIG, ENABLE, ElectionTimes};
use crate::known_flags::FlagFault;
use crate::manager_kind::ManagerKind;
use crate::process::{ConfigFile, Process};
use crate::rules::{Finding, FindingSeverity};
use k8s_machinery::validation::naming::dns_subdomain;

pub(super) fn findings(process: &Process) -> Vec<Finding> {
    let mut found = Findings { process, list: Vec::new() };
    if let Some(trouble) = &process.trouble {
        found.add("not-running", trouble.clone());
    }
    found.words();
    found.flags();
    found.times();
    found.cloud_provider();
    found.file();
    if process.migrates() {
        found.mount();
        found.election();
        if let Some(configuration) = process.configuration() {
            found.leader_name(&configuration);
            found.entries(&configuration);
            found.capability(&configuration);
        }
    }
    found.list
}

/// Does the process end at its start?
pub(super) fn ends(process: &Process) -> bool {
    // Without migration the file is not opened: its content ends nothing.
    let file_ends = process.migrates()
        && match &process.file {
            ConfigFile::Read { reading, .. } => reading.ends(process.release),
            ConfigFile::BuiltIn | ConfigFile::NotKnown { .. } => false,
        };
    file_ends
        || process.flag_faults().iter().any(|fault| fault.is_certain)
        || process.migrates() && !is_mounted(process)
        || process.flags.leader_elect && !are_possible(&process.flags.times)
        || has_missing_provider(process)
}

/// client-go's own conditions; the Lease keeps whole seconds.
fn are_possible(times: &ElectionTimes) -> bool {
    // A shorter one is 0 in the Lease, which the API refuses.
    times.lease_duration >= Duration::from_secs(1)
        && times.lease_duration > times.renew_deadline
        // 1.2 is the factor by which client-go draws out the waits between its tries.
        && times.renew_deadline > times.retry_period.mul_f64(1.2)
        && times.retry_period > Duration::ZERO
}

fn is_mounted(process: &Process) -> bool {
    let path = &process.flags.migration_config;
    // Of a process without a manifest the mounts are not known: nothing is said against it.
    let Some(mounts) = process.mounts.as_ref().filter(|_| !path.is_empty()) else { return true };
    let holds = |mount: &String| {
        path.strip_prefix(mount.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    mounts.iter().any(holds)
}

fn has_missing_provider(process: &Process) -> bool {
    process.manager == ManagerKind::KubeControllerManager
        && process.release >= WITHOUT_CLOUD_PROVIDER
        && !matches!(process.flags.cloud_provider.as_str(), "" | "external")
}

struct Findings<'a> {
    process: &'a Process,
    list: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, code: &'static str, problem: String) {
        self.list.push(Finding::new(code, vec![self.process.name.clone()], problem));
    }

    fn add_as(&mut self, severity: FindingSeverity, code: &'static str, problem: String) {
        let subjects = vec![self.process.name.clone()];
        self.list.push(Finding { severity, ..Finding::new(code, subjects, problem) });
    }

    /// Flags that the program does not have, and those that are not seen.
    fn words(&mut self) {
        for FlagFault { is_certain, problem } in self.process.flag_faults() {
            let seen = if self.process.is_ready { ", and it runs" } else { "" };
            match is_certain {
                true => self.add("flag", problem),
                false => self.add("build-flag", format!("{problem}{seen}")),
            }
        }
        if self.process.is_in_shell {
            self.add("shell", "its flags stand in a line of a shell".to_owned());
        }
    }

    fn flags(&mut self) {
        let flags = &self.process.flags;
        if !flags.migration_config.is_empty() && !flags.enable_migration {
            self.add("F6", format!("--{CONFIG} is set and --{ENABLE} is not"));
        }
        if !flags.leader_elect {
            self.add("F7", "--leader-elect=false".to_owned());
        }
        // Both locks are made of this kind, and others are gone from client-go.
        if flags.enable_migration && flags.leader_elect && flags.resource_lock != "leases" {
            self.add("F11", format!("--leader-elect-resource-lock={}", flags.resource_lock));
        }
        if self.process.is_release_assumed && self.process.manager == ManagerKind::CloudControllerManager {
            self.add("release", format!("taken for a library of {}", self.process.release));
        }
    }

    fn times(&mut self) {
        let times = self.process.flags.times;
        let shown = format!(
            "lease duration {} s, renew deadline {} s, retry period {} s",
            times.lease_duration.as_secs_f64(),
            times.renew_deadline.as_secs_f64(),
            times.retry_period.as_secs_f64()
        );
        if !are_possible(&times) {
            self.add("timing", shown);
        // The holder waits one retry period and then tries for the whole deadline: so long it may
        // act after its last renewal.
        } else if times.lease_duration < times.renew_deadline + times.retry_period {
            self.add("margin", shown);
        }
    }

    fn cloud_provider(&mut self) {
        if has_missing_provider(self.process) {
            let problem =
                format!("--cloud-provider={} in {}", self.process.flags.cloud_provider, self.process.release);
            self.add("cloud-provider", problem);
        }
    }

    fn file(&mut self) {
        match &self.process.file {
            ConfigFile::BuiltIn => {}
            ConfigFile::NotKnown { path } => {
                if self.process.migrates() {
                    self.add("not-known", format!("--{CONFIG}={path}"));
                }
            }
            ConfigFile::Read { name, reading } => {
                for defect in &reading.defects {
                    let problem = format!("{name}:{}: {}", defect.line, defect.problem);
                    let severity = if defect.fatal.ends(self.process.release) {
                        FindingSeverity::Error
                    } else {
                        FindingSeverity::Warning
                    };
                    self.add_as(severity, defect.code, problem);
                }
                if let Some(version) = reading.version.filter(|v| v.since() > self.process.release) {
                    let problem =
                        format!("{name} is {}, which {} does not read", version.name(), self.process.release);
                    self.add("version", problem);
                }
            }
        }
    }

    fn mount(&mut self) {
        if !is_mounted(self.process) {
            let problem =
                format!("{} is below no mount of the container", self.process.flags.migration_config);
            self.add("F17", problem);
        }
    }

    fn election(&mut self) {
        if self.process.is_coordinated() {
            self.add("F14", "--feature-gates=CoordinatedLeaderElection=true".to_owned());
        }
        if !self.process.signals_readiness() {
            let problem = format!("--controllers={}", self.process.flags.controllers.join(","));
            self.add("F15", problem);
        }
    }

    fn leader_name(&mut self, configuration: &Configuration) {
        let name = &configuration.leader_name;
        // By the usual names too: the other program may have kept its default, whatever this one
        // has.
        if ManagerKind::ALL.iter().any(|kind| kind.name() == name)
            || *name == self.process.flags.resource_name
        {
            self.add("F18", format!("leaderName is {name}"));
        } else if !name.is_empty() && !dns_subdomain(name).is_empty() {
            self.add("lease-name", format!("leaderName is {name:?}"));
        }
    }

    fn entries(&mut self, configuration: &Configuration) {
        for entry in &configuration.controller_leaders {
            let (name, release) = (&entry.name, self.process.release);
            match naming(name, release) {
                Naming::Matches(_) => {}
                Naming::Meant(function) => {
                    let problem = format!(
                        "{name} in {release}: {} is called {}",
                        function.title(),
                        function.name_in(release)
                    );
                    self.add("F4", problem);
                }
                Naming::NotKnown => self.add("provider-name", name.clone()),
            }
            let components = [ANY, ManagerKind::ALL[0].name(), ManagerKind::ALL[1].name()];
            if !components.contains(&entry.component.as_str()) && !entry.component.is_empty() {
                self.add("component", format!("{name} has component {:?}", entry.component));
            }
        }
    }

    /// Does the lock give it something to run, and can it run what the lock gives it?
    fn capability(&mut self, configuration: &Configuration) {
        let process = self.process;
        // As if it competed: what the lock would give it is asked, not whether it gets it.
        let behaviour = Behaviour::of(process, true);
        for function in Function::ALL {
            let name = function.name_in(process.release);
            let owner = configuration.component_of(name);
            // "*" may mean the other one.
            if owner == Some(process.manager.name()) && !process.has(function) {
                self.add(
                    "F2",
                    format!("{name} is listed for {}, which does not run it here", process.manager),
                );
            }
        }
        // From 1.31 on the names are still there, and nothing starts under them.
        let is_late_source = process.manager == ManagerKind::KubeControllerManager
            && process.release >= WITHOUT_CLOUD_PROVIDER;
        if is_late_source && configuration.controller_leaders.iter().any(|e| is_cloud(&e.name, process)) {
            self.add("F16", format!("{} has no cloud provider", process.release));
        }
        // Such a process would win the lock, run nothing, and keep others from it.
        if !behaviour.has_migrated() && !process.is_in_shell {
            let none = "of the listed controllers it runs none";
            self.add(
                "F10",
                match process.names_no_provider() {
                    true => format!("{none}: --cloud-provider is missing"),
                    false => none.to_owned(),
                },
            );
        }
    }
}

fn is_cloud(name: &str, process: &Process) -> bool {
    match naming(name, process.release) {
        Naming::Matches(function) | Naming::Meant(function) => function.is_cloud(),
        Naming::NotKnown => false,
    }
}
