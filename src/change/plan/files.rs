//! Commands that keep, check and re-issue files on a node; each may be run twice. Owns the quoting of paths for a shell;
//! must not know order.

use super::super::document::DocumentKind;
use super::super::path::PathStep;
use super::super::render::ClusterSettings;
use super::JudgedChange;

/// A word for a POSIX shell. Paths of a configuration may hold anything.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// A snapshot of etcd beside its data, taken once for a plan.
pub(super) fn snapshot(settings: &ClusterSettings<'_>, id: &str) -> String {
    let file = quoted(&format!("{}/capstan-{id}.db", settings.etcd_data_dir()));
    let pki = |name: &str| quoted(&format!("{}/etcd/{name}", settings.certificates_dir()));
    format!(
        "test -s {file} || crictl exec $(crictl ps -q --name '^etcd$') etcdctl --cacert {} --cert {} --key {} snapshot save {file}",
        pki("ca.crt"),
        pki("server.crt"),
        pki("server.key")
    )
}

/// kubeadm keeps a certificate that is there: it is copied once and removed first. A container reads it when it starts.
pub(super) fn reissue(
    settings: &ClusterSettings<'_>,
    kept: &str,
    certificates: &[&str],
    file: &str,
    component: &str,
) -> Vec<String> {
    let mut lines = vec![format!("mkdir -p {kept}")];
    for name in certificates {
        let phase = name.replace('/', "-");
        let base = quoted(&format!("{}/{name}", settings.certificates_dir()));
        lines.extend(
            ["crt", "key"].map(|end| {
                format!("test -e {kept}/{phase}.{end} || cp -p {base}.{end} {kept}/{phase}.{end}")
            }),
        );
        lines.push(format!("rm -f {base}.crt {base}.key"));
        lines.push(format!("kubeadm init phase certs {phase} --config {file}"));
    }
    lines.push(format!("crictl stop $(crictl ps -q --name '^{component}$')"));
    lines
}

/// Looks at what the changed flags and volumes need on the host: sums must be equal on all nodes.
pub(super) fn checks(judged: &[JudgedChange], settings: &ClusterSettings<'_>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for judged in judged.iter().filter(|judged| judged.change.kind == DocumentKind::Cluster) {
        let change = &judged.change;
        let line = match change.path.0.as_slice() {
            [PathStep::Field(component), PathStep::Field(list), PathStep::Item(flag), ..]
                if list == "extraArgs" && (flag.ends_with("file") || flag.ends_with("config")) =>
            {
                let path = change.new.as_str().filter(|path| path.starts_with('/'));
                path.map(|path| format!("sha256sum -- {}", quoted(&settings.on_host(component, path))))
            }
            [_, PathStep::Field(list), PathStep::Item(_)] if list == "extraVolumes" => {
                let is_made = change.new["pathType"].as_str().unwrap_or_default().ends_with("OrCreate");
                let path = change.new["hostPath"].as_str().filter(|_| !is_made);
                path.map(|path| format!("test -e {}", quoted(path)))
            }
            _ => None,
        };
        lines.extend(line.filter(|line| !lines.contains(line)));
    }
    lines
}
