//! What the kubelet refuses of its configuration although each value has its type. Owns the rules over several fields; must not know a
//! change.
//!
//! Source: kubernetes 1.36.3 `pkg/kubelet/apis/config/validation/validation.go`, `validation_linux.go`,
//! `validation_reserved_memory.go`; `pkg/kubelet/eviction/helpers.go` (`ParseThresholdConfig`).

use crate::difference::text_of;
use std::collections::BTreeSet;

use serde_json::Value;

use super::super::accepted::gate_is_on;
use super::super::units::quantity_milli;
use super::limits::amount;

/// Fields and messages.
type Found = Vec<(String, String)>;

const ENFORCEMENTS: [&str; 6] = [
    "none",
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
];
const SIGNALS: [&str; 9] = [
    "memory.available",
    "allocatableMemory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "containerfs.available",
    "containerfs.inodesFree",
    "pid.available",
];
/// What a node can keep for itself.
const RESERVABLE: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pid"];
/// How many ids the kernel gives to a namespace of users at least.
const USER_IDS_UNIT: u64 = 65_536;
const HIGH_PERCENT: f64 = 85.0;
const LOW_PERCENT: f64 = 80.0;
const IMAGE_MINIMUM_AGE_NS: f64 = 120e9;
/// Minor releases.
const RUN_ONCE_GONE: u64 = 32;
const QUOTA_PERIOD_NS: f64 = 100e6;

struct Kubelet<'d> {
    document: &'d Value,
    minor: u64,
    found: Found,
}

/// Everything that a kubelet of this minor release would end with; of an unknown release, the newest.
pub(super) fn refused(document: &Value, minor: Option<u64>) -> Found {
    let mut kubelet = Kubelet { document, minor: minor.unwrap_or(u64::MAX), found: Vec::new() };
    kubelet.images();
    kubelet.shutdown();
    kubelet.enforcements();
    kubelet.cgroups();
    kubelet.gated();
    kubelet.evictions();
    kubelet.reservations();
    kubelet.users();
    kubelet.logs();
    kubelet.found
}

impl Kubelet<'_> {
    fn at(&self, path: &str) -> &Value {
        path.split('.').fold(self.document, |value, name| &value[name])
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).as_str().unwrap_or_default()
    }

    fn number(&self, path: &str, default: f64) -> f64 {
        amount(self.at(path)).unwrap_or(default)
    }

    fn is_true(&self, path: &str, default: bool) -> bool {
        self.at(path).as_bool().unwrap_or(default)
    }

    fn gate(&self, name: &str) -> bool {
        gate_is_on(self.minor, name, &self.document["featureGates"])
    }

    fn refuse(&mut self, path: &str, message: &str) {
        self.found.push((path.to_owned(), message.to_owned()));
    }

    fn refuse_if(&mut self, wrong: bool, path: &str, message: &str) {
        if wrong {
            self.refuse(path, message);
        }
    }

    fn images(&mut self) {
        let high = self.number("imageGCHighThresholdPercent", HIGH_PERCENT);
        let low = self.number("imageGCLowThresholdPercent", LOW_PERCENT);
        let message = format!("has to be below imageGCHighThresholdPercent: {low} is not below {high}");
        self.refuse_if(low >= high, "imageGCLowThresholdPercent", &message);
        // Zero gets the default, in the kubelet as here.
        let least = Some(self.number("imageMinimumGCAge", 0.0)).filter(|age| *age != 0.0);
        let most = self.number("imageMaximumGCAge", 0.0);
        let is_short = most > 0.0 && most <= least.unwrap_or(IMAGE_MINIMUM_AGE_NS);
        self.refuse_if(
            is_short,
            "imageMaximumGCAge",
            "has to be longer than imageMinimumGCAge (2m by default)",
        );
        let parallel = self.number("maxParallelImagePulls", 1.0);
        // The default of serializeImagePulls follows from maxParallelImagePulls.
        let is_serial = self.is_true("serializeImagePulls", parallel < 2.0);
        let message = "can be more than 1 only with serializeImagePulls: false";
        self.refuse_if(is_serial && parallel > 1.0, "maxParallelImagePulls", message);
    }

    fn shutdown(&mut self) {
        let all = self.number("shutdownGracePeriod", 0.0);
        let critical = self.number("shutdownGracePeriodCriticalPods", 0.0);
        let message = "must not be longer than shutdownGracePeriod, which it is a part of";
        self.refuse_if(critical > all, "shutdownGracePeriodCriticalPods", message);
        let by_priority =
            self.at("shutdownGracePeriodByPodPriority").as_array().is_some_and(|list| !list.is_empty());
        let message = "excludes shutdownGracePeriod and shutdownGracePeriodCriticalPods";
        let both = by_priority && (all > 0.0 || critical > 0.0);
        self.refuse_if(both, "shutdownGracePeriodByPodPriority", message);
    }

    fn enforcements(&mut self) {
        let path = "enforceNodeAllocatable";
        let list: Vec<String> = self.at(path).as_array().into_iter().flatten().map(text_of).collect();
        let has = |word: &str| list.iter().any(|item| item == word);
        let distinct: BTreeSet<&String> = list.iter().collect();
        self.refuse_if(distinct.len() < list.len(), path, "has an item twice");
        if let Some(unknown) = list.iter().find(|item| !ENFORCEMENTS.contains(&item.as_str())) {
            self.refuse(path, &format!("has `{unknown}`; expected some of {}", ENFORCEMENTS.join(", ")));
        }
        self.refuse_if(has("none") && list.len() > 1, path, "has `none` beside others");
        for part in ["system-reserved", "kube-reserved"] {
            let compressible = format!("{part}-compressible");
            self.refuse_if(
                has(part) && has(&compressible),
                path,
                &format!("has both {part} and {compressible}"),
            );
            let folder =
                if part == "system-reserved" { "systemReservedCgroup" } else { "kubeReservedCgroup" };
            let is_missing = (has(part) || has(&compressible)) && self.text(folder).is_empty();
            self.refuse_if(is_missing, path, &format!("has {part}, which needs {folder}"));
        }
        // The default is [pods].
        let is_used = list.iter().any(|item| item != "none") || self.at(path).is_null();
        let message = "has to be true unless enforceNodeAllocatable is [none]";
        // Limits of all pods together stand on a cgroup that only cgroupsPerQOS makes.
        self.refuse_if(is_used && !self.is_true("cgroupsPerQOS", true), "cgroupsPerQOS", message);
    }

    fn cgroups(&mut self) {
        let is_alone = !self.text("systemCgroups").is_empty() && self.text("cgroupRoot").is_empty();
        self.refuse_if(is_alone, "systemCgroups", "needs cgroupRoot");
        let cpus = self.text("reservedSystemCPUs").to_owned();
        if cpus.is_empty() {
            return;
        }
        self.refuse_if(!is_cpu_set(&cpus), "reservedSystemCPUs", "is not a set of processors such as 0-1,4");
        let has_cgroup =
            !self.text("systemReservedCgroup").is_empty() || !self.text("kubeReservedCgroup").is_empty();
        let message = "excludes systemReservedCgroup and kubeReservedCgroup";
        self.refuse_if(has_cgroup, "reservedSystemCPUs", message);
    }

    /// Fields that a gate has to be on for.
    fn gated(&mut self) {
        let needs = |gate: &str| format!("needs the gate {gate}, which is off");
        let is_set = |kubelet: &Self, path: &str| match kubelet.at(path) {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        let period = self.number("cpuCFSQuotaPeriod", QUOTA_PERIOD_NS);
        let wrong = period != QUOTA_PERIOD_NS && !self.gate("CustomCPUCFSQuotaPeriod");
        self.refuse_if(wrong, "cpuCFSQuotaPeriod", &needs("CustomCPUCFSQuotaPeriod"));
        let wrong = self.number("imageMaximumGCAge", 0.0) != 0.0 && !self.gate("ImageMaximumGCAge");
        self.refuse_if(wrong, "imageMaximumGCAge", &needs("ImageMaximumGCAge"));
        let wrong = self.is_true("serverTLSBootstrap", false) && !self.gate("RotateKubeletServerCertificate");
        self.refuse_if(wrong, "serverTLSBootstrap", &needs("RotateKubeletServerCertificate"));
        let back_off = "crashLoopBackOff.maxContainerRestartPeriod";
        let wrong = is_set(self, back_off) && !self.gate("KubeletCrashLoopBackOffMax");
        self.refuse_if(wrong, back_off, &needs("KubeletCrashLoopBackOffMax"));
        for path in ["imagePullCredentialsVerificationPolicy", "preloadedImagesVerificationAllowlist"] {
            let wrong = is_set(self, path) && !self.gate("KubeletEnsureSecretPulledImages");
            self.refuse_if(wrong, path, &needs("KubeletEnsureSecretPulledImages"));
        }
        let is_listed =
            self.at("preloadedImagesVerificationAllowlist").as_array().is_some_and(|list| !list.is_empty());
        let wrong = is_listed
            && self.text("imagePullCredentialsVerificationPolicy") != "NeverVerifyAllowlistedImages";
        let message = "needs imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages";
        self.refuse_if(wrong, "preloadedImagesVerificationAllowlist", message);
        let wrong = is_set(self, "defaultPodSysctls") && !self.gate("DefaultPodSysctls");
        self.refuse_if(wrong, "defaultPodSysctls", &needs("DefaultPodSysctls"));
        let wrong = is_set(self, "memorySwap.swapBehavior") && !self.gate("NodeSwap");
        self.refuse_if(wrong, "memorySwap.swapBehavior", &needs("NodeSwap"));
        let is_tiered = self.text("memoryReservationPolicy") == "TieredReservation";
        let wrong = is_tiered && !self.gate("MemoryQoS");
        self.refuse_if(wrong, "memoryReservationPolicy", &needs("MemoryQoS"));
        let is_query = self.is_true("enableSystemLogQuery", false);
        self.refuse_if(
            is_query && !self.gate("NodeLogQuery"),
            "enableSystemLogQuery",
            &needs("NodeLogQuery"),
        );
        let wrong = is_query && !self.is_true("enableSystemLogHandler", true);
        self.refuse_if(wrong, "enableSystemLogQuery", "needs enableSystemLogHandler");
        self.refuse_if(
            self.is_true("runOnce", false) && self.minor >= RUN_ONCE_GONE,
            "runOnce",
            "is not taken any more",
        );
    }

    fn evictions(&mut self) {
        for field in ["evictionHard", "evictionSoft"] {
            let pairs = self.document[field].as_object().into_iter().flatten();
            let wrong: Vec<String> =
                pairs.filter_map(|(signal, value)| eviction(signal, &text_of(value))).collect();
            wrong.iter().for_each(|message| self.refuse(field, message));
        }
        let soft = self.document["evictionSoft"].as_object().into_iter().flatten();
        let grace = &self.document["evictionSoftGracePeriod"];
        let alone = soft.map(|(signal, _)| signal).find(|signal| grace[signal.as_str()].is_null());
        if let Some(signal) = alone.cloned() {
            self.refuse(
                "evictionSoft",
                &format!("has {signal}, which needs an entry in evictionSoftGracePeriod"),
            );
        }
    }

    fn reservations(&mut self) {
        for field in ["systemReserved", "kubeReserved"] {
            let pairs = self.document[field].as_object().into_iter().flatten();
            let wrong: Vec<String> =
                pairs.filter_map(|(name, value)| reservation_problem(name, &text_of(value))).collect();
            wrong.iter().for_each(|message| self.refuse(field, message));
        }
        let nodes = self.document["reservedMemory"].as_array().into_iter().flatten();
        let limits = nodes.filter_map(|node| node["limits"].as_object()).flatten();
        let wrong = limits.filter(|(name, value)| {
            let is_known = name.as_str() == "memory" || name.starts_with("hugepages-");
            !is_known || quantity_milli(&text_of(value)) == Some(0.0)
        });
        let wrong: Vec<String> =
            wrong.map(|(name, _)| format!("has {name}: expected memory or hugepages-SIZE, not 0")).collect();
        wrong.iter().for_each(|message| self.refuse("reservedMemory", message));
    }

    fn users(&mut self) {
        let path = "userNamespaces.idsPerPod";
        let Some(ids) = self.at(path).as_i64() else { return };
        let is_fine = u64::try_from(ids).is_ok_and(|ids| {
            ids >= USER_IDS_UNIT && ids.is_multiple_of(USER_IDS_UNIT) && ids <= u64::from(u32::MAX)
        });
        self.refuse_if(!is_fine, path, "has to be a multiple of 65536 below 2^32");
    }

    fn logs(&mut self) {
        let folder = self.text("podLogsDir").to_owned();
        // What stands before the first slash is empty in every absolute path.
        let parts = || folder.split('/').skip(1);
        let is_clean = folder.starts_with('/')
            && folder.is_ascii()
            && parts().all(|part| !matches!(part, "" | "." | ".."));
        self.refuse_if(
            !folder.is_empty() && !is_clean,
            "podLogsDir",
            "has to be an absolute path without `..`",
        );
        let logging = super::logging::refused(self.document, |gate| self.gate(gate));
        self.found.extend(logging);
        let endpoint = self.text("tracing.endpoint").to_owned();
        // Without a scheme the exporter looks the name up as HOST:PORT.
        let scheme = endpoint.split_once("://").map_or("dns", |(scheme, _)| scheme);
        let wrong = !matches!(scheme, "dns" | "unix" | "unix-abstract");
        self.refuse_if(wrong, "tracing.endpoint", "has to be HOST:PORT, dns:// or unix://");
    }
}

/// A threshold is a percentage of 0 to 100, or a quantity that is not below 0.
fn eviction(signal: &str, value: &str) -> Option<String> {
    if !SIGNALS.contains(&signal) {
        return Some(format!("has `{signal}`; expected one of {}", SIGNALS.join(", ")));
    }
    let is_fine = match value.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent)),
        None => quantity_milli(value).is_some_and(|quantity| quantity >= 0.0),
    };
    (!is_fine).then(|| format!("has {signal} `{value}`; expected a percentage or a quantity"))
}

/// Source: `k8s.io/utils/cpuset` (`Parse`).
fn is_cpu_set(text: &str) -> bool {
    text.split(',').all(|part| match part.split_once('-') {
        None => part.parse::<u32>().is_ok(),
        Some((first, last)) => {
            first.parse::<u32>().ok().zip(last.parse().ok()).is_some_and(|(first, last)| first <= last)
        }
    })
}

/// Source: kubernetes 1.36.3 `cmd/kubelet/app/server.go` (`parseResourceList`).
fn reservation_problem(name: &str, value: &str) -> Option<String> {
    if !RESERVABLE.contains(&name) {
        return Some(format!("has {name}; expected one of {}", RESERVABLE.join(", ")));
    }
    let is_quantity = quantity_milli(value).is_some_and(|quantity| quantity >= 0.0);
    (!is_quantity).then(|| format!("has {name} `{value}`; expected a quantity that is not negative"))
}
