//! Words that people bring from Cluster API's proposals, from kubeadm, kubectl and k9s, and that are not commands here: one
//! sentence for each, which names the command. The command line of the dashboard and that of the program answer with
//! them. Must not know what is selected, nor what a server has.

/// Several words with the same answer.
type Answer = (&'static [&'static str], &'static str);

/// Without dashes and blanks, in small letters.
const ANSWERS: &[Answer] = &[
    // Rollouts and versions.
    (
        &["upgradeafter", "rolloutafter"],
        "the field is `spec.rollout.after` now: `rollout after` sets it; it replaces Machines and changes no version, which `set-version` does",
    ),
    (
        &["upgrade", "upgrades"],
        "`set-version` changes the version, `rollout restart` replaces Machines without that, `change` is for the kubeadm configuration",
    ),
    (
        &["upgradeapply", "upgradenode", "upgradeplan", "kubeadmupgrade"],
        "kubeadm upgrades its own nodes: `capstan change plan` prints such commands in their order; `set-version` is for a control plane of Cluster API",
    ),
    (
        &["rolloutstatus", "rollouthistory"],
        "`:rollout` and `:rollouts` show who acts and what comes next, `:timeline` what happened, `capstan plan` what is next",
    ),
    (
        &["rolloutundo"],
        "Cluster API does not go back to an older version; `undo` puts back the fields that were changed here",
    ),
    (&["restart"], "`rollout restart` replaces the Machines of a control plane or a pool"),
    // In place.
    (
        &["update", "inplace", "inplaceupdate", "inplaceupdates"],
        "`update-in-place` changes Machines where they are and stops where one would be replaced; `rollout restart` replaces them",
    ),
    (
        &["externalupdate", "canupdatemachine", "canupdatemachineset", "updatemachine", "acceptedchanges"],
        "these are hooks of runtime extensions: `capstan plan --ask-extensions` asks them, docs/extensions.md describes them",
    ),
    (
        &["fallback", "fallbackrollingupdate"],
        "Cluster API replaces what no extension can update; `update-in-place` stops instead, unless `--allow-replace` is given",
    ),
    (
        &["pendinghooks"],
        "the Machine is being updated in place: its condition Updating and `:rollout` show how far it is",
    ),
    // Control planes.
    (
        &["adopt"],
        "a control plane adopts Machines with its labels by itself; `plan` shows what keeps it from that",
    ),
    (
        &["health", "quorum", "members", "member"],
        "`etcd` shows the members of a cluster and how many more of them may be lost; `why` goes to what is wrong",
    ),
    // The kubeadm configuration.
    (
        &["kubeadm", "changecluster", "reconfigure", "clusterconfiguration", "kubeadmconfig"],
        "`capstan change plan --set PATH=VALUE` shows what a change of the kubeadm configuration means, `change apply` carries it out; here it is `:change`",
    ),
    (
        &["extraargs", "apiserverextraargs", "controllermanagerextraargs", "schedulerextraargs"],
        "arguments are set one by one: `capstan change plan --set apiServer.extraArgs[NAME]=VALUE`",
    ),
    (
        &["hostvolumes", "extravolumes"],
        "volumes are set one by one: `capstan change plan --set apiServer.extraVolumes[NAME].hostPath=PATH`",
    ),
    (
        &["advertiseaddress", "controlplaneaddress", "controlplaneendpoint"],
        "the address of a node or of a cluster cannot be changed in place: a node is removed and joins again",
    ),
    (&["kubernetesversion"], "`set-version` changes the version of a control plane or a pool"),
    (
        &["diff", "patch"],
        "every action has a preview with its difference; `capstan change diff` is for the kubeadm configuration, `capstan status compute --diff` for statuses",
    ),
    // Leader migration.
    (
        &["cloudmigrationconfig"],
        "no release had this flag: it is `--enable-leader-migration` with `--leader-migration-config FILE`",
    ),
    (
        &["cloudmigration", "migration", "migrate", "ccm", "kcm"],
        "`leader-migration` shows how far the cloud controllers have moved, `leases` who leads",
    ),
    (&["leader", "lock", "lease", "elections"], "`leases` shows who holds which lock"),
    // Conditions and counters.
    (
        &[
            "ready",
            "readiness",
            "available",
            "availability",
            "uptodate",
            "nodehealthy",
            "infrastructureready",
        ],
        "a condition of Machines: `:condition TYPE` lists it, `/TYPE=False` filters by it; R, A and U stand in the tree",
    ),
    (
        &[
            "rollingout",
            "scalingup",
            "scalingdown",
            "remediating",
            "remoteconnectionprobe",
            "topologyreconciled",
            "machinesready",
            "machinesuptodate",
            "workersavailable",
            "controlplaneavailable",
            "etcdclusterhealthy",
        ],
        "a condition of a Cluster or of an owner: `:condition TYPE` lists it, `/TYPE=False` filters by it, `capstan wait --for=condition=TYPE` waits for it",
    ),
    (
        &["updatedreplicas", "unavailablereplicas", "fullylabeledreplicas", "readyreplicas", "replicas"],
        "the counters are desired, current, ready, available and up to date: D C R A U in the tree; `scale` sets the first",
    ),
    (
        &["failurereason", "failuremessage", "severity"],
        "v1beta2 has none of them: `why` shows what is wrong, `:yaml` what an older provider wrote",
    ),
    (
        &["resized", "machinesspecuptodate", "machinescreated"],
        "types of v1beta1: ScalingUp and ScalingDown, MachinesUpToDate and ScalingUp have taken their place",
    ),
    (&["controlplanemachineuptodate"], "the type is ControlPlaneMachinesUpToDate"),
    (&["externalremediationrequestavailable"], "the type is ExternallyRemediated"),
    (
        &["minreadyseconds", "readinessgates", "availabilitygates"],
        "fields of the spec that `kubectl edit` changes without a rollout; `:yaml` shows them",
    ),
    (&["phase", "phases"], "`/phase:Provisioning` filters by it, and `:wide` has it as a column"),
    (&["paused"], "`pause` and `resume` change it, `/paused` filters by it"),
    // Words of k9s and kubectl.
    (
        &["exec"],
        "`:shell` opens a shell with the kubeconfig of the cluster, `:plugin` runs a command of your own",
    ),
    (
        &["xray", "pulse", "pulses", "dashboard"],
        "the list of clusters has the verdict of each, and `tree` what is below one",
    ),
    (
        &["explain"],
        "`why` explains a state, `capstan change rules --path PATH` a field of the kubeadm configuration",
    ),
    (
        &["create", "init", "generate"],
        "capstan creates no clusters: `clusterctl generate cluster` makes their manifests, `kubectl apply` takes them",
    ),
    (&["move"], "`clusterctl move` moves clusters between servers; the dashboard shows both with `:context`"),
];

/// What to type instead of these words. Capitals, dashes and blanks do not matter; the first two words are tried before
/// the first.
pub fn answer(typed: &str) -> Option<&'static str> {
    let words: Vec<String> = typed.split_whitespace().take(2).map(plain).collect();
    let find = |word: &str| ANSWERS.iter().find(|(known, _)| known.contains(&word)).map(|(_, said)| *said);
    // A single letter is not a word: `pause d` is not `paused`.
    let is_pair = words.get(1).is_some_and(|second| second.len() > 1);
    is_pair.then(|| find(&words.concat())).flatten().or_else(|| find(words.first()?))
}

/// The letters and digits of a word, small.
fn plain(word: &str) -> String {
    word.chars()
        .filter(|letter| letter.is_ascii_alphanumeric())
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::tui::command::TABLE;

    #[test]
    fn each_word_stands_once_and_is_not_a_command() {
        let mut seen = BTreeSet::new();
        for word in ANSWERS.iter().flat_map(|(words, _)| *words) {
            assert!(seen.insert(word), "{word} twice");
            assert_eq!(*word, plain(word));
            let is_command = TABLE.iter().any(|c| c.name == *word || c.aliases.contains(word));
            assert!(!is_command, "`{word}` is a command");
        }
    }

    #[test]
    fn answers_name_commands_that_exist() {
        let names: BTreeSet<&str> =
            TABLE.iter().flat_map(|c| std::iter::once(c.name).chain(c.aliases.iter().copied())).collect();
        for (words, said) in ANSWERS {
            for quoted in said.split('`').skip(1).step_by(2) {
                let Some(command) = quoted.strip_prefix(':') else { continue };
                let name = command.split(' ').next().unwrap_or_default();
                assert!(names.contains(name), "{words:?}: `{quoted}`");
            }
        }
    }

    #[test]
    fn words_are_found_however_they_are_written() {
        for typed in ["upgradeAfter", "upgrade-after x", "rollout_after", "ROLLOUTAFTER"] {
            assert!(answer(typed).is_some_and(|said| said.contains("spec.rollout.after")), "{typed}");
        }
        assert!(answer("rollout undo").is_some_and(|said| said.contains("undo")));
        assert!(answer("--cloud-migration-config=x").is_none(), "a value is not part of the word");
        assert_eq!(answer("pause d"), None, "not `paused`");
        assert_eq!(answer("zzz"), None);
        assert_eq!(answer(""), None);
    }
}
