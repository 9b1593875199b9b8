//! Requests under real shells that come twice, late, or while something fails: what is uploaded, begun and read then.

use std::fs;

use super::kills::Driver;
use super::tests::instance;
use super::*;
use crate::shell_machine::Machine;
use crate::{bootstrap, owner};

const RUN: &str = "var/lib/capstan/runs/uid-1";

fn planned(data: &str) -> RunPlan {
    let data = bootstrap::read(&format!("#cloud-config\n{data}"), &instance()).expect("bootstrap data");
    RunPlan::bootstrap(RunId::bootstrap("uid-1").expect("an id"), &data, &RunOptions::default())
}

/// A machine whose owner uploaded the plan.
fn uploaded(machine: &Machine, plan: &RunPlan) -> HostOwner {
    let driver = Driver::of(machine);
    driver.ask(&owner::claim(&driver.owner));
    driver.change(&upload(plan, &driver.owner));
    driver.owner
}

fn changed(machine: &Machine, request: &ShellRequest) -> Result<Changed, AnswerError> {
    read_changed(&machine.answer(request))
}

fn seen(machine: &Machine, plan: &RunPlan, from: u64) -> Watched {
    read_watch(&machine.answer(&watch(&plan.id, from)), &plan.redactor()).expect("an answer")
}

const FIRST: Start = Start { attempt: 1, from_step: 1 };

#[test]
fn an_attempt_that_systemd_does_not_start_is_none() {
    let plan = planned("runcmd: [kubeadm init]\n");
    for machine in Machine::of_each_shell() {
        let owner = uploaded(&machine, &plan);
        machine.program("systemd-run", "echo no bus >&2; exit 1\n");
        let answer = changed(&machine, &start(&plan.id, &owner, FIRST));
        assert_eq!(answer, Err(AnswerError::Failed("systemd does not start it: no bus".to_owned())));
        let journal = seen(&machine, &plan, 0).journal.expect("a journal");
        assert_eq!((journal.attempt, journal.from_step), (0, 0));
        assert_eq!(journal.kubeadm, SeenKubeadm::Step(plan.kubeadm.expect("kubeadm")));
    }
}

#[test]
fn the_lock_is_held_until_systemd_has_the_unit() {
    let plan = planned("runcmd: [kubeadm init]\n");
    for machine in Machine::of_each_shell() {
        let owner = uploaded(&machine, &plan);
        // Of systemd's own programs none inherits the lock.
        machine.program(
            "systemd-run",
            "flock -n \"$CAPSTAN_ROOT/var/lib/capstan/lock\" true && : >\"$MACHINE/was-free\"\nif (: >&9) 2>/dev/null; then : >\"$MACHINE/was-given\"; fi\n",
        );
        assert_eq!(changed(&machine, &start(&plan.id, &owner, FIRST)), Ok(Changed::Done));
        assert!(!machine.has_note("was-free") && !machine.has_note("was-given"));
    }
}

#[test]
fn a_second_start_hides_no_journal() {
    let plan = planned("runcmd: [kubeadm init]\n");
    for machine in Machine::of_each_shell() {
        let owner = uploaded(&machine, &plan);
        let second = start(&plan.id, &owner, Start { attempt: 2, from_step: 1 });
        // A unit runs: this process stands for it.
        machine.note("unit-capstan-uid-1", &std::process::id().to_string());
        assert_eq!(changed(&machine, &second), Ok(Changed::Already));
        fs::remove_file(machine.path("../unit-capstan-uid-1")).expect("a unit");
        // kubeadm began in an attempt that the second caller did not see.
        fs::create_dir_all(machine.path(RUN).join("steps/1")).expect("a folder");
        machine.write(&format!("{RUN}/steps/1/begin"), "boot-1\n1\n5\n");
        let kubeadm = format!("{RUN}/steps/1/{:03}.started", plan.kubeadm.expect("kubeadm").number);
        machine.write(&kubeadm, "6\n");
        assert_eq!(changed(&machine, &second), Ok(Changed::Already));
        assert_eq!(machine.noted("kubeadm"), "");
        assert!(!machine.path(RUN).join("steps/2").exists());
        machine.write(&format!("{RUN}/steps/1/reset"), "7\n");
        assert_eq!(changed(&machine, &second), Ok(Changed::Done));
        machine.wait_for_job();
        assert_eq!(machine.noted("kubeadm"), "init\n");
    }
}

#[test]
fn other_data_waits_for_a_reset_and_gets_a_log_of_its_own() {
    let (plan, other) = (planned("runcmd: [kubeadm init]\n"), planned("runcmd: [kubeadm join]\n"));
    for machine in Machine::of_each_shell() {
        let owner = uploaded(&machine, &plan);
        machine.write(&format!("{RUN}/log"), "the token has expired\n");
        fs::create_dir_all(machine.path(RUN).join("before")).expect("a folder");
        let differs = Ok(Changed::Refused("another plan has begun there and was not taken back"));
        assert_eq!(changed(&machine, &upload(&other, &owner)), differs);
        fs::remove_file(machine.path(RUN).join("ready")).expect("a file");
        assert_eq!(changed(&machine, &upload(&other, &owner)), differs);
        fs::remove_dir(machine.path(RUN).join("before")).expect("a folder");
        assert_eq!(changed(&machine, &upload(&other, &owner)), Ok(Changed::Done));
        let watched = seen(&machine, &other, 0);
        assert_eq!((watched.log.as_str(), watched.log_bytes), ("", 0));
        let journal = watched.journal.expect("a journal");
        assert_eq!(journal.kubeadm, SeenKubeadm::Step(other.kubeadm.expect("kubeadm")));
    }
}

#[test]
fn a_part_of_a_log_is_whole_and_begins_with_a_line() {
    let plan = planned("runcmd: [A_TOKEN=hunter22hunter22 registry-login]\n");
    for machine in Machine::of_each_shell() {
        uploaded(&machine, &plan);
        let line = |number: usize| format!("{number:05} {} hunter22hunter22\n", "x".repeat(70));
        let shown = |numbers: std::ops::Range<usize>| -> String {
            numbers.map(line).collect::<String>().replace("hunter22hunter22", "<secret>")
        };
        let log: String = (0..600).map(line).collect();
        machine.write(&format!("{RUN}/log"), &log);
        assert_eq!(seen(&machine, &plan, 0).log, shown(0..600));
        assert_eq!(seen(&machine, &plan, LOG_END).log, shown(0..600));
        // Of 65,536 bytes and lines of 94 the last 697 are whole.
        let log: String = (0..2_000).map(line).collect();
        machine.write(&format!("{RUN}/log"), &log);
        let bytes = u64::try_from(log.len()).expect("a length");
        let end = seen(&machine, &plan, LOG_END);
        assert_eq!(end.log, shown(2_000 - 65_536 / line(0).len()..2_000));
        assert_eq!((end.log_next, end.log_bytes), (bytes, bytes));
        // A line that is longer than a part would be half of one.
        machine.write(&format!("{RUN}/log"), &"x".repeat(70_000));
        assert_eq!(seen(&machine, &plan, LOG_END).log, "");
    }
}
