//! A run under real shells that is ended with SIGKILL at each of its programs and goes on as the rules say: the machine is then as
//! after a run that nobody ended, and kubeadm never began twice without a reset between.
//!
//! `CAPSTAN_KILLS=1000 cargo test -p capstan-hosts kills` kills that often; without it a few times under each shell.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::tests::instance;
use super::*;
use crate::bootstrap;
use crate::owner;
use crate::shell_machine::Machine;

const KILLS: usize = 2;
/// Only so that a mistake ends: a run of stand-ins takes a second, and a minute beside other tests.
const WITHIN: Duration = Duration::from_secs(1_800);

/// The user and the group that run the test, as `write_files` names them: only root gives files to others.
pub(super) fn current_user() -> String {
    let id = |flag: &str| {
        let output = std::process::Command::new("id").arg(flag).output().expect("id");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    format!("{}:{}", id("-un"), id("-gn"))
}

fn data() -> String {
    let owner = current_user();
    format!(
        "#cloud-config
write_files:
- {{path: /etc/a/b/one, content: one, owner: '{owner}', permissions: '0600'}}
- {{path: /etc/list, content: \"two\\n\", owner: '{owner}', append: true}}
- {{path: /etc/list, content: \"three\\n\", owner: '{owner}', append: true}}
- {{path: /etc/link, content: followed, owner: '{owner}'}}
- {{path: /run/kubeadm/kubeadm.yaml, content: 'token: abcdef.0123456789abcdef', owner: '{owner}', permissions: '0640'}}
runcmd:
- mkdir -p \"$CAPSTAN_ROOT/run/cluster-api\" && echo before > \"$CAPSTAN_ROOT/etc/before\"
- kubeadm init && echo success > \"$CAPSTAN_ROOT/run/cluster-api/bootstrap-success.complete\"
- [sh, -c, 'cat \"$CAPSTAN_ROOT/etc/before\" > \"$CAPSTAN_ROOT/etc/after\"']
"
    )
}

fn planned() -> RunPlan {
    let data = bootstrap::read(&data(), &instance()).expect("bootstrap data");
    RunPlan::bootstrap(RunId::bootstrap("uid-1").expect("an id"), &data, &RunOptions::default())
}

fn owner() -> HostOwner {
    HostOwner::new("laptop", "host-1", "uid-1", "default/prod", 1).expect("an owner")
}

pub(super) struct Driver<'m> {
    machine: &'m Machine,
    pub owner: HostOwner,
    begun: Instant,
    /// End the job once when it has left so many marks, from outside.
    kill_at_mark: Cell<Option<usize>>,
}

impl<'m> Driver<'m> {
    pub fn of(machine: &'m Machine) -> Self {
        Self { machine, owner: owner(), begun: Instant::now(), kill_at_mark: Cell::new(None) }
    }
}

/// Where a run is ended.
enum Kill {
    /// `job NUMBER SIDE` or `ask NUMBER SIDE`, as shell_machine/counted.sh reads it.
    AtProgram(String),
    AtMark(usize),
}

impl Driver<'_> {
    /// One request, again where it was ended itself.
    pub fn ask(&self, request: &ShellRequest) -> String {
        loop {
            assert!(self.begun.elapsed() < WITHIN, "no end");
            if let Some(answer) = self.machine.answer_unless_killed(request) {
                return answer;
            }
        }
    }

    pub fn change(&self, request: &ShellRequest) {
        let changed = read_changed(&self.ask(request)).expect("an answer");
        let is_busy = changed == Changed::NotOwner(OwnerAnswer::Busy);
        assert!(matches!(changed, Changed::Done | Changed::Already) || is_busy, "{changed:?}");
    }

    pub fn watched(&self, plan: &RunPlan) -> Watched {
        read_watch(&self.ask(&watch(&plan.id, 0)), &plan.redactor()).expect("an answer")
    }

    fn wait(&self) {
        assert!(self.begun.elapsed() < WITHIN, "no end");
        match self.kill_at_mark.take() {
            Some(marks) => self.machine.kill_job_at_mark("var/lib/capstan/runs/uid-1/steps/1", marks),
            None => self.machine.wait_for_job(),
        }
    }

    pub fn reset(&self, plan: &RunPlan, number: u32) {
        let options = ResetOptions { of: plan.id.clone(), cri_socket: None };
        let reset = RunPlan::reset(RunId::reset("uid-1", number).expect("an id"), &options);
        loop {
            match decide_reset(&reset, &self.watched(&reset)) {
                ResetNext::Upload => self.change(&upload(&reset, &self.owner)),
                ResetNext::Start(at) => self.change(&start(&reset.id, &self.owner, at)),
                ResetNext::Wait { .. } => self.wait(),
                ResetNext::Ended => return,
            }
        }
    }

    /// To its end, by the rules.
    pub fn drive(&self, plan: &RunPlan) {
        loop {
            let watched = self.watched(plan);
            let observed = ObservedRun {
                plan,
                watched: &watched,
                is_control_plane: true,
                node: NodeSeen::Absent,
                member: MemberSeen::NotAMember,
                is_cluster_initialized: Some(false),
                is_clean: Some(true),
                has_token_expired: false,
            };
            match decide(&observed) {
                RunNext::Upload => self.change(&upload(plan, &self.owner)),
                RunNext::Start { start: at, .. } => self.change(&start(&plan.id, &self.owner, at)),
                RunNext::Wait { .. } => self.wait(),
                RunNext::Done => return,
                RunNext::Reset { .. } => {
                    self.reset(plan, watched.journal.map_or(1, |journal| journal.resets + 1));
                }
                other => panic!("{other:?}: {watched:?}"),
            }
        }
    }
}

/// With what was there before capstan came.
fn furnished(machine: &Machine) {
    machine.write("etc/list", "one\n");
    machine.write("etc/target", "old");
    machine.link("etc/link", "etc/target");
}

fn driven(machine: &Machine, kill: Option<&Kill>) -> BTreeMap<String, String> {
    furnished(machine);
    let driver = Driver::of(machine);
    match kill {
        Some(Kill::AtProgram(at)) => machine.note("kill", at),
        Some(Kill::AtMark(marks)) => driver.kill_at_mark.set(Some(*marks)),
        None => {}
    }
    driver.ask(&owner::claim(&driver.owner));
    driver.drive(&planned());
    machine.tree()
}

/// In the order of calls; between two that begin a cluster stands a reset.
fn check_calls(calls: &str, context: &str) {
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls.windows(2).all(|pair| pair != ["init", "init"]), "{context}: {calls:?}");
}

#[test]
fn kills_leave_no_trace() {
    let wanted = std::env::var("CAPSTAN_KILLS").ok().and_then(|text| text.parse::<usize>().ok());
    let shells = Machine::of_each_shell();
    let each = wanted.map_or(KILLS, |kills| kills.div_ceil(shells.len()));
    for (at, whole) in shells.iter().enumerate() {
        let expected = driven(whole, None);
        assert_eq!(
            expected.get("etc/list").map(String::as_str),
            Some("644 one\ntwo\nthree\n"),
            "{expected:?}"
        );
        assert_eq!(expected.get("etc/target").map(String::as_str), Some("644 followed"), "{expected:?}");
        assert!(!expected.contains_key("run/kubeadm/kubeadm.yaml"), "{expected:?}");
        let (programs, asked) = (whole.noted("count-job").len(), whole.noted("count-ask").len().min(40));
        // A shell that has most programs built in calls few that are counted.
        let has_programs = programs > 100;
        let marks = 2 * planned().steps.len();
        for number in 0..each {
            // Spread over the job, each before and after its work; every fifth ends a request instead.
            let side = if number % 2 == 0 { "before" } else { "after" };
            let kill = match number % 5 {
                4 if asked > 5 => Kill::AtProgram(format!("ask {} {side}", 1 + number % asked)),
                0..4 if has_programs => {
                    Kill::AtProgram(format!("job {} {side}", 1 + number * programs / each))
                }
                _ => Kill::AtMark(1 + number * marks / each),
            };
            let machine = Machine::like(whole);
            let tree = driven(&machine, Some(&kill));
            let context = match &kill {
                Kill::AtProgram(at_program) => format!("shell {at}, killed at {at_program}"),
                Kill::AtMark(marks) => format!("shell {at}, killed after {marks} marks"),
            };
            assert_eq!(tree, expected, "{context}");
            check_calls(&machine.noted("kubeadm"), &context);
            assert!(!machine.has_note("kill"), "{context}: nobody was ended");
        }
        println!("shell {at}: {programs} programs, {each} kills survived");
    }
}

#[test]
fn a_reset_gives_back_what_was_there() {
    for machine in Machine::of_each_shell() {
        furnished(&machine);
        let before = machine.tree();
        let driver = Driver::of(&machine);
        driver.ask(&owner::claim(&driver.owner));
        let plan = planned();
        driver.drive(&plan);
        driver.reset(&plan, 1);
        let mut after = machine.tree();
        // What commands made is theirs to take back.
        after.retain(|path, _| !["etc/before", "etc/after", "run/cluster-api"].contains(&path.as_str()));
        after.retain(|path, _| before.contains_key(path) || path != "etc/kubernetes");
        assert_eq!(after, before);
        assert!(
            driver.watched(&plan).journal.is_some_and(|journal| journal.was_reset && journal.resets == 1)
        );
    }
}

#[test]
fn a_reset_that_is_killed_gives_back_the_same() {
    let wanted = std::env::var("CAPSTAN_KILLS").ok().and_then(|text| text.parse::<usize>().ok());
    let done = |whole: &Machine| {
        let machine = Machine::like(whole);
        furnished(&machine);
        let driver = Driver::of(&machine);
        driver.ask(&owner::claim(&driver.owner));
        driver.drive(&planned());
        let programs = machine.noted("count-job").len();
        (machine, programs)
    };
    for whole in Machine::of_each_shell() {
        let (machine, begun) = done(&whole);
        Driver::of(&machine).reset(&planned(), 1);
        let (expected, programs) = (machine.tree(), machine.noted("count-job").len() - begun);
        // A shell that has most programs built in calls few that are counted.
        let each = wanted.unwrap_or(KILLS).min(programs);
        for number in 0..each {
            let (machine, begun) = done(&whole);
            let side = if number % 2 == 0 { "after" } else { "before" };
            // From the end, where it removes what it remembers.
            let at = begun + programs - number * programs / each;
            machine.note("kill", &format!("job {at} {side}"));
            Driver::of(&machine).reset(&planned(), 1);
            assert_eq!(machine.tree(), expected, "killed {side} program {at} of {}", begun + programs);
            assert!(!machine.has_note("kill"), "nobody was ended");
            assert!(
                !machine.path("var/lib/capstan/runs/uid-1/before").exists(),
                "killed {side} program {at}"
            );
        }
    }
}

#[test]
fn a_stranger_and_a_second_start_change_nothing() {
    for machine in Machine::of_each_shell() {
        furnished(&machine);
        let driver = Driver::of(&machine);
        let plan = planned();
        let stranger = HostOwner { installation: "other".to_owned(), ..owner() };
        let changed = |request: &ShellRequest| read_changed(&machine.answer(request)).expect("an answer");
        assert_eq!(changed(&upload(&plan, &driver.owner)), Changed::NotOwner(OwnerAnswer::Free));
        driver.ask(&owner::claim(&driver.owner));
        let at = Start { attempt: 1, from_step: 1 };
        assert_eq!(changed(&start(&plan.id, &driver.owner, at)), Changed::Refused("nothing was uploaded"));
        assert_eq!(changed(&upload(&plan, &driver.owner)), Changed::Done);
        assert_eq!(changed(&upload(&plan, &driver.owner)), Changed::Already);
        for request in [upload(&plan, &stranger), start(&plan.id, &stranger, at), stop(&plan.id, &stranger)] {
            let answer = changed(&request);
            assert!(
                matches!(&answer, Changed::NotOwner(OwnerAnswer::Other { owner, .. }) if *owner == driver.owner),
                "{answer:?}"
            );
        }
        driver.drive(&plan);
        let calls = machine.noted("kubeadm");
        assert_eq!(changed(&start(&plan.id, &driver.owner, at)), Changed::Already);
        assert_eq!((machine.noted("kubeadm"), calls.as_str()), (calls.clone(), "init\n"));
        assert!(!machine.path("var/lib/capstan/runs/uid-1/files").exists(), "the contents are gone");
    }
}

#[test]
fn a_step_that_fails_ends_the_run_and_its_words_are_redacted() {
    let machine = Machine::of_shell("sh");
    machine.note("kubeadm-fails", "error: token abcdef.0123456789abcdef is \u{1b}[31mwrong\n");
    let driver = Driver::of(&machine);
    driver.ask(&owner::claim(&driver.owner));
    let plan = planned();
    driver.change(&upload(&plan, &driver.owner));
    driver.change(&start(&plan.id, &driver.owner, Start { attempt: 1, from_step: 1 }));
    let watched = loop {
        let watched = driver.watched(&plan);
        if !watched.is_unit_active {
            break watched;
        }
        driver.wait();
    };
    let journal = watched.journal.expect("a journal");
    assert_eq!(journal.failed(), Some((plan.kubeadm.expect("kubeadm").number, 1)));
    assert!(watched.log.contains("error: token <secret> is \u{fffd}[31mwrong\n"), "{}", watched.log);
    assert_eq!(watched.log_next, watched.log_bytes);
    assert!(!machine.path("var/lib/capstan/runs/uid-1/files").exists());
}
