//! What a plan shows and sends, and what comes next for a run.

use super::*;
use crate::bootstrap::{self, Instance};

pub(super) fn instance() -> Instance {
    Instance { instance_id: "uid-1".to_owned(), local_hostname: "h1".to_owned() }
}

fn planned(data: &str) -> RunPlan {
    let data = bootstrap::read(data, &instance()).expect("bootstrap data");
    let options = RunOptions { provider_id: Some("capstan-host://h/m".to_owned()) };
    RunPlan::bootstrap(RunId::bootstrap("uid-1").expect("an id"), &data, &options)
}

const DATA: &str = "#cloud-config
write_files:
- path: /etc/late
  content: late
  defer: true
- path: /run/kubeadm/kubeadm.yaml
  owner: root:root
  permissions: '0640'
  content: 'token: abcdef.0123456789abcdef'
bootcmd: [[echo, it's]]
mounts: [[sdb, /data]]
users: [{name: ops, sudo: 'ALL=(ALL) NOPASSWD:ALL', ssh_authorized_keys: [ssh-ed25519 AAAA], passwd: $6$salt$hash, groups: 'a, b, c'}]
ntp: {servers: [time.example]}
runcmd:
- echo before
- kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete
- echo after
";

#[test]
fn a_plan_is_readable_and_has_no_secrets() {
    let plan = planned(DATA);
    let text = plan.to_string();
    let titles: Vec<&str> = plan.steps.iter().map(|step| step.title.as_str()).collect();
    let expected = [
        "note the network configuration that is there",
        r"run at boot: echo 'it'\''s'",
        "write /run/kubeadm/kubeadm.yaml as 0640 of root:root",
        "mount /data by /etc/fstab",
        "make group a",
        "make group b",
        "make group c",
        "make user ops",
        "set the password of ops",
        "lock the password of ops",
        "let ops use sudo, in /etc/sudoers.d/90-capstan-ops",
        "let ops in by ssh keys",
        "ask time.example for the time",
        "write /etc/late as 0644 of root:root",
        "let the kubelet name its Node capstan-host://h/m",
        "run: echo before",
        "run: kubeadm init --config /run/kubeadm/kubeadm.yaml  && echo success > /run/cluster-api/bootstrap-success.complete",
        "run: echo after",
        "remove /run/kubeadm/kubeadm.yaml",
    ];
    assert_eq!(titles, expected);
    assert_eq!(plan.kubeadm, Some(KubeadmStep { number: 17, verb: KubeadmVerb::Init }));
    let shown = format!("{text}{plan:?}{}", serde_json::to_string(&plan).expect("JSON"));
    for secret in ["abcdef.0123456789abcdef", "$6$salt$hash"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(text.contains("sha256 "), "{text}");
}

#[test]
fn titles_have_no_secrets_of_commands() {
    let data = "#cloud-config\nbootcmd: ['REGISTRY_PASSWORD=hunter22 registry-login']\nruncmd:\n- registry-login --password 'battery staple' -v\n- echo of hunter22\n";
    let plan = planned(data);
    let shown = format!("{plan}{}", serde_json::to_string(&plan).expect("JSON"));
    assert!(["hunter22", "battery", "staple"].iter().all(|word| !shown.contains(word)), "{shown}");
    assert!(shown.contains("run: registry-login --password '<secret>' -v"), "{shown}");
}

#[test]
fn the_step_of_kubeadm_is_the_one_that_says_success() {
    let sign = "echo success > /run/cluster-api/bootstrap-success.complete";
    let script = "write_files: [{path: /usr/local/bin/try, content: 'kubeadm join phase kubelet-start'}]\n";
    let run = format!("kubeadm init --config /run/kubeadm/kubeadm.yaml && {sign}");
    for (commands, expected) in [
        (vec!["kubeadm init phase certs all", &run], Some((1, KubeadmVerb::Init))),
        (vec!["echo later # kubeadm join", &run], Some((1, KubeadmVerb::Init))),
        (vec!["kubeadm join --help", &run], Some((1, KubeadmVerb::Init))),
        (vec!["true", "kubeadm --v=5 join x"], Some((1, KubeadmVerb::Join))),
        (vec!["sudo /usr/bin/kubeadm init"], Some((0, KubeadmVerb::Init))),
        (vec!["true", &format!("/usr/local/bin/try && {sign}")], Some((1, KubeadmVerb::Join))),
        (vec!["kubeadm init phase certs all", "kubeadm config images pull"], None),
    ] {
        let lines: String = commands.iter().map(|command| format!("- \"{command}\"\n")).collect();
        let plan = planned(&format!("#cloud-config\n{script}runcmd:\n{lines}"));
        // Before the commands: the network, the file, the provider id.
        let found = plan.kubeadm.map(|kubeadm| (kubeadm.number - 4, kubeadm.verb));
        assert_eq!(found, expected, "{commands:?}");
        let kinds = plan.steps.iter().filter(|step| step.kind == StepKind::Kubeadm).count();
        assert_eq!(kinds, usize::from(expected.is_some()), "{commands:?}");
    }
}

#[test]
fn the_same_data_is_the_same_run() {
    let (one, other) = (planned(DATA), planned(&DATA.replace("echo after", "echo then")));
    assert_eq!(one.digest, planned(DATA).digest);
    assert_ne!(one.digest, other.digest);
}

#[test]
fn requests_show_no_input() {
    let plan = planned(DATA);
    let owner = HostOwner::new("i", "h", "m", "c", 1).expect("an owner");
    let request = upload(&plan, &owner);
    assert!(!request.line.as_str().contains("0123456789abcdef"));
    let shown = format!("{request:?}");
    assert!(shown.starts_with("ShellRequest { input_bytes: ") && !shown.contains("abcdef"), "{shown}");
}

#[test]
fn uids_that_could_be_a_path_or_an_option_name_no_run() {
    for uid in ["", "-x", "a/b", "..", "a b", "a\n", "a.b", &"a".repeat(65)] {
        assert!(RunId::bootstrap(uid).is_err(), "{uid}");
    }
    let id = RunId::reset("6f1c-2", 3).expect("an id");
    assert_eq!(id.unit(), "capstan-6f1c-2.reset3.service");
    assert_eq!(id.folder(), "/var/lib/capstan/runs/6f1c-2.reset3");
}

/// A journal in which the steps up to a number ended well, and the next one has begun.
fn journal(plan: &RunPlan, ended: u32, open: Option<u32>) -> Journal {
    let end = Some(StepEnd { code: 0, at_s: 2 });
    let mut steps: Vec<SeenStep> = (1..=ended).map(|number| SeenStep { number, started_s: 1, end }).collect();
    steps.extend(open.map(|number| SeenStep { number, started_s: 1, end: None }));
    Journal {
        digest: plan.digest.clone(),
        attempt: 1,
        from_step: 1,
        boot_id: "boot-1".to_owned(),
        steps,
        ..Journal::default()
    }
}

struct Case {
    plan: RunPlan,
    watched: Watched,
    is_control_plane: bool,
    node: NodeSeen,
    member: MemberSeen,
    is_cluster_initialized: Option<bool>,
    is_clean: Option<bool>,
    has_token_expired: bool,
}

impl Case {
    fn of(data: &str) -> Self {
        Self {
            plan: planned(data),
            watched: Watched { boot_id: "boot-1".to_owned(), ..Watched::default() },
            is_control_plane: true,
            node: NodeSeen::Unknown,
            member: MemberSeen::Unknown,
            is_cluster_initialized: None,
            is_clean: None,
            has_token_expired: false,
        }
    }

    fn died(data: &str, ended: u32, open: Option<u32>) -> Self {
        let case = Self::of(data);
        let journal = journal(&case.plan, ended, open);
        Self { watched: Watched { journal: Some(journal), ..case.watched.clone() }, ..case }
    }

    fn journal(&mut self) -> &mut Journal {
        self.watched.journal.as_mut().expect("a journal")
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn next(&self) -> RunNext {
        decide(&ObservedRun {
            plan: &self.plan,
            watched: &self.watched,
            is_control_plane: self.is_control_plane,
            node: self.node,
            member: self.member,
            is_cluster_initialized: self.is_cluster_initialized,
            is_clean: self.is_clean,
            has_token_expired: self.has_token_expired,
        })
    }
}

fn start(attempt: u32, from_step: u32, why: StartReason) -> RunNext {
    RunNext::Start { start: Start { attempt, from_step }, why }
}

#[test]
fn a_run_that_goes_well() {
    assert_eq!(Case::of(DATA).next(), RunNext::Upload);
    let uploaded = Case::died(DATA, 0, None).with(|case| case.journal().attempt = 0);
    assert_eq!(uploaded.next(), start(1, 1, StartReason::Begin));
    let other = uploaded.with(|case| case.journal().digest = "other".to_owned());
    assert_eq!(other.next(), RunNext::Upload);
    let runs = Case::died(DATA, 2, Some(3)).with(|case| case.watched.is_unit_active = true);
    assert_eq!(runs.next(), RunNext::Wait { step: 3 });
    let finished = Case::died(DATA, 19, None).with(|case| case.journal().is_finished = true);
    assert_eq!(finished.next(), RunNext::Done);
    let failed = Case::died(DATA, 2, None).with(|case| {
        case.journal().steps.push(SeenStep {
            number: 3,
            started_s: 1,
            end: Some(StepEnd { code: 7, at_s: 2 }),
        });
    });
    assert_eq!(failed.next(), RunNext::Failed { step: 3, code: 7 });
}

#[test]
fn a_run_that_died_away_from_kubeadm_goes_on() {
    assert_eq!(Case::died(DATA, 3, Some(4)).next(), start(2, 4, StartReason::Died));
    assert_eq!(Case::died(DATA, 3, None).next(), start(2, 4, StartReason::Died));
    let rebooted = Case::died(DATA, 3, Some(4)).with(|case| case.watched.boot_id = "boot-2".to_owned());
    assert_eq!(rebooted.next(), start(2, 1, StartReason::Rebooted));
    // What stands behind kubeadm is never a reason to run it again.
    for boot in ["boot-1", "boot-2"] {
        let case = Case::died(DATA, 17, Some(18)).with(|case| case.watched.boot_id = boot.to_owned());
        assert_eq!(case.next(), start(2, 18, StartReason::KubeadmHadEnded));
    }
    // It ended whole, and was cut off before it was marked so.
    assert_eq!(Case::died(DATA, 19, None).next(), start(2, 20, StartReason::KubeadmHadEnded));
}

#[test]
fn a_dead_init_is_taken_back_unless_somebody_may_live_in_it() {
    let dead = || Case::died(DATA, 16, Some(17));
    assert_eq!(dead().next(), RunNext::Reset { why: ResetReason::KubeadmDied });
    let made = || dead().with(|case| case.watched.traces.has_kubelet_configuration = true);
    assert_eq!(made().next(), RunNext::FindOut { what: UnknownFact::Cluster });
    assert_eq!(
        made().with(|case| case.is_cluster_initialized = Some(false)).next(),
        RunNext::Reset { why: ResetReason::KubeadmDied }
    );
    let lives = made().with(|case| case.is_cluster_initialized = Some(true));
    assert_eq!(lives.next(), RunNext::AskPerson { why: AskReason::ClusterMayLive });
    let ended = made().with(|case| case.watched.traces.has_sentinel = true);
    assert_eq!(ended.next(), start(2, 18, StartReason::KubeadmHadEnded));
    // After a reboot that file is of another run, if it is there at all.
    let rebooted = ended.with(|case| case.watched.boot_id = "boot-2".to_owned());
    assert_eq!(rebooted.next(), RunNext::FindOut { what: UnknownFact::Cluster });
    let often = dead().with(|case| case.journal().resets = 3);
    assert_eq!(often.next(), RunNext::AskPerson { why: AskReason::TooManyResets });
}

#[test]
fn a_journal_counts_as_its_own_plan_did() {
    let of_older = |seen: SeenKubeadm| {
        Case::died(DATA, 14, Some(15)).with(|case| {
            case.journal().digest = "older".to_owned();
            case.journal().kubeadm = seen;
            case.watched.traces.has_kubelet_configuration = true;
        })
    };
    let kubeadm = KubeadmStep { number: 15, verb: KubeadmVerb::Init };
    let dead = of_older(SeenKubeadm::Step(kubeadm));
    assert_eq!(dead.next(), RunNext::FindOut { what: UnknownFact::Cluster });
    let ended = dead.with(|case| case.watched.traces.has_sentinel = true);
    assert_eq!(ended.next(), start(2, 16, StartReason::KubeadmHadEnded));
    let incomplete = RunNext::AskPerson { why: AskReason::JournalIncomplete };
    assert_eq!(of_older(SeenKubeadm::Unknown).next(), incomplete);
    // The attempt has no first step: a start that was cut off.
    let half = Case::died(DATA, 0, None).with(|case| case.journal().from_step = 0);
    assert_eq!(half.next(), incomplete);
}

#[test]
fn a_dead_join_is_counted_by_what_it_made() {
    let data = DATA.replace("kubeadm init", "kubeadm join");
    let worker = || {
        Case::died(&data, 16, Some(17)).with(|case| {
            case.is_control_plane = false;
            case.watched.traces.has_kubelet_configuration = true;
        })
    };
    assert_eq!(worker().next(), RunNext::FindOut { what: UnknownFact::Node });
    for (node, next) in [
        (NodeSeen::NotReady, start(2, 18, StartReason::KubeadmHadEnded)),
        (NodeSeen::Ready, start(2, 18, StartReason::KubeadmHadEnded)),
        (NodeSeen::Absent, RunNext::Reset { why: ResetReason::KubeadmDied }),
    ] {
        assert_eq!(worker().with(|case| case.node = node).next(), next);
    }
    let plane = |member: MemberSeen, node: NodeSeen, has_manifest: bool| {
        let case = worker().with(|case| {
            case.is_control_plane = true;
            (case.member, case.node) = (member, node);
            case.watched.traces.has_api_server_manifest = has_manifest;
        });
        case.next()
    };
    let (unknown, none, added, started) =
        (MemberSeen::Unknown, MemberSeen::NotAMember, MemberSeen::AddedNotStarted, MemberSeen::Started);
    assert_eq!(plane(unknown, NodeSeen::Ready, true), RunNext::FindOut { what: UnknownFact::Member });
    assert_eq!(plane(started, NodeSeen::Unknown, true), RunNext::FindOut { what: UnknownFact::Node });
    assert_eq!(plane(started, NodeSeen::Ready, true), start(2, 18, StartReason::KubeadmHadEnded));
    assert_eq!(plane(started, NodeSeen::Ready, false), RunNext::RemoveMember);
    assert_eq!(plane(added, NodeSeen::NotReady, true), RunNext::RemoveMember);
    assert_eq!(plane(none, NodeSeen::Absent, false), RunNext::Reset { why: ResetReason::KubeadmDied });
}

#[test]
fn after_a_reset_the_run_begins_again_once_the_machine_is_proved_clean() {
    let reset = || {
        Case::died(DATA, 16, Some(17)).with(|case| {
            case.journal().was_reset = true;
            case.journal().resets = 1;
        })
    };
    assert_eq!(reset().next(), RunNext::FindOut { what: UnknownFact::Proof });
    assert_eq!(
        reset().with(|case| case.is_clean = Some(false)).next(),
        RunNext::AskPerson { why: AskReason::NotClean }
    );
    let clean = || reset().with(|case| case.is_clean = Some(true));
    assert_eq!(clean().next(), start(2, 1, StartReason::AfterReset));
    assert_eq!(clean().with(|case| case.has_token_expired = true).next(), RunNext::RenewData);
    assert_eq!(clean().with(|case| case.journal().digest = "old".to_owned()).next(), RunNext::Upload);
}

#[test]
fn an_expired_token_is_renewed_behind_a_reset() {
    let data = DATA.replace("kubeadm init", "kubeadm join");
    let failed = || {
        Case::died(&data, 16, None).with(|case| {
            case.journal().steps.push(SeenStep {
                number: 17,
                started_s: 1,
                end: Some(StepEnd { code: 1, at_s: 2 }),
            });
        })
    };
    assert_eq!(failed().next(), RunNext::Failed { step: 17, code: 1 });
    let expired = failed().with(|case| case.has_token_expired = true);
    assert_eq!(expired.next(), RunNext::Reset { why: ResetReason::TokenExpired });
}

proptest::proptest! {
    /// Over all states: kubeadm is never begun a second time without a reset between, and nothing is started beside a unit.
    #[test]
    fn no_state_runs_kubeadm_twice(
        ended in 0_u32..20, from_step in 0_u32..4, is_open: bool, is_rebooted: bool, is_active: bool, was_reset: bool, is_finished: bool,
        traces in proptest::array::uniform3(proptest::bool::ANY), is_join: bool, is_control_plane: bool,
        node in 0_usize..4, member in 0_usize..4, cluster in 0_usize..3, clean in 0_usize..3, has_token_expired: bool,
        resets in 0_u32..5, is_other: bool, seen in 0_u32..20,
    ) {
        let data = if is_join { DATA.replace("kubeadm init", "kubeadm join") } else { DATA.to_owned() };
        let open = (is_open && ended < 19).then_some(ended + 1);
        let mut case = Case::died(&data, ended.min(19), open);
        let journal = case.journal();
        (journal.was_reset, journal.is_finished, journal.resets) = (was_reset, is_finished, resets);
        journal.from_step = from_step;
        // Of older data kubeadm's step may have another number, or none that is known.
        let verb = if is_join { KubeadmVerb::Join } else { KubeadmVerb::Init };
        let kubeadm = if is_other { seen } else { 17 };
        if is_other {
            journal.digest = "other".to_owned();
            journal.kubeadm = match seen {
                0 => SeenKubeadm::Unknown,
                number => SeenKubeadm::Step(KubeadmStep { number, verb }),
            };
        }
        if is_rebooted { case.watched.boot_id = "boot-2".to_owned(); }
        case.watched.is_unit_active = is_active;
        case.watched.traces = KubeadmTraces {
            has_kubelet_configuration: traces[0], has_api_server_manifest: traces[1], has_sentinel: traces[2],
        };
        case.is_control_plane = is_control_plane;
        case.node = [NodeSeen::Unknown, NodeSeen::Absent, NodeSeen::NotReady, NodeSeen::Ready][node];
        case.member = [MemberSeen::Unknown, MemberSeen::NotAMember, MemberSeen::AddedNotStarted, MemberSeen::Started][member];
        case.is_cluster_initialized = [None, Some(false), Some(true)][cluster];
        case.is_clean = [None, Some(false), Some(true)][clean];
        case.has_token_expired = has_token_expired;
        let next = case.next();
        if let RunNext::Start { start, .. } = next {
            let has_begun = ended.max(open.unwrap_or(0)) >= kubeadm && !was_reset;
            proptest::prop_assert!(!has_begun || start.from_step > kubeadm, "{:?}", next);
            // Where the first step of the attempt is not known, what had ended before it is not known either.
            proptest::prop_assert!(was_reset || from_step > 0, "{:?}", next);
            proptest::prop_assert!(!is_active && start.attempt == 2, "{:?}", next);
        }
        if let RunNext::Reset { .. } = next {
            proptest::prop_assert!(!is_active && !was_reset && resets < 3, "{:?}", next);
            proptest::prop_assert!(case.is_cluster_initialized != Some(true) || !traces[0] || is_join || is_other, "{:?}", next);
        }
    }

    #[test]
    fn no_answer_of_a_machine_is_too_strange(text in "((step|begin|attempt|ready|unit|log_next)=\\PC{0,40}\n){0,12}(end=yes\n)?\\PC{0,40}") {
        if let Ok(watched) = read_watch(&text, &Redactor::default()) {
            let case = Case { watched, ..Case::of(DATA) };
            case.next();
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]

    /// No text of bootstrap data becomes a command or another word of a step's line.
    #[test]
    fn a_line_of_the_script_has_the_words_it_was_given(path in "/[ -~]{1,30}[!-.0-~]", id in "[ -~]{1,30}") {
        let data = format!("#cloud-config\nwrite_files: [{{path: {}}}]\n", serde_json::to_string(&path).expect("JSON"));
        if let Ok(data) = bootstrap::read(&data, &instance()) {
            let options = RunOptions { provider_id: Some(id.clone()) };
            let plan = RunPlan::bootstrap(RunId::bootstrap("uid-1").expect("an id"), &data, &options);
            let lines: String = plan.steps.iter().map(|step| format!("{}\n", step.line())).collect();
            let program = format!("step() {{ for word in \"$@\"; do printf '%s\\n' \"$word\"; done; }}\n{lines}");
            let output = std::process::Command::new("sh").arg("-c").arg(&program).output().expect("a shell");
            let expected = format!("001\nnote_network\n002\nput_file\n002\n{path}\n0644\nroot:root\n003\nset_provider_id\n{id}\n");
            proptest::prop_assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", program);
        }
    }
}

#[test]
fn a_reset_is_repeated_until_its_end() {
    let of = RunId::bootstrap("uid-1").expect("an id");
    let options = ResetOptions { of, cri_socket: None };
    let plan = RunPlan::reset(RunId::reset("uid-1", 1).expect("an id"), &options);
    let mut watched = Watched::default();
    assert_eq!(decide_reset(&plan, &watched), ResetNext::Upload);
    watched.journal = Some(Journal { attempt: 0, ..journal(&plan, 0, None) });
    assert_eq!(decide_reset(&plan, &watched), ResetNext::Start(Start { attempt: 1, from_step: 1 }));
    watched.journal = Some(journal(&plan, 2, Some(3)));
    assert_eq!(decide_reset(&plan, &watched), ResetNext::Start(Start { attempt: 2, from_step: 3 }));
    watched.is_unit_active = true;
    assert_eq!(decide_reset(&plan, &watched), ResetNext::Wait { step: 3 });
    watched = Watched {
        journal: Some(Journal { is_finished: true, ..journal(&plan, 8, None) }),
        ..Watched::default()
    };
    assert_eq!(decide_reset(&plan, &watched), ResetNext::Ended);
    assert_eq!(plan.kubeadm, None);
}
