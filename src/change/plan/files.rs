//! Commands that keep, check and re-issue files on a node; each may be run twice. Must not know order.

use super::super::command_line::CommandLine;
use super::super::document::DocumentKind;
use super::super::path::PathStep;
use super::super::render::ClusterSettings;
use super::JudgedChange;

/// A snapshot of etcd beside its data, taken once for a plan.
pub(super) fn snapshot(settings: &ClusterSettings<'_>, id: &str) -> CommandLine {
    let file = format!("{}/capstan-{id}.db", settings.etcd_data_dir());
    let pki = |name: &str| format!("{}/etcd/{name}", settings.certificates_dir());
    CommandLine::of(
        "test -s {} || crictl exec $(crictl ps -q --name '^etcd$') etcdctl --cacert {} --cert {} --key {} snapshot save {}",
        [&file, &pki("ca.crt"), &pki("server.crt"), &pki("server.key"), &file],
    )
}

/// Makes the folder for what a plan moves away.
pub(super) fn folder(kept: &str) -> CommandLine {
    CommandLine::of("mkdir -p {}", [kept])
}

/// Keeps a file as it was before the plan: `copy` is written once.
pub(super) fn keep(file: &str, copy: &str) -> CommandLine {
    CommandLine::of("test -e {} || cp -p {} {}", [copy, file, copy])
}

/// kubeadm keeps a certificate that is there: it is copied once and removed first. A container reads it when it starts.
pub(super) fn reissue(
    settings: &ClusterSettings<'_>,
    kept: &str,
    certificates: &[&str],
    file: &str,
    component: &str,
) -> Vec<CommandLine> {
    let mut lines = vec![folder(kept)];
    for name in certificates {
        let phase = name.replace('/', "-");
        let pair = ["crt", "key"].map(|end| format!("{}/{name}.{end}", settings.certificates_dir()));
        for (path, end) in pair.iter().zip(["crt", "key"]) {
            lines.push(keep(path, &format!("{kept}/{phase}.{end}")));
        }
        lines.push(CommandLine::of("rm -f {} {}", [&pair[0], &pair[1]]));
        lines.push(CommandLine::of("kubeadm init phase certs {} --config {}", [&phase, file]));
    }
    lines.push(CommandLine::of("crictl stop $(crictl ps -q --name {})", [&format!("^{component}$")]));
    lines
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
                path.map(|path| CommandLine::of("sha256sum -- {}", [&settings.on_host(component, path)]))
            }
            [_, PathStep::Field(list), PathStep::Item(_)] if list == "extraVolumes" => {
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
