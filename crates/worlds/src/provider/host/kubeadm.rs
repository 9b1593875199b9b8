//! kubeadm on a host: the phases that runbooks use, each as kubeadm does it. Must not know how the containers run.
//!
//! Source: kubeadm `cmd/phases/{init,upgrade}`, `phases/upgrade/staticpods.go`, `phases/certs/certs.go`, v1.35. Not
//! simulated: keys (a certificate here is the list of its names), patches, dry runs.

use std::time::Duration;

use serde_json::Value;

use super::command::Output;
use super::pods;
use super::{API_SERVER, ETCD, KUBELET_FILE, KubeadmHost, MANIFESTS, PKI, Surroundings};
use kubeadm_change::document::{DocumentKind, read_inputs};
use kubeadm_change::render::{
    self, CONTROLLER_MANAGER, ClusterSettings, HostFacts, NodeArtefacts, SCHEDULER,
};

/// How long a phase takes that only writes files, and one that waits for a static pod.
const WRITES: Duration = Duration::from_millis(400);
const WAITS: Duration = Duration::from_millis(4500);
/// kubeadm waits five minutes for a static pod; a simulated one says so sooner.
const GIVES_UP: Duration = Duration::from_secs(10);
/// In the order in which an upgrade writes them.
const CONTROL_PLANE: [&str; 3] = [API_SERVER, CONTROLLER_MANAGER, SCHEDULER];
/// kubeadm's own status for an error.
const ERROR: i32 = 1;

impl KubeadmHost {
    /// What `kubeadm init` or `join` writes on a new host.
    pub(super) fn install(&mut self, around: &Surroundings<'_>) {
        let kubelet = stored(around, "kubelet-config", "kubelet");
        self.files.insert(KUBELET_FILE.to_owned(), kubelet);
        self.files.insert("/etc/kubernetes/kubelet.conf".to_owned(), "kubeconfig".to_owned());
        if !self.is_control_plane {
            return;
        }
        self.folders.insert("/var/lib/etcd/member".to_owned());
        self.folders.insert("/etc/kubernetes/tmp".to_owned());
        let configuration = cluster_document(stored(around, "kubeadm-config", "ClusterConfiguration"));
        let Some(configuration) = configuration else { return };
        // A configuration that cannot be rendered leaves a
        // host without control plane, as a failed init does.
        let Ok(artefacts) = self.artefacts(&configuration, &self.facts.clone()) else { return };
        for component in artefacts.static_pods.keys() {
            self.write_manifest(&artefacts, component);
        }
        for authority in ["ca", "etcd/ca"] {
            self.files.insert(format!("{PKI}/{authority}.crt"), "simulated authority\n".to_owned());
            self.files.insert(format!("{PKI}/{authority}.key"), "simulated key\n".to_owned());
        }
        for (certificate, names) in &artefacts.certificates {
            self.write_certificate(PKI, certificate, names);
        }
    }

    pub(super) fn kubeadm(&mut self, words: &[&str], around: &Surroundings<'_>) -> Output {
        match words {
            ["version", ..] => Output::printed("kubeadm version: simulated\n"),
            ["config", "images", "pull", "--config", file] => match self.file(file) {
                Ok(_) => Output::printed("").after(self.wait(WRITES)),
                Err(failed) => failed,
            },
            ["init", "phase", "certs", certificate, "--config", file] => {
                self.init_certificate(certificate, file)
            }
            ["init", "phase", "etcd", "local", "--config", file] => self.init_manifests(&[ETCD], file),
            ["init", "phase", "control-plane", which, "--config", file] => {
                let components = match *which {
                    "all" => CONTROL_PLANE.as_slice(),
                    "apiserver" => &CONTROL_PLANE[..1],
                    "controller-manager" => &CONTROL_PLANE[1..2],
                    "scheduler" => &CONTROL_PLANE[2..],
                    other => return unknown(&format!("init phase control-plane {other}")),
                };
                self.init_manifests(components, file)
            }
            ["init", "phase", "kubeconfig", name, "--config", file] => {
                self.init_kubeconfig(name, file, "/etc/kubernetes")
            }
            ["init", "phase", "kubeconfig", name, "--config", file, "--kubeconfig-dir", folder] => {
                self.init_kubeconfig(name, file, folder)
            }
            ["upgrade", "node", "phase", "control-plane", options @ ..] => {
                self.upgrade_control_plane(around, !options.contains(&"--etcd-upgrade=false"))
            }
            ["upgrade", "node", "phase", "kubelet-config", ..] => self.upgrade_kubelet(around),
            _ => unknown(&words.join(" ")),
        }
    }

    fn wait(&self, span: Duration) -> Duration {
        // `div_f64` panics when its result is not finite, as with a scale of 0.
        span.div_f64(self.time_scale.max(0.001))
    }

    fn file(&self, path: &str) -> Result<&str, Output> {
        self.files.get(path).map(String::as_str).ok_or_else(|| {
            Output::failed(
                ERROR,
                format!("unable to read config from \"{path}\": open {path}: no such file or directory\n"),
            )
        })
    }

    fn init_kubeconfig(&mut self, name: &str, file: &str, folder: &str) -> Output {
        if let Err(failed) = self.file(file) {
            return failed;
        }
        // One that is there and valid is kept.
        self.files.entry(format!("{folder}/{name}.conf")).or_insert_with(|| "kubeconfig".to_owned());
        Output::printed(format!("[kubeconfig] Writing \"{name}.conf\" kubeconfig file\n"))
            .after(self.wait(WRITES))
    }

    /// What kubeadm renders for this host from a file with both documents, and the folder of certificates that it names.
    fn rendered_from(&self, path: &str) -> Result<(NodeArtefacts, String), Output> {
        let text = self.file(path)?.to_owned();
        let failed = |why: String| Output::failed(ERROR, format!("error: {why}\n"));
        let inputs = read_inputs(&[(path.to_owned(), text)]).map_err(|errors| {
            failed(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        let cluster = inputs.document(DocumentKind::Cluster);
        let cluster = cluster.ok_or_else(|| failed(format!("{path} holds no ClusterConfiguration")))?;
        let mut facts = self.facts.clone();
        if let Some(init) = inputs.document(DocumentKind::Init) {
            let text = |pointer: &str| init.value.pointer(pointer).and_then(Value::as_str);
            if let Some(name) = text("/nodeRegistration/name") {
                name.clone_into(&mut facts.name);
            }
            if let Some(address) = text("/localAPIEndpoint/advertiseAddress") {
                address.clone_into(&mut facts.address);
            }
        }
        let pki = cluster.value["certificatesDir"].as_str().unwrap_or(PKI).to_owned();
        Ok((self.artefacts(&cluster.value, &facts).map_err(failed)?, pki))
    }

    fn artefacts(&self, configuration: &Value, facts: &HostFacts) -> Result<NodeArtefacts, String> {
        let settings = ClusterSettings::new(configuration, None).map_err(|error| error.to_string())?;
        render::node(&settings, facts).map_err(|error| error.to_string())
    }

    fn write_manifest(&mut self, artefacts: &NodeArtefacts, component: &str) {
        if let Some(pod) = artefacts.static_pods.get(component) {
            let text = pods::manifest(&self.facts, component, pod);
            self.files.insert(format!("{MANIFESTS}/{component}.yaml"), text);
        }
    }

    fn write_certificate(&mut self, pki: &str, certificate: &str, names: &[String]) {
        let file = certificate.replacen("etcd-", "etcd/", 1);
        let text = format!("simulated certificate\n{}\n", names.join("\n"));
        self.files.insert(format!("{pki}/{file}.crt"), text);
        self.files.insert(format!("{pki}/{file}.key"), "simulated key\n".to_owned());
    }

    /// Source: `runCertPhase`: what is there is kept; without the authority's key nothing can be made.
    fn init_certificate(&mut self, certificate: &str, file: &str) -> Output {
        let (artefacts, pki) = match self.rendered_from(file) {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let Some(names) = artefacts.certificates.get(certificate) else {
            return unknown(&format!("init phase certs {certificate}"));
        };
        // kubeadm's phases name etcd's certificates with a dash, while they lie in a folder.
        let path = format!("{pki}/{}.crt", certificate.replacen("etcd-", "etcd/", 1));
        // Names that are missing in it are no reason to
        // make it anew: it has to be moved away first.
        if self.files.contains_key(&path) {
            return Output::printed(format!(
                "[certs] Using existing {certificate} certificate and key on disk\n"
            ));
        }
        let authority = if certificate.starts_with("etcd-") { "etcd/ca" } else { "ca" };
        if ["crt", "key"].iter().any(|end| !self.files.contains_key(&format!("{pki}/{authority}.{end}"))) {
            let why = format!(
                "error execution phase certs/{certificate}: couldn't load CA certificate {authority}\n"
            );
            return Output::failed(ERROR, why);
        }
        self.write_certificate(&pki, certificate, names);
        Output::printed(format!("[certs] Generating \"{certificate}\" certificate and key\n"))
            .after(self.wait(WRITES))
    }

    fn init_manifests(&mut self, components: &[&str], file: &str) -> Output {
        let artefacts = match self.rendered_from(file) {
            Ok((artefacts, _)) => artefacts,
            Err(failed) => return failed,
        };
        let mut said = String::new();
        for component in components {
            self.write_manifest(&artefacts, component);
            said.push_str(&format!("[control-plane] Creating static Pod manifest for \"{component}\"\n"));
        }
        Output::printed(said).after(self.wait(WRITES))
    }

    /// Renders what the cluster stores, keeps what was there, and takes it back when a pod does not come up.
    fn upgrade_control_plane(&mut self, around: &Surroundings<'_>, with_etcd: bool) -> Output {
        if !self.is_control_plane {
            return Output::printed("[upgrade/control-plane] Skipping phase. Not a control plane node.\n");
        }
        let configuration = match fetched(around, "kubeadm-config", "ClusterConfiguration") {
            Ok(text) => text,
            Err(failed) => return failed,
        };
        let artefacts = cluster_document(configuration)
            .ok_or_else(|| "the stored ClusterConfiguration cannot be read".to_owned());
        let artefacts = artefacts.and_then(|document| self.artefacts(&document, &self.facts.clone()));
        let artefacts = match artefacts {
            Ok(artefacts) => artefacts,
            Err(why) => return Output::failed(ERROR, format!("error: {why}\n")),
        };
        let (mut said, mut takes) = (String::new(), self.wait(WRITES));
        // Without a local etcd there is nothing to upgrade.
        if with_etcd && self.containers.contains_key(ETCD) {
            takes += self.upgrade_etcd(&artefacts, around);
        }
        for component in CONTROL_PLANE {
            let path = format!("{MANIFESTS}/{component}.yaml");
            let before = self.files.get(&path).cloned();
            self.write_manifest(&artefacts, component);
            // Compared as text, as kubeadm does: an equal pod does not restart.
            if self.files.get(&path) == before.as_ref() {
                said.push_str(&format!("[upgrade/staticpods] Current and new manifests of {component} are equal, skipping upgrade\n"));
                continue;
            }
            takes += self.wait(WAITS);
            self.sync_pods(around.now);
            if self.containers.get(component).is_some_and(|running| running.ready_at.is_none()) {
                // Only this one is taken back; components that came up keep their new manifests.
                if let Some(before) = before {
                    self.files.insert(path, before);
                }
                self.sync_pods(around.now);
                let why = format!(
                    "[upgrade/staticpods] {component}: timed out waiting for the condition\nerror: couldn't upgrade \
                     control plane. kubeadm has tried to recover everything into the earlier state\n"
                );
                return Output { stdout: said, ..Output::failed(ERROR, why) }.after(self.wait(GIVES_UP));
            }
            said.push_str(&format!(
                "[upgrade/staticpods] Component \"{component}\" upgraded successfully!\n"
            ));
        }
        Output::printed(said).after(takes)
    }

    /// Before everything else, unless it is told not to: etcd's manifest is written anew, and etcd starts again when the API
    /// server is going to, even if its own manifest is the same.
    /// Source: `upgradeComponent`, `performEtcdStaticPodUpgrade`.
    fn upgrade_etcd(&mut self, artefacts: &NodeArtefacts, around: &Surroundings<'_>) -> Duration {
        let server = artefacts.static_pods.get(API_SERVER);
        let server = server.map(|pod| pods::manifest(&self.facts, API_SERVER, pod));
        let restarts = self.files.get(&format!("{MANIFESTS}/{API_SERVER}.yaml")) != server.as_ref();
        self.write_manifest(artefacts, ETCD);
        if !restarts {
            return Duration::ZERO;
        }
        self.restart(ETCD, around.now);
        self.wait(WAITS)
    }

    /// Writes the kubelet's file; the kubelet reads it when it starts.
    fn upgrade_kubelet(&mut self, around: &Surroundings<'_>) -> Output {
        match fetched(around, "kubelet-config", "kubelet") {
            Ok(text) => {
                self.files.insert(KUBELET_FILE.to_owned(), text);
                Output::printed(format!(
                    "[kubelet-start] Writing kubelet configuration to file \"{KUBELET_FILE}\"\n"
                ))
                .after(self.wait(WRITES))
            }
            Err(failed) => failed,
        }
    }
}

/// A ClusterConfiguration in whatever version it is stored, as one that is rendered.
fn cluster_document(text: String) -> Option<Value> {
    let parsed = read_inputs(&[("kubeadm-config".to_owned(), text)]).ok()?;
    Some(parsed.document(DocumentKind::Cluster)?.value.clone())
}

fn stored(around: &Surroundings<'_>, map: &str, key: &str) -> String {
    let data = around.config_maps.get(map).and_then(|map| map.data.as_ref());
    data.and_then(|data| data.get(key)).cloned().unwrap_or_default()
}

/// The same through the API.
fn fetched(around: &Surroundings<'_>, map: &str, key: &str) -> Result<String, Output> {
    // An ongoing upgrade of the only server finds no API, as on a real host.
    let why = if !around.serves {
        "connection refused".to_owned()
    } else {
        match stored(around, map, key) {
            text if text.is_empty() => format!("configmaps \"{map}\" has no {key}"),
            text => return Ok(text),
        }
    };
    Err(Output::failed(ERROR, format!("error: failed to get config map: {why}\n")))
}

fn unknown(what: &str) -> Output {
    Output::failed(ERROR, format!("error: `kubeadm {what}` is not simulated\n"))
}
