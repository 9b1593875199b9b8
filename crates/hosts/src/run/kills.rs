//! A run under real shells that is ended with SIGKILL at each of its programs and goes on as the rules say: the machine is then as
//! after a run that nobody ended, and kubeadm never began twice without a reset between.
//!
//! `CAPSTAN_KILLS=1000 cargo test -p capstan-hosts kills` kills that often; without it a few times under each shell.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::tests::instance;
use super::*;
use crate::bootstrap;
use crate::owner;
use crate::shell_machine::Machine;

const KILLS: usize = 5;
/// A run of stand-ins takes a second.
const WITHIN: Duration = Duration::from_secs(60);

fn data() -> String {
    let id = |flag: &str| {
        let output = std::process::Command::new("id").arg(flag).output().expect("id");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let owner = format!("{}:{}", id("-un"), id("-gn"));
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

fn owner() -> Owner {
    Owner::new("laptop", "host-1", "uid-1", "default/prod", 1).expect("an owner")
}

struct Driver<'m> {
    machine: &'m Machine,
    owner: Owner,
    begun: Instant,
}

impl Driver<'_> {
    /// One request, again where it was ended itself.
    fn ask(&self, request: &ShellRequest) -> String {
        loop {
            assert!(self.begun.elapsed() < WITHIN, "no end");
            if let Some(answer) = self.machine.answer_unless_killed(request) {
                return answer;
            }
        }
    }

    fn change(&self, request: &ShellRequest) {
        let changed = read_changed(&self.ask(request)).expect("an answer");
        let is_busy = changed == Changed::NotOwner(OwnerAnswer::Busy);
        assert!(matches!(changed, Changed::Done | Changed::Already) || is_busy, "{changed:?}");
    }

    fn watched(&self, plan: &RunPlan) -> Watched {
        read_watch(&self.ask(&watch(&plan.id, 0)), &plan.redactor()).expect("an answer")
    }

    fn wait(&self) {
        assert!(self.begun.elapsed() < WITHIN, "no end");
        self.machine.wait_for_job();
    }

    fn reset(&self, plan: &RunPlan, number: u32) {
        let options = ResetOptions {
            of: plan.id.clone(),
            cri_socket: None,
            virtual_address: None,
            extra_commands: Vec::new(),
        };
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
    fn drive(&self, plan: &RunPlan) {
        loop {
            let watched = self.watched(plan);
            let observed = Observed {
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
                Next::Upload => self.change(&upload(plan, &self.owner)),
                Next::Start { start: at, .. } => self.change(&start(&plan.id, &self.owner, at)),
                Next::Wait { .. } => self.wait(),
                Next::Done => return,
                Next::Reset { .. } => {
                    self.reset(plan, watched.journal.map_or(1, |journal| journal.resets + 1))
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

fn driven(machine: &Machine, kill: Option<&str>) -> BTreeMap<String, String> {
    furnished(machine);
    if let Some(at) = kill {
        machine.note("kill", at);
    }
    let driver = Driver { machine, owner: owner(), begun: Instant::now() };
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
        // A shell that has some programs built in counts fewer.
        let (programs, asked) = (whole.noted("count-job").len(), whole.noted("count-ask").len().min(40));
        let mut died = 0;
        for number in 0..each {
            // Spread over the job, each before and after its work; every fifth ends a request instead.
            let side = if number % 2 == 0 { "before" } else { "after" };
            let kill = match number % 5 {
                4 if asked > 0 => format!("ask {} {side}", 1 + number % asked),
                _ => format!("job {} {side}", 1 + number * programs / each),
            };
            let machine = Machine::like(whole);
            let tree = driven(&machine, Some(&kill));
            let context = format!("shell {at}, killed at program {kill}");
            assert_eq!(tree, expected, "{context}");
            check_calls(&machine.noted("kubeadm"), &context);
            died += usize::from(!machine.has_note("kill"));
        }
        assert_eq!(died, each, "every kill came");
        println!("shell {at}: {programs} programs, {died} kills survived");
    }
}

#[test]
fn a_reset_gives_back_what_was_there() {
    for machine in Machine::of_each_shell() {
        furnished(&machine);
        let before = machine.tree();
        let driver = Driver { machine: &machine, owner: owner(), begun: Instant::now() };
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
fn a_stranger_and_a_second_start_change_nothing() {
    for machine in Machine::of_each_shell() {
        furnished(&machine);
        let driver = Driver { machine: &machine, owner: owner(), begun: Instant::now() };
        let plan = planned();
        let stranger = Owner { installation: "other".to_owned(), ..owner() };
        let changed = |request: &ShellRequest| read_changed(&machine.answer(request)).expect("an answer");
        assert_eq!(changed(&upload(&plan, &driver.owner)), Changed::NotOwner(OwnerAnswer::Free));
        driver.ask(&owner::claim(&driver.owner));
        let at = Start { attempt: 1, from_step: 1 };
        assert_eq!(changed(&start(&plan.id, &driver.owner, at)), Changed::Refused("nothing was uploaded"));
        assert_eq!(changed(&upload(&plan, &driver.owner)), Changed::Done);
        assert_eq!(changed(&upload(&plan, &driver.owner)), Changed::Already);
        for request in [
            upload(&plan, &stranger),
            start(&plan.id, &stranger, at),
            stop(&plan.id, &stranger),
            forget(&plan.id, &stranger),
        ] {
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
    let driver = Driver { machine: &machine, owner: owner(), begun: Instant::now() };
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
    driver.change(&forget(&plan.id, &driver.owner));
    assert!(!machine.path("var/lib/capstan/runs/uid-1/files").exists());
}
