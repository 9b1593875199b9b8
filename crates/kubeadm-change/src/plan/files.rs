//! Commands that keep, check and re-issue files on a node; each may be run twice. Must not know order.

use serde_json::Value;

use super::super::document::DocumentKind;
use super::super::network::parse_ip;
use super::super::path::PathStep;
use super::super::render::ClusterSettings;
use super::super::{host_folder, node_file};
use super::JudgedChange;
use capstan_base::command_line::CommandLine;

/// A snapshot of etcd, taken once for a plan. The container reaches no other folder than that of the data, where it must not
/// stay: kubeadm copies that folder whole.
pub(super) fn snapshot(settings: &ClusterSettings<'_>, id: &str) -> Vec<CommandLine> {
    let data = settings.etcd_data_dir();
    let (taken, kept) = (format!("{data}/capstan-{id}.db"), host_folder::folder(id));
    // Data and kept files may be on two file systems, where `mv` copies: only the rename from
    // `.part` within one folder is atomic, so a file with the final name is always whole.
    let (snapshot, half) = (format!("{kept}/etcd.db"), format!("{kept}/etcd.db.part"));
    let pki = |name: &str| format!("{}/etcd/{name}", settings.certificates_dir());
    let etcdctl = CommandLine::of(
        "crictl exec $(crictl ps -q --name '^etcd$') etcdctl --cacert {} --cert {} --key {} snapshot save {}",
        [&pki("ca.crt"), &pki("server.crt"), &pki("server.key"), &taken],
    );
    vec![
        folder(&kept),
        etcdctl.unless(&CommandLine::of("test -s {}", [&snapshot])),
        CommandLine::of(
            "test -s {} || { mv -f {} {} && mv -f {} {}; }",
            [&snapshot, &taken, &half, &half, &snapshot],
        ),
    ]
}

/// Makes a folder that only root may read.
pub(super) fn folder(path: &str) -> CommandLine {
    CommandLine::of("install -d -m 0700 {}", [path])
}

/// Keeps a file as it was before the plan: `copy` is written once. What is not there needs no copy.
pub(super) fn keep(file: &str, copy: &str) -> CommandLine {
    CommandLine::of("test ! -e {} || test -e {} || cp -p {} {}", [file, copy, file, copy])
}

/// Goes on only where kubeadm can sign: the key of an external authority is not on the nodes.
pub(super) fn can_sign(settings: &ClusterSettings<'_>, authority: &str) -> CommandLine {
    let key = format!("{}/{authority}.key", settings.certificates_dir());
    let words = format!(
        "{key} is not on this host, so kubeadm cannot sign here; nothing was changed. kubeadm certs generate-csr makes the request: have it signed, put certificate and key into place yourself, then go on"
    );
    CommandLine::of("test -s {} || { echo {} >&2; false; }", [&key, &words])
}

/// Certificates of one authority that are issued anew.
pub(super) struct Reissue<'r> {
    pub(super) settings: &'r ClusterSettings<'r>,
    /// The plan's id.
    pub(super) plan: &'r str,
    /// Below the folder of certificates, without an ending.
    pub(super) authority: &'r str,
    /// Likewise, each with names that it must have.
    pub(super) certificates: Vec<(&'r str, Vec<String>)>,
    /// kubeadm's file.
    pub(super) file: &'r str,
    /// What reads them when it starts, where it is started again for them.
    pub(super) restarts: Option<&'r str>,
}

impl Reissue<'_> {
    /// Made in a new folder, looked at, and only then moved to where they are used: a line that fails leaves what was there.
    pub(super) fn lines(&self) -> Vec<CommandLine> {
        let new = node_file::new_certificates(self.settings.certificates_dir(), self.plan);
        let kept = host_folder::folder(self.plan);
        // A run that was killed while the manifest was away left it there: it comes back before all else.
        let mut lines: Vec<_> = self.restarts.iter().map(|component| put_back(component, &kept)).collect();
        lines.push(can_sign(self.settings, self.authority));
        lines.extend(self.prepared(&new));
        for (certificate, _) in &self.certificates {
            let phase = certificate.replace('/', "-");
            lines.push(CommandLine::of("kubeadm init phase certs {} --config {}", [&phase, self.file]));
        }
        lines.extend(self.looked_at(&new));
        lines.extend(self.moved(&new));
        lines.push(CommandLine::of("rm -rf {}", [&new]));
        lines.extend(self.restarts.iter().map(|component| restarted(component, &kept)));
        lines
    }

    /// An empty folder in which the authority is found.
    fn prepared(&self, new: &str) -> Vec<CommandLine> {
        // kubeadm keeps what it finds: certificates of an interrupted run must not be there.
        let mut lines = vec![CommandLine::of("rm -rf {}", [new]), folder(new)];
        if let Some((below, _)) = self.authority.split_once('/') {
            lines.push(folder(&format!("{new}/{below}")));
        }
        for end in ["crt", "key"] {
            let name = format!("{}.{end}", self.authority);
            let (from, to) = (self.in_use(&name), format!("{new}/{name}"));
            // kubeadm signs with the authority that stands in the folder it writes to; a link
            // leaves no second copy of the private key behind.
            lines.push(CommandLine::of("ln -s {} {}", [&from, &to]));
        }
        lines
    }

    fn looked_at(&self, new: &str) -> Vec<CommandLine> {
        let authority = self.in_use(&format!("{}.crt", self.authority));
        let mut lines = Vec::new();
        for (certificate, names) in &self.certificates {
            let made = format!("{new}/{certificate}");
            // `openssl verify` looks at the certificate alone: without its key the component would
            // not start.
            lines.push(CommandLine::of("test -s {}", [&format!("{made}.key")]));
            lines.extend(names.iter().map(|name| verified(&authority, name, &format!("{made}.crt"))));
        }
        lines
    }

    fn moved(&self, new: &str) -> Vec<CommandLine> {
        let kept = host_folder::folder(self.plan);
        let files: Vec<String> = self
            .certificates
            .iter()
            .flat_map(|(certificate, _)| ["crt", "key"].map(|end| format!("{certificate}.{end}")))
            .collect();
        let copies =
            files.iter().map(|file| keep(&self.in_use(file), &format!("{kept}/{}", file.replace('/', "-"))));
        let moves = files
            .iter()
            .map(|file| CommandLine::of("mv -f {} {}", [&format!("{new}/{file}"), &self.in_use(file)]));
        [folder(&kept)].into_iter().chain(copies).chain(moves).collect()
    }

    fn in_use(&self, file: &str) -> String {
        format!("{}/{file}", self.settings.certificates_dir())
    }
}

/// Ends a static pod and lets the kubelet start it again: its manifest is away until its container is gone, at most a minute.
/// A container that is stopped counts as a crash: the kubelet waits longer each time (10, 20, 40 s and so on) before it
/// starts it again.
/// Source: kubernetes.io, "Certificate Management with kubeadm", manual renewal.
fn restarted(component: &str, kept: &str) -> CommandLine {
    let (manifest, away) = (manifest(component), moved_away(component, kept));
    let runs = CommandLine::of(
        "while crictl ps -q --name {} | grep -q .; do sleep 1; done",
        [&format!("^{component}$")],
    );
    CommandLine::of(
        // `;` and not `&&` behind the wait: the manifest comes back even when the container
        // outlives the minute.
        "mv -f {} {} && { timeout 60 sh -c {}; mv -f {} {}; }",
        [&manifest, &away, runs.as_str(), &away, &manifest],
    )
}

/// The manifest is back where a restart that was interrupted left it away.
fn put_back(component: &str, kept: &str) -> CommandLine {
    let (manifest, away) = (manifest(component), moved_away(component, kept));
    CommandLine::of("test ! -e {} || test -e {} || mv -f {} {}", [&away, &manifest, &away, &manifest])
}

fn manifest(component: &str) -> String {
    format!("/etc/kubernetes/manifests/{component}.yaml")
}

fn moved_away(component: &str, kept: &str) -> String {
    format!("{kept}/{component}-restarts.yaml")
}

/// Waits until the kubelet that was restarted is well, and otherwise shows its own last words: a value that it does not take
/// ends it at once. `None` where its configuration has no health check; without curl on the host only the API shows it.
pub(super) fn kubelet_is_well(configuration: &Value) -> Option<CommandLine> {
    let port = configuration["healthzPort"].as_u64().unwrap_or(10_248);
    let address = configuration["healthzBindAddress"].as_str().unwrap_or("127.0.0.1");
    let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let asked = CommandLine::of(
        // `--noproxy`: a proxy variable of root's shell would send the question about the host away
        // from it.
        "command -v curl >/dev/null || exit 0; until curl -sf --noproxy '*' {} >/dev/null; do sleep 1; done",
        [&format!("http://{address}:{port}/healthz")],
    );
    let words = "{ journalctl -u kubelet -n 3 -o cat --no-pager >&2; false; }";
    // Port 0 switches the health check of a kubelet off.
    (port != 0).then(|| CommandLine::of("timeout 30 sh -c {}", [asked.as_str()]).or(words))
}

/// The certificate is signed by the authority and holds the name.
fn verified(authority: &str, name: &str, certificate: &str) -> CommandLine {
    if parse_ip(name).is_some() {
        return CommandLine::of("openssl verify -CAfile {} -verify_ip {} {}", [authority, name, certificate]);
    }
    // A name with a star is looked for by one that it covers.
    let name = name.replacen('*', "any", 1);
    CommandLine::of("openssl verify -CAfile {} -verify_hostname {} {}", [authority, &name, certificate])
}

/// Writes the kubeconfig of the kubelet beside the one in use, and moves it there when it is whole.
pub(super) fn kubeconfig(settings: &ClusterSettings<'_>, plan: &str, file: &str) -> Vec<CommandLine> {
    const IN_USE: &str = "/etc/kubernetes/kubelet.conf";
    let kept = host_folder::folder(plan);
    let new = format!("{kept}/new");
    let made = format!("{new}/kubelet.conf");
    vec![
        can_sign(settings, "ca"),
        folder(&kept),
        // As with certificates: kubeadm keeps a kubeconfig that it finds.
        CommandLine::of("rm -rf {}", [&new]),
        folder(&new),
        CommandLine::of(
            "kubeadm init phase kubeconfig kubelet --config {} --kubeconfig-dir {}",
            [file, &new],
        ),
        CommandLine::of("test -s {}", [&made]),
        keep(IN_USE, &format!("{kept}/kubelet.conf")),
        CommandLine::of("mv -f {} {}", [&made, IN_USE]),
        CommandLine::of("systemctl restart kubelet", []),
    ]
}

/// Looks at what the changed flags and volumes need on the host: sums must be equal on all nodes.
pub(super) fn checks(judged: &[JudgedChange], settings: &ClusterSettings<'_>) -> Vec<CommandLine> {
    let mut lines: Vec<CommandLine> = Vec::new();
    for judged in judged.iter().filter(|judged| judged.change.kind == DocumentKind::Cluster) {
        let change = &judged.change;
        let line = match change.path.0.as_slice() {
            [PathStep::Field(component), PathStep::Field(list), PathStep::Item(flag), ..]
                if list == "extraArgs" && (flag.ends_with("file") || flag.ends_with("config")) =>
            {
                let path = change.new.as_str().filter(|path| path.starts_with('/'));
                // The flag names a path within the container; on the host its volume may have another one.
                path.map(|path| CommandLine::of("sha256sum -- {}", [&settings.on_host(component, path)]))
            }
            [_, PathStep::Field(list), PathStep::Item(_)] if list == "extraVolumes" => {
                // The kubelet makes what has `OrCreate` itself: its absence is not a fault.
                let is_made = change.new["pathType"].as_str().unwrap_or_default().ends_with("OrCreate");
                let path = change.new["hostPath"].as_str().filter(|_| !is_made);
                path.map(|path| CommandLine::of("test -e {}", [path]))
            }
            _ => None,
        };
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}
