//! The failures of a leader migration as a table: code, how bad, what happens, what to do. Owns the words that
//! findings share; must not know how a failure is found.

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingSeverity {
    /// Nothing needs to be done.
    Info,
    /// It works now, and does not in a case that happens.
    Warning,
    /// Controllers run twice or nowhere, or a process ends.
    Error,
}

impl FindingSeverity {
    /// For a column and for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A way in which a migration fails, and what to do.
pub struct Rule {
    /// Stable: scripts may look for it.
    pub code: &'static str,
    /// Of every finding with this code.
    pub severity: FindingSeverity,
    /// What is wrong, in a few words.
    pub cause: &'static str,
    /// What the cluster does because of it.
    pub effect: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

const fn rule(
    code: &'static str,
    severity: FindingSeverity,
    cause: &'static str,
    effect: &'static str,
    remedy: &'static str,
) -> Rule {
    Rule { code, severity, cause, effect, remedy }
}

use FindingSeverity::{Error, Info, Warning};

/// Every failure, in the order of docs/leader-migration.md.
pub const RULES: &[Rule] = &[
    rule(
        "F1",
        Error,
        "processes name different migration Leases",
        "each lock has a holder, and both run the controllers",
        "use one leaderName in every file",
    ),
    rule(
        "F2",
        Error,
        "a controller is listed for a process that does not have it",
        "the process holds the lock and does not run the controller: it runs nowhere",
        "list the controller for a component that has it, or for \"*\"",
    ),
    rule(
        "F3",
        Error,
        "a controller that both kinds of process have is not in every list",
        "it runs under the main lock of each of them, so twice",
        "list it in the file of each process that has it",
    ),
    rule(
        "F4",
        Error,
        "a name that no controller has in this release",
        "the entry matches nothing: the controller counts as not listed",
        "write the name of the release that reads the file",
    ),
    rule(
        "F5",
        Error,
        "a process without the enable flag beside one of the other kind",
        "it runs all its controllers under its main lock and does not look at the migration lock",
        "give every process of the old release the flag before the first of the other kind starts",
    ),
    rule(
        "F6",
        Error,
        "a migration file without the enable flag",
        "the file is ignored without a word: leader migration is off",
        "add --enable-leader-migration",
    ),
    rule(
        "F7",
        Error,
        "leader election is off",
        "leader migration is off, and every replica runs all its controllers",
        "remove --leader-elect=false",
    ),
    rule(
        "F8",
        Error,
        "processes keep their Leases in different places",
        "they do not exclude each other",
        "give every process the same --leader-elect-resource-namespace, and those of one kind the same name",
    ),
    rule(
        "F9",
        Error,
        "a right on the migration Lease is missing",
        "the process tries for ever, and the migrated controllers stop everywhere",
        "apply what `capstan leader-migration rights` prints",
    ),
    rule(
        "F10",
        Error,
        "a process has lost its cloud provider, or the migration lock gives it nothing to run",
        "when it wins the lock, nobody runs the controllers",
        "give it back the --cloud-provider that it had; one that never had it does not need the enable flag",
    ),
    rule(
        "F11",
        Error,
        "resourceLock is endpoints",
        "the process exits at its start: that lock does not exist any more",
        "write leases",
    ),
    rule(
        "F12",
        Error,
        "resourceLock in a v1 file",
        "1.32 and later exit at their start; earlier ones ignore it",
        "leave the field out",
    ),
    rule(
        "F13",
        Error,
        "a file that does not say what it seems to say",
        "it cannot be read and the process exits, or the last of equal entries counts",
        "write it anew: `capstan leader-migration generate`",
    ),
    rule(
        "F14",
        Error,
        "coordinated leader election is on",
        "the migration lock has no candidates, so nobody ever holds it",
        "switch CoordinatedLeaderElection off during the migration",
    ),
    rule(
        "F15",
        Error,
        "the token controller is disabled (up to 1.33)",
        "the process never begins to compete for the migration lock",
        "enable serviceaccount-token-controller in --controllers",
    ),
    rule(
        "F16",
        Info,
        "the source is 1.31 or later",
        "its cloud controllers do not start: there is nothing to migrate but node IPAM",
        "start the cloud-controller-manager without leader migration",
    ),
    rule(
        "F17",
        Error,
        "the migration file is not mounted into the pod",
        "the process exits at its start: no such file",
        "mount it as a hostPath with type File, and put the file on the host first",
    ),
    rule(
        "F18",
        Error,
        "leaderName is the name of a main Lease",
        "a process waits for itself, or two electors write one record",
        "use a name of its own",
    ),
    rule(
        "F19",
        Warning,
        "processes have different election times",
        "it works; takeover takes as long as the record of the former holder says",
        "give every process the same --leader-elect-… times",
    ),
    rule(
        "F20",
        Error,
        "a cloud-controller-manager on a node whose kube-controller-manager has no enable flag",
        "both run the cloud controllers as soon as both hold their main locks",
        "keep it off such nodes until every kube-controller-manager has the flag",
    ),
    rule(
        "F21",
        Warning,
        "the Lease was deleted while it was held",
        "the holder makes it again or another process wins; its transitions begin at 0",
        "do not delete a held Lease; wait one lease duration before the next step",
    ),
    rule(
        "F22",
        Info,
        "processes of two clusters share host name and file",
        "nothing: identities end with a random part",
        "nothing",
    ),
    rule(
        "file",
        Error,
        "a file that upstream refuses",
        "the process exits at its start",
        "write it anew: `capstan leader-migration generate`",
    ),
    rule(
        "flag",
        Error,
        "a flag that the program does not have",
        "the process exits at its start",
        "write the flag as this release has it, or take it away",
    ),
    rule(
        "build-flag",
        Warning,
        "a flag that only a provider, another build or a later release can have",
        "if this build does not have it, the process exits at its start",
        "compare it with what the program lists for --help",
    ),
    rule(
        "shell",
        Warning,
        "a program that is started by a shell",
        "its flags are not seen: it was judged as if it had none",
        "give them: --kcm-flags or --ccm-flags of `capstan leader-migration validate`",
    ),
    rule(
        "component",
        Error,
        "a component that is no process",
        "upstream takes any text, and no process answers to it: the controller runs nowhere",
        "write kube-controller-manager, cloud-controller-manager or \"*\"",
    ),
    rule(
        "version",
        Error,
        "a file of a version that the release does not read",
        "the process exits at its start",
        "write it for the oldest reader: v1alpha1 for 1.21, v1beta1 to 1.23, v1 since; before 1.21 there is none",
    ),
    rule(
        "lease-name",
        Error,
        "leaderName cannot be the name of a Lease",
        "the API refuses the Lease, and nobody ever holds the lock",
        "use lower case letters, digits, - and .",
    ),
    rule(
        "provider-name",
        Warning,
        "a name that no known controller has",
        "if the provider has no controller of this name, the entry matches nothing",
        "compare it with the names that the process logs at its start",
    ),
    rule(
        "not-known",
        Warning,
        "a file whose content is not known here",
        "what this process runs under which lock was not judged",
        "give the file too: -f FILE",
    ),
    rule(
        "release",
        Warning,
        "the release was taken from an image tag",
        "a cloud-controller-manager has the names of its k8s.io/cloud-provider library, whatever its tag",
        "check the library's version, and give it: --ccm-version",
    ),
    rule(
        "timing",
        Error,
        "election times that exclude each other",
        "the process exits at its start",
        "lease duration > renew deadline > 1.2 × retry period, in whole seconds",
    ),
    rule(
        "margin",
        Warning,
        "little room between a late renewal and the takeover",
        "a holder with slow answers may act while the next one begins",
        "make the lease duration longer than renew deadline and retry period together",
    ),
    rule(
        "cloud-provider",
        Error,
        "a cloud provider that the release does not have",
        "the process exits at its start",
        "use --cloud-provider=external, and the cloud-controller-manager",
    ),
    rule(
        "node-ipam",
        Error,
        "both kinds allocate node CIDRs differently",
        "Nodes are marked as out of range, or two get one range",
        "use the same --cluster-cidr and mask size on both sides",
    ),
    rule(
        "not-running",
        Error,
        "the container of a process does not run",
        "the process competes for no lock, and runs nothing",
        "see what it said when it ended: a missing file, a flag or a file that it does not read",
    ),
    rule(
        "two-actors",
        Error,
        "two processes can run one controller at once",
        "routes, load balancers or addresses are changed by both",
        "see the findings above",
    ),
    rule(
        "no-actor",
        Error,
        "nobody runs a controller",
        "its work is not done while this state lasts",
        "see the findings above",
    ),
];

/// The row of a code.
pub fn find(code: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.code == code)
}

/// What is wrong in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of the [`Rule`].
    pub code: &'static str,
    /// How bad it is; the worst comes first in lists.
    pub severity: FindingSeverity,
    /// Processes and files, for people.
    pub subjects: Vec<String>,
    /// What is wrong here, with names and values.
    pub problem: String,
}

impl Finding {
    /// With the severity of the rule.
    pub fn new(code: &'static str, subjects: Vec<String>, problem: String) -> Self {
        let severity = find(code).map_or(FindingSeverity::Error, |rule| rule.severity);
        Self { code, severity, subjects, problem }
    }

    /// What the cluster does because of it, from the rule.
    pub fn effect(&self) -> &'static str {
        find(self.code).map_or("", |rule| rule.effect)
    }

    /// What to do about it, from the rule.
    pub fn remedy(&self) -> &'static str {
        find(self.code).map_or("", |rule| rule.remedy)
    }
}
