//! One case for each failure of the catalogue, the mixed-version table, and the built-in files by release.

use super::actors::{reachable_holders, who_runs};
use super::configuration::{ConfigVersion, Configuration};
use super::controller_names::Function;
use super::flags::Flags;
use super::manager_kind::ManagerKind;
use super::process::{ConfigFile, Process};
use super::reading::read;
use super::release::Release;
use super::rights::{Grantee, questions};
use super::rules::{Finding, FindingSeverity, RULES};
use super::validate::{ClusterFacts, LeaseFact, RightFact, behaviours, validate};
use super::writing::{generate, write};

use ManagerKind::{CloudControllerManager as Ccm, KubeControllerManager as Kcm};

const OLD_NAMES: &str = "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: move
controllerLeaders:
  - name: route
    component: '*'
  - name: service
    component: '*'
  - name: cloud-node-lifecycle
    component: '*'
";

const ENABLED: &str = "--enable-leader-migration --leader-migration-config=/m.yaml --cloud-provider=aws";

pub(super) fn process(manager: ManagerKind, release: u64, args: &str, text: &str) -> Process {
    let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
    let flags = Flags::parse(manager, &args).expect("flags");
    let file = match flags.migration_config.as_str() {
        "" => ConfigFile::BuiltIn,
        _ => ConfigFile::Read { name: "m.yaml".to_owned(), reading: read(text) },
    };
    let name = manager.short().to_owned();
    let release = Release(release);
    Process {
        name,
        manager,
        node: None,
        release,
        is_release_assumed: false,
        flags,
        file,
        mounts: None,
        started_at: None,
        trouble: None,
        is_ready: false,
        is_in_shell: false,
    }
}

fn kcm(args: &str, text: &str) -> Process {
    process(Kcm, 27, args, text)
}

fn ccm(args: &str, text: &str) -> Process {
    process(Ccm, 27, args, text)
}

/// The ordinary pair of stage 3.
fn pair() -> Vec<Process> {
    vec![kcm(ENABLED, OLD_NAMES), ccm(ENABLED, OLD_NAMES)]
}

fn with(change: impl Fn(&mut Vec<Process>)) -> Vec<Process> {
    let mut processes = pair();
    change(&mut processes);
    processes
}

fn codes(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

fn judged(processes: &[Process]) -> Vec<Finding> {
    validate(processes, &ClusterFacts::default())
}

/// Replaces in the usual text, and fails where there is nothing to replace.
fn edited(from: &str, to: &str) -> String {
    assert!(OLD_NAMES.contains(from), "{from}");
    OLD_NAMES.replace(from, to)
}

#[test]
fn the_ordinary_pair_has_no_findings() {
    assert_eq!(judged(&pair()), []);
}

/// Failures that flags and files alone show: code, whether it must be an error, the processes.
fn cases() -> Vec<(&'static str, FindingSeverity, Vec<Process>)> {
    use FindingSeverity::{Error, Info, Warning};
    let plain = "--cloud-provider=aws";
    vec![
        ("F1", Error, vec![kcm(ENABLED, OLD_NAMES), ccm(ENABLED, &edited("move", "other"))]),
        (
            "F2",
            Error,
            vec![
                kcm(
                    ENABLED,
                    &format!("{OLD_NAMES}  - name: cloud-node\n    component: kube-controller-manager\n"),
                ),
                ccm(ENABLED, OLD_NAMES),
            ],
        ),
        (
            "F3",
            Error,
            with(|p| {
                let text = edited("  - name: service\n    component: '*'\n", "");
                p[0] = kcm(ENABLED, &text);
                p[1] = ccm(ENABLED, &text);
            }),
        ),
        ("F4", Error, vec![kcm(ENABLED, OLD_NAMES), process(Ccm, 28, ENABLED, OLD_NAMES)]),
        ("F5", Error, vec![kcm(plain, ""), ccm(ENABLED, OLD_NAMES)]),
        ("F6", Error, vec![kcm("--leader-migration-config=/m.yaml --cloud-provider=aws", OLD_NAMES)]),
        (
            "F7",
            Error,
            vec![kcm(&format!("{ENABLED} --leader-elect=false"), OLD_NAMES), ccm(ENABLED, OLD_NAMES)],
        ),
        (
            "F8",
            Error,
            vec![
                kcm(ENABLED, OLD_NAMES),
                ccm(&format!("{ENABLED} --leader-elect-resource-namespace=x"), OLD_NAMES),
            ],
        ),
        (
            "F10",
            Error,
            vec![
                kcm(ENABLED, &OLD_NAMES.replace("'*'", "cloud-controller-manager")),
                ccm(ENABLED, OLD_NAMES),
            ],
        ),
        (
            "F11",
            Error,
            vec![kcm(
                ENABLED,
                &edited("/v1\n", "/v1beta1\n").replace("leaderName", "resourceLock: endpoints\nleaderName"),
            )],
        ),
        ("F12", Warning, vec![kcm(ENABLED, &edited("leaderName", "resourceLock: leases\nleaderName"))]),
        (
            "F12",
            Error,
            vec![process(Ccm, 32, ENABLED, &edited("leaderName", "resourceLock: leases\nleaderName"))],
        ),
        ("F13", Error, vec![kcm(ENABLED, &edited("'*'", "*"))]),
        (
            "F14",
            Error,
            vec![kcm(&format!("{ENABLED} --feature-gates=CoordinatedLeaderElection=true"), OLD_NAMES)],
        ),
        ("F15", Error, vec![kcm(&format!("{ENABLED} --controllers=*,-serviceaccount-token"), OLD_NAMES)]),
        ("F16", Info, vec![process(Kcm, 31, "--enable-leader-migration --cloud-provider=external", "")]),
        ("F17", Error, with(|p| p[0].mounts = Some(vec!["/etc".to_owned()]))),
        ("F18", Error, vec![kcm(ENABLED, &edited("move", "kube-controller-manager"))]),
        (
            "F19",
            Warning,
            vec![
                kcm(ENABLED, OLD_NAMES),
                ccm(&format!("{ENABLED} --leader-elect-lease-duration=60s"), OLD_NAMES),
            ],
        ),
        ("F20", Error, {
            let mut processes = vec![kcm(plain, ""), ccm(ENABLED, OLD_NAMES)];
            processes.iter_mut().for_each(|p| p.node = Some("cp-1".to_owned()));
            processes
        }),
        ("F22", Info, {
            let mut processes = vec![kcm(ENABLED, OLD_NAMES), kcm(ENABLED, OLD_NAMES)];
            processes.iter_mut().for_each(|p| p.node = Some("cp-1".to_owned()));
            processes
        }),
        ("file", Error, vec![kcm(ENABLED, &edited("leaderName: move\n", ""))]),
        ("flag", Error, vec![kcm("--cloud-provider=aws --enable-leader-migrations", "")]),
        ("flag", Error, vec![kcm("--cloud-provider=aws --leader-migration-config", "")]),
        ("flag", Error, with(|p| p[1] = ccm(&format!("{ENABLED} --leader-elects=true"), OLD_NAMES))),
        ("build-flag", Warning, with(|p| p[1] = ccm(&format!("{ENABLED} --multi-project"), OLD_NAMES))),
        ("shell", Warning, with(|p| p[0].is_in_shell = true)),
        ("component", Error, vec![kcm(ENABLED, &edited("'*'", "kcm"))]),
        ("version", Error, vec![process(Kcm, 23, ENABLED, OLD_NAMES)]),
        ("lease-name", Error, vec![kcm(ENABLED, &edited("move", "Move_it"))]),
        ("provider-name", Warning, vec![ccm(ENABLED, &edited("name: route", "name: aws-tagging"))]),
        ("not-known", Warning, with(|p| p[0].file = ConfigFile::NotKnown { path: "/m.yaml".to_owned() })),
        ("release", Warning, with(|p| p[1].is_release_assumed = true)),
        ("timing", Error, vec![kcm(&format!("{ENABLED} --leader-elect-renew-deadline=2s"), OLD_NAMES)]),
        ("margin", Warning, vec![kcm(&format!("{ENABLED} --leader-elect-renew-deadline=14s"), OLD_NAMES)]),
        ("cloud-provider", Error, vec![process(Kcm, 31, "--cloud-provider=aws", "")]),
        (
            "node-ipam",
            Error,
            with(|p| {
                let text = format!("{OLD_NAMES}  - name: nodeipam\n    component: '*'\n");
                p[0] = kcm(&format!("{ENABLED} --allocate-node-cidrs --cluster-cidr=10.0.0.0/16"), &text);
                p[1] = ccm(&format!("{ENABLED} --allocate-node-cidrs --cluster-cidr=10.1.0.0/16"), &text);
            }),
        ),
        ("not-running", Error, with(|p| p[0].trouble = Some("CrashLoopBackOff: no such file".to_owned()))),
        ("two-actors", Error, vec![kcm(plain, ""), ccm(ENABLED, OLD_NAMES)]),
        ("no-actor", Error, vec![kcm(ENABLED, &OLD_NAMES.replace("'*'", "cloud-controller-manager"))]),
    ]
}

fn rights(allowed: Option<bool>) -> ClusterFacts {
    let asked = questions(&[Grantee::kube_controller_manager()], "kube-system", "move");
    let rights = asked.into_iter().map(|question| RightFact { question, allowed }).collect();
    ClusterFacts { rights, ..ClusterFacts::default() }
}

fn lease(change: impl Fn(&mut LeaseFact)) -> ClusterFacts {
    let (namespace, name) = ("kube-system".to_owned(), "move".to_owned());
    let mut lease = LeaseFact { namespace, name, ..LeaseFact::default() };
    change(&mut lease);
    ClusterFacts { leases: vec![lease], ..ClusterFacts::default() }
}

#[test]
fn every_failure_has_a_case_that_finds_it() {
    let mut found: Vec<&str> = Vec::new();
    for (code, severity, processes) in cases() {
        let findings = judged(&processes);
        let finding = findings.iter().find(|finding| finding.code == code);
        let finding = finding.unwrap_or_else(|| panic!("{code}: {findings:#?}"));
        assert_eq!(finding.severity, severity, "{code}: {}", finding.problem);
        assert!(!finding.effect().is_empty() && !finding.remedy().is_empty(), "{code}");
        found.push(code);
    }
    for (code, facts) in [
        ("F9", rights(Some(false))),
        ("F9", rights(None)),
        ("F14", lease(|l| l.is_coordinated = true)),
        ("F21", lease(|l| l.was_made_anew = true)),
    ] {
        assert!(codes(&validate(&pair(), &facts)).contains(&code), "{code}");
        found.push(code);
    }
    let missing: Vec<&str> = RULES.iter().map(|r| r.code).filter(|code| !found.contains(code)).collect();
    assert_eq!(missing, Vec::<&str>::new(), "rules without a case");
}

/// A process that is ready has taken its flags: it is another build, and not a slip.
#[test]
fn a_flag_that_a_running_process_has_taken_is_no_error() {
    let mut processes = vec![kcm(&format!("{ENABLED} --openshift-config=/c"), OLD_NAMES)];
    assert_eq!(codes(&judged(&processes))[0], "flag");
    processes[0].is_ready = true;
    let findings = judged(&processes);
    assert_eq!(codes(&findings), ["build-flag"]);
    assert_eq!(findings[0].problem, "unknown flag --openshift-config, and it runs");
}

/// An edit that replaced the list of flags by the new ones.
#[test]
fn a_lost_cloud_provider_is_named() {
    let migration = "--enable-leader-migration --leader-migration-config=/m.yaml";
    let lost = |processes: &[Process]| {
        let findings = judged(processes);
        let found = findings.into_iter().find(|finding| finding.code == "F10");
        found.map(|finding| (finding.severity, finding.subjects.len(), finding.problem))
    };
    let error = |count, problem: &str| Some((FindingSeverity::Error, count, problem.to_owned()));
    let missing = "of the listed controllers it runs none: --cloud-provider is missing";
    assert_eq!(lost(&[kcm(migration, OLD_NAMES)]), error(1, missing));
    assert_eq!(lost(&[kcm(migration, OLD_NAMES), ccm(ENABLED, OLD_NAMES)]), error(1, missing));
    let beside = "--cloud-provider is missing, which another one has, and no cloud-controller-manager runs";
    assert_eq!(lost(&[kcm("", ""), kcm(ENABLED, OLD_NAMES)]), error(1, beside));
    // Ordinary: a new manager beside the cloud's, and a cluster that never had a provider.
    assert_eq!(lost(&[kcm("", ""), kcm(ENABLED, OLD_NAMES), ccm(ENABLED, OLD_NAMES)]), None);
    assert_eq!(lost(&[kcm("", ""), kcm("", "")]), None);
}

#[test]
fn a_state_in_which_nobody_runs_a_controller_is_told_in_a_sentence() {
    let findings = judged(&[kcm(&format!("{ENABLED} --leader-elect-renew-deadline=2s"), OLD_NAMES)]);
    let idle = findings.iter().find(|finding| finding.code == "no-actor").expect("nobody");
    assert_eq!(idle.problem, "routes, while nobody holds a main lock, and nobody holds the migration lock");
    assert!(!idle.subjects.is_empty(), "{idle:?}");
}

#[test]
fn a_finding_names_the_line_and_what_was_expected() {
    for (text, problem) in [
        (edited("'*'", "*"), "m.yaml:6: an unquoted * begins an alias of YAML: expected \"*\" in quotes"),
        (
            edited("    component: '*'\n  - name: service", "\tcomponent: '*'\n  - name: service"),
            "m.yaml:6: a tab in the indentation: expected blanks, YAML takes no tabs there",
        ),
        (
            edited("    component: '*'\n  - name: service", "  - component: '*'\n  - name: service"),
            "m.yaml:6: a dash before component begins an entry of its own: expected component below name, without a dash",
        ),
        (edited("name: service", "name: route"), "m.yaml:7: route is listed twice: the last entry counts"),
        (edited("leaderName: move", "leaderName: 5"), "m.yaml:3: leaderName: 5: expected a text"),
        (
            edited("leaderName: move", "leaderName: move\nleaderName: a"),
            "m.yaml:4: the same field twice: older readers take the last one",
        ),
        (
            edited("leaderName: move", "leaderName: move\nleader: a"),
            "m.yaml:4: unknown field leader: expected one of apiVersion, kind, leaderName, resourceLock, controllerLeaders",
        ),
        (
            edited("/v1\n", "/v2\n"),
            "m.yaml:1: apiVersion \"controllermanager.config.k8s.io/v2\": expected one of \
            controllermanager.config.k8s.io/v1alpha1, controllermanager.config.k8s.io/v1beta1, controllermanager.config.k8s.io/v1",
        ),
        (edited("/v1\n", "/v1beta1\n"), "m.yaml:1: resourceLock is missing: v1beta1 requires leases"),
        (
            edited("kind: Leader", "kind: "),
            "m.yaml:2: kind \"MigrationConfiguration\": expected LeaderMigrationConfiguration",
        ),
        (
            edited("    component: '*'\n  - name: service", "  - name: service"),
            "m.yaml:5: controllerLeaders[0]: component is missing or empty",
        ),
        (
            edited("leaderName", "more: 1\nleaderName").replacen(
                "    component: '*'\n  - name: service",
                "  - name: service",
                1,
            ),
            "m.yaml:6: controllerLeaders[0]: component is missing or empty",
        ),
        (edited("'*'", "*kcm"), "m.yaml:6: not YAML: "),
        (String::new(), "m.yaml:1: empty: expected a LeaderMigrationConfiguration"),
    ] {
        let findings = judged(&[kcm(ENABLED, &text)]);
        assert!(findings.iter().any(|f| f.problem.starts_with(problem)), "{problem}\n{findings:#?}");
    }
}

/// An anchor and its alias are YAML like any other.
#[test]
fn aliases_with_an_anchor_are_read() {
    let text = edited("move", "&name move").replacen("component: '*'", "component: *any", 1);
    let text =
        text.replace("leaderName", "resourceLock: &any '*'\nleaderName").replace("/v1\n", "/v1beta1\n");
    let reading = read(&text);
    let read = reading.configuration.expect("a configuration");
    assert_eq!((read.leader_name.as_str(), read.component_of("route")), ("move", Some("*")));
}

#[test]
fn which_mixes_of_versions_have_at_most_one_actor() {
    let unflagged = "--cloud-provider=aws";
    let n = || kcm(ENABLED, OLD_NAMES);
    let with_flag = |flag: &str| ccm(&format!("{ENABLED} {flag}"), OLD_NAMES);
    for (what, processes, is_safe) in [
        ("N flagged alone", vec![n()], true),
        ("N flagged, CCM flagged", pair(), true),
        ("N un-flagged, CCM flagged", vec![kcm(unflagged, ""), ccm(ENABLED, OLD_NAMES)], false),
        ("N flagged, CCM un-flagged", vec![n(), ccm("", "")], false),
        (
            "N+1 external, CCM flagged",
            vec![process(Kcm, 28, "--cloud-provider=external", ""), ccm(ENABLED, OLD_NAMES)],
            true,
        ),
        (
            "N+1 external, CCM un-flagged",
            vec![process(Kcm, 28, "--cloud-provider=external", ""), ccm("", "")],
            true,
        ),
        ("another leaderName", vec![n(), ccm(ENABLED, &edited("move", "b"))], false),
        ("another namespace", vec![n(), with_flag("--leader-elect-resource-namespace=b")], false),
        ("no election", vec![n(), with_flag("--leader-elect=false")], false),
        ("flagged and un-flagged of one kind", vec![n(), kcm(unflagged, "")], true),
        (
            "KCM for KCM, CCM for CCM",
            vec![
                kcm(ENABLED, &OLD_NAMES.replace("'*'", "kube-controller-manager")),
                ccm(ENABLED, &OLD_NAMES.replace("'*'", "cloud-controller-manager")),
            ],
            true,
        ),
    ] {
        let running: Vec<_> =
            behaviours(&processes, &ClusterFacts::default()).into_iter().map(|(_, b)| b).collect();
        let most = reachable_holders(&running)
            .iter()
            .flat_map(|state| Function::ALL.map(|function| who_runs(function, &running, state).len()))
            .max();
        assert_eq!(most.is_some_and(|most| most < 2), is_safe, "{what}: {most:?}");
        let findings = judged(&processes);
        assert_eq!(codes(&findings).contains(&"two-actors"), !is_safe, "{what}: {findings:#?}");
    }
}

/// From 1.28 on the built-in file leaves routes and load balancers under the main locks.
#[test]
fn the_built_in_files() {
    for (release, doubles) in [(24, 0), (27, 0), (28, 2), (30, 2)] {
        let args = "--enable-leader-migration --cloud-provider=aws";
        let findings = judged(&[process(Kcm, release, args, ""), process(Ccm, release, args, "")]);
        let twice = findings.iter().filter(|finding| finding.code == "two-actors").count();
        assert_eq!(twice, doubles, "1.{release}: {findings:#?}");
    }
    let late = judged(&[
        process(Kcm, 31, "--enable-leader-migration", ""),
        process(Ccm, 31, "--enable-leader-migration", ""),
    ]);
    assert!(codes(&late).contains(&"F16") && codes(&late).contains(&"F10"), "{late:#?}");
}

#[test]
fn what_is_written_is_read_back_by_the_oldest_reader() {
    for (release, version) in [
        (21, ConfigVersion::V1Alpha1),
        (23, ConfigVersion::V1Beta1),
        (24, ConfigVersion::V1),
        (30, ConfigVersion::V1),
    ] {
        let release = Release(release);
        for leader_name in ["cloud-provider-extraction-migration", "on", "a.b-1", "x: y"] {
            let (configuration, chosen) =
                generate(leader_name, &Function::ALL, "*", release).expect("a version");
            assert_eq!(chosen, version);
            let reading = read(&write(&configuration, chosen));
            assert_eq!((reading.defects.clone(), reading.ends(release)), (Vec::new(), false), "{reading:?}");
            assert_eq!(reading.configuration, Some(configuration));
        }
    }
    assert_eq!(generate("a", &[], "*", Release(20)), None);
    for version in ConfigVersion::ALL {
        let built_in = Configuration::built_in(Release(27));
        assert_eq!(read(&write(&built_in, version)).configuration, Some(built_in));
    }
}

#[test]
fn the_document_has_the_table() {
    let rows: String = RULES
        .iter()
        .map(|r| {
            format!("| {} | {} | {} | {} | {} |\n", r.code, r.severity.word(), r.cause, r.effect, r.remedy)
        })
        .collect();
    let document = include_str!("../../../docs/leader-migration.md");
    assert!(
        document.contains(&rows),
        "docs/leader-migration.md: its table of findings must have these rows:\n{rows}"
    );
}
