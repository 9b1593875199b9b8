//! Words that people bring from Cluster API's proposals, from kubeadm, kubectl and k9s, and that are not commands here: one
//! sentence for each, which names the command. The command line of the dashboard and that of the program answer with
//! them. Must not know what is selected, nor what a server has.

use capi_types::condition_types::CONDITION_TYPES;

/// Several words with the same answer.
type Answer = (&'static [&'static str], &'static str);

/// Without dashes, dots and blanks, in small letters.
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
        &["upgradeapply", "upgradenode", "upgradeplan", "kubeadmupgrade", "upgradeconfiguration"],
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
    (
        &["downgrade", "disasterrecovery", "snapshot"],
        "Cluster API goes back to no version and no snapshot: `undo` puts fields back, `capstan restore` a store of capstan itself, `capstan leader-migration back` a leader migration",
    ),
    (&["restart"], "`rollout restart` replaces the Machines of a control plane or a pool"),
    (
        &[
            "rollingupdate",
            "rollingupgrade",
            "ondelete",
            "rolloutstrategy",
            "maxsurge",
            "maxunavailable",
            "deletefirst",
        ],
        "a strategy is a field of the spec, which `:edit` changes; `capstan simulate --set surge=0` tries it before",
    ),
    (
        &["scaleup", "scaledown"],
        "`scale` sets the number, `capstan plan` names the Machine that is next to go and the failure domain that is next to grow",
    ),
    // In place.
    (
        &["update", "inplace", "inplaceupdate", "inplaceupdates"],
        "`update-in-place` changes Machines where they are and stops where one would be replaced; `rollout restart` replaces them",
    ),
    (
        &[
            "externalupdate",
            "externalupdateextension",
            "externalupdater",
            "updater",
            "canupdatemachine",
            "canupdatemachineset",
            "updatemachine",
            "acceptedchanges",
            "desiredmachine",
            "desiredbootstrapconfig",
            "desiredinframachine",
        ],
        "hooks of runtime extensions and what is in them: `capstan plan --ask-extensions` asks them, docs/extensions.md describes them",
    ),
    (
        &["tryagain", "inprogress", "done", "dirty", "dirtystate", "markaspending", "markasdone"],
        "how far an update in place is: `:rollout` shows it, docs/extensions.md has the words of its answers",
    ),
    (
        &["runtimeextension", "runtimesdk", "vspherevmmemoryupdate", "kcpversionupgrade", "capdkubeadm"],
        "`:get extensionconfigs` lists the extensions of a server, `capstan extension serve` is one that updates simulated machines",
    ),
    (
        &["fallback", "fallbackrollingupdate"],
        "Cluster API replaces what no extension can update; `update-in-place` stops instead, unless `--allow-replace` is given",
    ),
    (
        &["pendinghooks"],
        "the Machine is being updated in place: `:condition Updating` and `:rollout` show how far it is",
    ),
    (
        &["infrastructuretemplate", "infrastructureref", "configref", "rotatetemplate"],
        "`update-in-place KIND/NAME infrastructure=NAME` sets another template, `infrastructure:/spec/PATH=VALUE` one that is copied and changed",
    ),
    // Control planes.
    (
        &["adopt", "adoption"],
        "a control plane adopts Machines with its labels by itself; `plan` shows what keeps it from that",
    ),
    (
        &["health", "quorum", "members", "member", "alarm", "alarms", "learner", "portforward"],
        "`etcd` shows the members of a cluster, their alarms and how many more of them may be lost; `why` goes to what is wrong",
    ),
    (
        &["remediation", "selfhealing", "autoremediation"],
        "`remediate` asks the owner of a Machine to replace it, `:mhc` lists the MachineHealthChecks that do so by themselves",
    ),
    (&["controlplaneref"], "`tree` shows the control plane of a cluster, `owner` goes from a Machine to it"),
    (&["kubeconfig"], "`capstan get kubeconfig CLUSTER` prints it, `:shell` opens a shell with it"),
    // The kubeadm configuration.
    (
        &[
            "kubeadm",
            "changecluster",
            "reconfigure",
            "clusterconfiguration",
            "clusterstatus",
            "componentconfig",
            "kubeletconfig",
            "kubeletconfiguration",
            "kubeproxyconfiguration",
            "addons",
        ],
        "`capstan change plan --set PATH=VALUE` shows what a change of the kubeadm configuration means, `change apply` carries it out; here it is `:change`",
    ),
    (
        &["kubeadmconfig"],
        "a ConfigMap and a kind have this name: `capstan change status` reads the one, `:get kubeadmconfigs` lists the other",
    ),
    (
        &["changeset"],
        "a verb comes first: `capstan change diff`, `capstan change plan` or `capstan change apply`, then `--set`",
    ),
    (
        &["apiserver", "controllermanager", "scheduler", "kubelet", "kubeproxy", "coredns"],
        "what a change of the kubeadm configuration does to it: `capstan change plan`, and `capstan change rules` for each attribute",
    ),
    (
        &[
            "kubeadmconfigspec",
            "initconfiguration",
            "joinconfiguration",
            "noderegistration",
            "kubeletextraargs",
            "prekubeadmcommands",
            "postkubeadmcommands",
        ],
        "a part of the spec of a control plane, which `:edit` changes; `plan` names the Machines that this replaces",
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
        &["advertiseaddress", "controlplaneaddress", "controlplaneendpoint", "apiendpoints"],
        "the address of a node or of a cluster cannot be changed in place, and `capstan change plan` blocks it: a node is removed and joins again",
    ),
    (
        &["imagerepository", "imagesrepository", "imagetag", "imagetags"],
        "`capstan change rules --path imageRepository` says what a change of it means, as of `etcd.local.imageTag` and `dns.imageTag`",
    ),
    (
        &["version", "kubernetesversion"],
        "`set-version` changes the version of a control plane or a pool; `capstan --version` is that of capstan",
    ),
    (
        &["diff", "patch", "strategicmerge", "mergepatch", "kustomize"],
        "every action has a preview with its difference; `capstan change diff` is for the kubeadm configuration, `capstan status compute --diff` for statuses",
    ),
    (
        &["kubectlapply", "kubectlpatch"],
        "`:edit` changes an object, `capstan change apply` a kubeadm configuration; each shows a preview first",
    ),
    // Leader migration.
    (
        &["cloudmigrationconfig"],
        "no release had this flag: it is `--enable-leader-migration` with `--leader-migration-config FILE`, which `capstan leader-migration validate` looks at",
    ),
    (
        &["enableleadermigration", "cloudprovider", "leaderelect"],
        "a flag of the controller managers: `capstan leader-migration validate` looks at their flags, `capstan leader-migration next` prints the next edit",
    ),
    (
        &["leadermigrationenable", "leadermigrationdisable", "leadermigrationconfig", "leadermigrationstart"],
        "the stages are `capstan leader-migration status`, `next` and `plan`; `generate` prints the file",
    ),
    (
        &[
            "leadermigrationconfiguration",
            "controllerleaderconfiguration",
            "controllerleaders",
            "leadername",
            "component",
            "resourcelock",
        ],
        "parts of a file that `capstan leader-migration validate` judges and `capstan leader-migration generate` prints",
    ),
    (
        &[
            "routecontroller",
            "servicecontroller",
            "cloudnodecontroller",
            "cloudnodelifecyclecontroller",
            "nodeipam",
            "nodeipamcontroller",
        ],
        "`leases` shows which manager runs it, `capstan leader-migration defaults` its name in each release",
    ),
    (
        &[
            "cloudmigration",
            "migration",
            "migrate",
            "ccm",
            "kcm",
            "kubecontrollermanager",
            "cloudcontrollermanager",
            "walkthrough",
        ],
        "`leader-migration` shows how far the cloud controllers have moved, `leases` who leads",
    ),
    (
        &[
            "leader",
            "lock",
            "lease",
            "elections",
            "primarylock",
            "secondarylock",
            "migrationlock",
            "cloudcontrollersmigration",
            "cloudnetworkcontrollermigration",
            "cloudproviderextractionmigration",
        ],
        "`leases` shows who holds which lock",
    ),
    // Conditions, counters and fields.
    (
        &[
            "readiness",
            "availability",
            "controlplaneready",
            "bootstrapready",
            "initialization",
            "replicasready",
        ],
        "`:conditions` shows how all Machines are, `:condition Ready` one condition, `:details` of a cluster what of it is initialized",
    ),
    (
        &[
            "updatedreplicas",
            "unavailablereplicas",
            "fullylabeledreplicas",
            "readyreplicas",
            "availablereplicas",
            "uptodatereplicas",
            "desiredreplicas",
            "replicas",
            "desired",
            "current",
            "updated",
            "unavailable",
        ],
        "the counters are desired, current, ready, available and up to date: D C R A U in `tree`; `scale` sets the first",
    ),
    (
        &["failurereason", "failuremessage", "errorreason", "errormessage", "severity", "terminalfailure"],
        "v1beta2 has none of them: `why` shows what is wrong, `:yaml` what an older provider wrote",
    ),
    (
        &["resized", "machinesspecuptodate", "machinescreated"],
        "types of v1beta1: `:condition ScalingUp`, `:condition ScalingDown` and `:condition MachinesUpToDate` have taken their place",
    ),
    (
        &["drainingsucceeded", "volumedetachsucceeded", "predraindeletehooksucceeded"],
        "types of v1beta1: `:condition Deleting` says how far the deletion of a Machine is",
    ),
    (
        &["controlplanemachineuptodate"],
        "the type is ControlPlaneMachinesUpToDate: `:condition ControlPlaneMachinesUpToDate`",
    ),
    (
        &["externalremediationrequestavailable", "externallyremediated"],
        "the type is ExternallyRemediated: `:condition ExternallyRemediated`",
    ),
    (
        &["memorypressure", "diskpressure", "pidpressure"],
        "conditions of a Node, which add up to one of its Machine: `:condition NodeHealthy`",
    ),
    (
        &[
            "minreadyseconds",
            "readinessgates",
            "availabilitygates",
            "nodedraintimeout",
            "nodevolumedetachtimeout",
            "nodedeletiontimeout",
        ],
        "fields of the spec that `:edit` changes without a rollout; `:yaml` shows them",
    ),
    (
        &["polarity", "metav1condition", "reason"],
        "`why` says what a condition with its reason means, docs/verdicts.md what is made of it",
    ),
    (
        &["v1beta1", "v1beta2", "contract"],
        "docs/providers.md has the contracts, docs/differences.md which versions are served",
    ),
    (
        &["remoteconnectiongraceperiod", "remoteconditionsgraceperiod"],
        "flags of `capstan engine`, as of upstream's managers; `:condition RemoteConnectionProbe` shows who is out of reach",
    ),
    (
        &["lastremoteconnectionprobetime"],
        "nothing keeps it in an object: `:condition RemoteConnectionProbe` shows since when a cluster is out of reach",
    ),
    (
        &[
            "nodename",
            "providerid",
            "osimage",
            "internalip",
            "externalip",
            "kernelversion",
            "containerruntime",
        ],
        "`:machines` with `:wide` has the columns that Machines have, `:yaml` all of `status.nodeInfo`",
    ),
    (
        &["blocked", "degraded", "progressing"],
        "a verdict: `/verdict:blocked` filters by it, `why` goes to what explains it",
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

/// Of a type of Cluster API's, unless the word has an answer of its own.
const CONDITION: &str = "a condition: `:condition TYPE` lists it, `/TYPE=False` filters by it, `capstan wait --for=condition=TYPE` waits for it";

/// Of a path whose last name has no answer.
const FIELD: &str =
    "a field of an object: `:yaml` shows it, `:edit` changes what is below spec, with a preview";

/// What to type instead of these words. Capitals, dashes and blanks do not matter; the first two words are tried before
/// the first, and of a path its last name.
pub fn answer(typed: &str) -> Option<&'static str> {
    let words: Vec<String> = typed.split_whitespace().take(2).map(plain).collect();
    // A single letter is not a word: `pause d` is not `paused`.
    let is_pair = words.get(1).is_some_and(|second| second.len() > 1);
    let pair = is_pair.then(|| of_word(&words.concat())).flatten();
    pair.or_else(|| of_word(words.first()?)).or_else(|| of_path(typed.split_whitespace().next()?))
}

fn of_word(word: &str) -> Option<&'static str> {
    let own = ANSWERS.iter().find(|(known, _)| known.contains(&word)).map(|(_, said)| *said);
    let is_condition = || CONDITION_TYPES.iter().any(|type_| type_.name.eq_ignore_ascii_case(word));
    own.or_else(|| is_condition().then_some(CONDITION))
}

/// `spec.rolloutAfter`, and any other field of an object.
fn of_path(typed: &str) -> Option<&'static str> {
    let names: Vec<&str> = typed.trim_start_matches(':').split('.').collect();
    let [_, .., last] = names.as_slice() else { return None };
    let is_field = || names.iter().any(|name| ["spec", "status", "metadata"].contains(name));
    of_word(&plain(last)).or_else(|| is_field().then_some(FIELD))
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
            let is_condition = CONDITION_TYPES.iter().any(|type_| type_.name.eq_ignore_ascii_case(word));
            assert!(!is_condition || *word == "paused", "`{word}` has the answer of conditions");
            let is_command = TABLE.iter().any(|c| c.name == *word || c.aliases.contains(word));
            assert!(!is_command, "`{word}` is a command");
        }
    }

    #[test]
    fn answers_name_commands_that_exist() {
        let names: BTreeSet<&str> =
            TABLE.iter().flat_map(|c| std::iter::once(c.name).chain(c.aliases.iter().copied())).collect();
        let of_all = [(&[][..], CONDITION), (&[][..], FIELD)];
        for (words, said) in ANSWERS.iter().chain(&of_all) {
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
        for path in ["spec.rolloutAfter", "rollout.upgradeAfter", "spec.upgradeAfter x"] {
            assert!(answer(path).is_some_and(|said| said.contains("spec.rollout.after")), "{path}");
        }
        assert_eq!(answer("status.nodeRef"), Some(FIELD));
        assert_eq!(answer("leases.coordination.k8s.io"), None, "a kind of the server");
        assert_eq!(answer("topology-reconciled"), Some(CONDITION));
        assert!(answer("--cloud-migration-config=x").is_none(), "a value is not part of the word");
        assert_eq!(answer("pause d"), None, "not `paused`");
        assert_eq!(answer("zzz"), None);
        assert_eq!(answer(""), None);
    }
}
