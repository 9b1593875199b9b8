//! kubeadm of one release, built on first use from its public Go module. Owns building and asking it; must not know what it is
//! asked about.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kubeadm_change::check::minor_of;
use serde_json::Value;

use crate::golang::complaints;

/// A module that has not come by then does not come.
const MODULE_MAX: Duration = Duration::from_secs(180);
const BUILD_MAX: Duration = Duration::from_secs(1_200);

/// Held while one is built.
static BUILD: Mutex<()> = Mutex::new(());

pub struct Kubeadm {
    program: PathBuf,
    /// The folder of documents that it is asked about.
    folder: tempfile::TempDir,
    /// `v1.36.3`.
    pub version: String,
    pub minor: u64,
}

impl Kubeadm {
    /// `release` is `1.36.3`. The program stays in the target folder.
    ///
    /// # Errors
    /// Why it cannot be had: Go or the modules are missing.
    pub fn of(release: &str) -> Result<Self, String> {
        let version = format!("v{release}");
        let minor = minor_of(&version).ok_or_else(|| format!("{release} is not a release such as 1.36.3"))?;
        let folder = tempfile::tempdir().expect("a folder");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kubeadm-{release}"));
        // Several tests ask kubeadm, and one build of it is enough.
        let _alone = BUILD.lock().unwrap_or_else(PoisonError::into_inner);
        if !program.exists() {
            build(&version, minor, folder.path(), &program)?;
        }
        Ok(Self { program, folder, version, minor })
    }

    /// What it says against documents; `None` when it takes them.
    pub fn refuses(&self, text: &str, is_experimental: bool) -> Option<String> {
        let file = self.folder.path().join("asked.yaml");
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(&self.program);
        command.args(["config", "validate", "--config"]).arg(&file);
        if is_experimental {
            command.arg("--allow-experimental-api");
        }
        // A version that is a label is looked up in the network. Nobody listens at port 0.
        command.env_clear().env("HOME", self.folder.path()).env("HTTPS_PROXY", "http://127.0.0.1:0");
        let output = command.output().expect("kubeadm runs");
        (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }

    /// What its preflight says of this machine as a control plane, found by `path`: names of checks that are errors, and of those
    /// that are warnings.
    pub fn preflight(&self, path: &str) -> (BTreeSet<String>, BTreeSet<String>) {
        let file = self.folder.path().join("init.yaml");
        let text = format!(
            "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nlocalAPIEndpoint: {{advertiseAddress: 192.0.2.10}}\n\
             nodeRegistration: {{criSocket: \"unix:///var/run/containerd/containerd.sock\"}}\n---\n\
             apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {}\n",
            self.version
        );
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(&self.program);
        // A dry run looks at everything and pulls no image.
        command.args(["init", "phase", "preflight", "--dry-run", "--config"]).arg(&file);
        command.env_clear().env("HOME", self.folder.path()).env("PATH", path);
        let output = command.output().expect("kubeadm runs");
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let named = |kind: &str| {
            let names = said.lines().filter_map(|line| line.trim().strip_prefix(&format!("[{kind} ")));
            names.filter_map(|rest| rest.split_once(']')).map(|(name, _)| name.to_owned()).collect()
        };
        let (errors, warnings): (BTreeSet<String>, BTreeSet<String>) = (named("ERROR"), named("WARNING"));
        assert!(
            output.status.success() || !errors.is_empty(),
            "kubeadm did not come to its preflight: {said}"
        );
        (errors, warnings)
    }
}

fn go(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(folder)
        .args(arguments)
        .env("GOFLAGS", "-mod=mod -buildvcs=false")
        .env("CGO_ENABLED", "0");
    command
}

fn build(version: &str, minor: u64, folder: &Path, program: &Path) -> Result<(), String> {
    complaints(go(folder, &["version"]), MODULE_MAX).map_err(|why| format!("Go is not installed: {why}"))?;
    let module = format!("k8s.io/kubernetes@{version}");
    complaints(go(folder, &["mod", "download", &module]), MODULE_MAX)
        .map_err(|why| format!("Go cannot get {module}: {why}"))?;
    let found = go(folder, &["mod", "download", "-json", &module]).output().expect("go runs");
    let found: Value = serde_json::from_slice(&found.stdout).expect("JSON of go");
    let source = Path::new(found["Dir"].as_str().expect("the folder of the module")).join("go.mod");
    let manifest = manifest_of(&std::fs::read_to_string(source).expect("its go.mod"), version);
    std::fs::write(folder.join("go.mod"), manifest).expect("written");
    let stamp = "-X k8s.io/component-base/version.git";
    let flags = format!("-s -w {stamp}Version={version} {stamp}Major=1 {stamp}Minor={minor}");
    let output = program.display().to_string();
    let arguments = ["build", "-ldflags", &flags, "-o", &output, "k8s.io/kubernetes/cmd/kubeadm"];
    complaints(go(folder, &arguments), BUILD_MAX)
        .map_err(|why| format!("kubeadm {version} does not build: {why}"))
}

/// The go.mod of a module that requires Kubernetes. Kubernetes replaces its own modules by folders, which its published module
/// does not hold: here they are replaced by their published versions.
fn manifest_of(theirs: &str, version: &str) -> String {
    let language = theirs.lines().find(|line| line.starts_with("go ")).expect("a version of Go");
    let mut ours =
        format!("module kubeadm\n\n{language}\n\nrequire k8s.io/kubernetes {version}\n\nreplace (\n");
    let published = version.replacen("v1.", "v0.", 1);
    for line in theirs.lines().filter(|line| line.contains("=> ./staging/")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        let _ = writeln!(ours, "\t{name} => {name} {published}");
    }
    ours + ")\n"
}
