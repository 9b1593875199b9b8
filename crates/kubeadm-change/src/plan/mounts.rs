//! Does each component see the files that its flags name? A container sees of its host only what is mounted. Owns which flags name
//! files, and to which change a file belongs that is not seen; must not know what a file holds.

use super::super::accepted::COMPONENTS;
use super::super::path::PathStep;
use super::super::render::{Mount, NodeArtefacts, StaticPod};
use super::super::rules::Judgement;
use super::JudgedChange;
use super::refusals::flag_of;

/// The log of the API server is written, not read.
const WRITTEN: &str = "audit-log-path";
/// Flags of files whose names do not say so.
const OTHER_FILES: [&str; 5] = [
    "allow-metric-labels-manifest",
    "kubelet-certificate-authority",
    "kubelet-client-certificate",
    "kubelet-client-key",
    "tls-sni-cert-key",
];

/// A file that a flag names and its component cannot use.
struct Unusable<'p> {
    flag: &'p str,
    path: &'p str,
    /// It is mounted, and only to be read.
    is_read_only: bool,
}

/// Judges each change anew that leads to a file which its component does not see, from what a node has to what it will have.
pub(super) fn judge(judged: &mut [JudgedChange], before: &NodeArtefacts, after: &NodeArtefacts) {
    for (component, folder) in COMPONENTS {
        let pods = before.static_pods.get(component).zip(after.static_pods.get(component));
        let Some((old, new)) = pods else { continue };
        for unusable in unusable(new) {
            // The new pod no longer has the mount: which volume was lost shows in the old one.
            let volume = mount_of(old, unusable.path).map(|mount| mount.name.as_str());
            for judged in judged.iter_mut().filter(|judged| judged.finding.verdict != Judgement::Block) {
                if flag_of(&judged.change) == Some((folder, unusable.flag)) {
                    of_flag(judged, component, folder, &unusable);
                } else if volume.is_some_and(|volume| is_of_volume(judged, folder, volume)) {
                    of_volume(judged, component, &unusable);
                }
            }
        }
    }
}

fn of_flag(judged: &mut JudgedChange, component: &str, folder: &[&str], file: &Unusable<'_>) {
    let Unusable { flag, path, is_read_only } = file;
    let volumes = format!("{}.extraVolumes", folder.join("."));
    let finding = &mut judged.finding;
    if *flag == WRITTEN && !is_read_only {
        finding.verdict = finding.verdict.max(Judgement::Advise);
        finding.message = format!(
            "{component} writes {path} within its container: no volume holds it, so the log is gone when the container is, and the host does not have it."
        );
        finding.alternative = Some(format!("Add a volume for its folder to {volumes} in the same change."));
        return;
    }
    finding.verdict = Judgement::Block;
    finding.forceable = true;
    (finding.message, finding.alternative) = if *is_read_only {
        let message = format!(
            "{component} cannot write {path}: its volume is read-only, and {component} does not start."
        );
        (message, Some(format!("Set readOnly: false for the volume in {volumes}.")))
    } else {
        let message = format!(
            "{component} does not see {path}, which --{flag} names: no volume holds it, and {component} does not start."
        );
        (message, Some(format!("Add a volume for the file or its folder to {volumes} in the same change.")))
    };
}

fn of_volume(judged: &mut JudgedChange, component: &str, file: &Unusable<'_>) {
    let Unusable { flag, path, is_read_only } = file;
    let finding = &mut judged.finding;
    if *flag == WRITTEN && !is_read_only {
        finding.verdict = finding.verdict.max(Judgement::Advise);
        finding.message = format!(
            "--{flag}={path} of {component} is in this volume: without it the log is gone when the container is, and the host does not have it."
        );
        return;
    }
    finding.verdict = Judgement::Block;
    finding.forceable = true;
    let lack = if *is_read_only { "cannot be written" } else { "is not seen" };
    finding.message = format!(
        "--{flag}={path} of {component} is in this volume: after the change the file {lack}, and {component} does not start."
    );
    finding.alternative = Some(format!("Change --{flag} in the same change, or keep the volume."));
}

/// Is it a change of this volume, or of a field of it?
fn is_of_volume(judged: &JudgedChange, folder: &[&str], volume: &str) -> bool {
    let steps = &judged.change.path.0;
    let Some((head, [PathStep::Field(list), PathStep::Item(name), ..])) =
        steps.split_at_checked(folder.len())
    else {
        return false;
    };
    let is_there = head.iter().zip(folder).all(|(step, name)| *step == PathStep::Field((*name).to_owned()));
    is_there && list == "extraVolumes" && name == volume
}

fn unusable(pod: &StaticPod) -> Vec<Unusable<'_>> {
    let flags = pod.command.iter().filter_map(|argument| argument.strip_prefix("--")?.split_once('='));
    let files = flags.flat_map(|(flag, value)| files_of(flag, value).map(move |path| (flag, path)));
    let unusable = |(flag, path): (&'_ str, &'_ str)| match mount_of(pod, path) {
        None => Some(false),
        Some(mount) => (flag == WRITTEN && mount.read_only).then_some(true),
    };
    files
        .filter_map(|(flag, path)| Some(Unusable { flag, path, is_read_only: unusable((flag, path))? }))
        .collect()
}

/// The files of the host that a flag names; what is in every container is none.
fn files_of<'p>(flag: &str, value: &'p str) -> impl Iterator<Item = &'p str> {
    // `runtime-config` is a list of API versions, not a file.
    let has_name = flag.ends_with("file") || flag.ends_with("config") && flag != "runtime-config";
    let names_files = has_name || flag == WRITTEN || OTHER_FILES.contains(&flag);
    // A pair of files has names of hosts behind it.
    let value = if flag == "tls-sni-cert-key" { value.split(':').next().unwrap_or_default() } else { value };
    // `-` is the container's output; what is not absolute is below its root, where nothing is.
    let of_host = |path: &&str| !matches!(*path, "" | "-") && !path.starts_with("/dev/");
    value.split(',').filter(move |path| names_files && of_host(path))
}

/// The mount that holds a path: the innermost one.
fn mount_of<'p>(pod: &'p StaticPod, path: &str) -> Option<&'p Mount> {
    let holds = |mount: &&Mount| {
        let rest = path.strip_prefix(mount.mount_path.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // As the kernel resolves mounts: the longest mount path covers those above it.
    pod.volume_mounts.iter().filter(holds).max_by_key(|mount| mount.mount_path.len())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cluster, planned, wanted};
    use super::super::{ChangePlan, DocumentKind, PlanState};

    const POLICY: &str = "apiServer.extraArgs[audit-policy-file]=/etc/audit/policy.yaml";
    const VOLUME: &str =
        "apiServer.extraVolumes[audit]={hostPath: /srv/audit, mountPath: /etc/audit, readOnly: true}";

    fn said(plan: &ChangePlan) -> String {
        plan.changes.iter().map(|judged| judged.finding.message.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_file_has_to_be_in_a_volume() {
        let blocked = [
            (
                &[POLICY][..],
                "kube-apiserver does not see /etc/audit/policy.yaml, which --audit-policy-file names",
            ),
            (
                &["apiServer.extraArgs[audit-webhook-config-file]=/etc/nowhere/hook.yaml"],
                "does not see /etc/nowhere/hook.yaml",
            ),
            (&["apiServer.extraArgs[tls-sni-cert-key]=/a/b.crt,/a/b.key:x.example"], "does not see /a/b.crt"),
            (
                &["scheduler.extraArgs[config]=/etc/kubernetes/scheduler.yaml"],
                "kube-scheduler does not see /etc/kubernetes/scheduler.yaml",
            ),
            (
                &["controllerManager.extraArgs[leader-migration-config]=/etc/x.yaml"],
                "does not see /etc/x.yaml",
            ),
            (
                &[POLICY, "apiServer.extraVolumes[audit]={hostPath: /srv, mountPath: /etc/aud}"],
                "does not see",
            ),
            (&["apiServer.extraArgs[allow-metric-labels-manifest]=labels.yaml"], "does not see labels.yaml"),
            (
                &["apiServer.extraArgs[audit-log-path]=/etc/audit/log", VOLUME],
                "cannot write /etc/audit/log: its volume is read-only",
            ),
        ];
        for (sets, words) in blocked {
            let plan = planned(&cluster(1, 0), sets);
            assert_eq!(plan.state, PlanState::Blocked, "{sets:?}");
            assert!(said(&plan).contains(words), "{sets:?}: {}", said(&plan));
        }
        for sets in [
            &[POLICY, VOLUME][..],
            &["apiServer.extraArgs[audit-log-path]=-"],
            &[
                "apiServer.extraArgs[oidc-ca-file]=/etc/ssl/certs/own.pem",
                "apiServer.extraArgs[oidc-issuer-url]=https://a",
                "apiServer.extraArgs[oidc-client-id]=b",
            ],
            &["apiServer.extraArgs[tls-sni-cert-key]=/etc/kubernetes/pki/a.crt,/etc/kubernetes/pki/a.key"],
            &["apiServer.extraArgs[runtime-config]=batch/v2alpha1=true"],
        ] {
            assert_ne!(planned(&cluster(1, 0), sets).state, PlanState::Blocked, "{sets:?}");
        }
        let log = planned(&cluster(1, 0), &["apiServer.extraArgs[audit-log-path]=/var/log/audit.log"]);
        assert_eq!(log.state, PlanState::NeedsAcknowledgement);
        assert!(said(&log).contains("within its container"), "{}", said(&log));
    }

    #[test]
    fn a_volume_that_is_in_use_stays() {
        let mut inputs = cluster(1, 0);
        let mut target = wanted(&inputs, &[POLICY, VOLUME]);
        let stored = inputs.documents.iter_mut().find(|d| d.kind == DocumentKind::Cluster).expect("there");
        stored.value = target.documents.remove(0).new;
        for set in
            ["apiServer.extraVolumes[audit]=null", "apiServer.extraVolumes[audit].mountPath=/etc/other"]
        {
            let plan = planned(&inputs, &[set]);
            assert_eq!(plan.state, PlanState::Blocked, "{set}");
            assert!(
                said(&plan).contains(
                    "--audit-policy-file=/etc/audit/policy.yaml of kube-apiserver is in this volume"
                ),
                "{}",
                said(&plan)
            );
        }
        for sets in [
            &["apiServer.extraVolumes[audit]=null", "apiServer.extraArgs[audit-policy-file]=null"][..],
            &[
                "apiServer.extraVolumes[audit]=null",
                "apiServer.extraVolumes[b]={hostPath: /srv, mountPath: /etc}",
            ],
        ] {
            assert_ne!(planned(&inputs, sets).state, PlanState::Blocked, "{sets:?}");
        }
    }
}
