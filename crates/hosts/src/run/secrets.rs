//! Secrets of bootstrap data, planted and looked for wherever somebody could read them: arguments, environment, plans, logs, and the
//! files that stay.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::kills::{Driver, current_user};
use super::tests::instance;
use super::*;
use crate::bootstrap;
use crate::owner;
use crate::shell_machine::Machine;

const EACH: usize = 250;

/// Words that stand nowhere else.
fn planted() -> Vec<String> {
    (0..2 * EACH)
        .map(|number| format!("pl{:08x}Xy{number:04}", number.wrapping_mul(0x9e37_79b9) & 0xffff_ffff))
        .collect()
}

/// Half of them are keys in files of root alone, half stand behind names such as `token` in a configuration that others may read. The
/// commands print all of them, their arguments and their environment, and fail.
fn data(secrets: &[String]) -> String {
    let owner = current_user();
    let mut text = "#cloud-config\nwrite_files:\n".to_owned();
    for (number, secret) in secrets[..EACH].iter().enumerate() {
        let _ = writeln!(
            text,
            "- {{path: /etc/keys/{number}, content: {secret}, owner: '{owner}', permissions: '0600'}}"
        );
    }
    let lines: String = secrets[EACH..].iter().map(|secret| format!("    token: {secret}\n")).collect();
    let _ = write!(
        text,
        "- path: /run/kubeadm/kubeadm.yaml\n  owner: '{owner}'\n  permissions: '0640'\n  content: |\n{lines}"
    );
    text + "runcmd:\n- cat \"$CAPSTAN_ROOT\"/etc/keys/* \"$CAPSTAN_ROOT\"/run/kubeadm/kubeadm.yaml; env; tr '\\0' ' ' </proc/$$/cmdline; for round in 1 2 3 4 5 6 7 8 9; do cat \"$CAPSTAN_ROOT\"/etc/keys/* \"$CAPSTAN_ROOT\"/run/kubeadm/kubeadm.yaml; done; exit 1\n"
}

fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let _ = writeln!(into, "{}", path.display());
        match path.is_dir() {
            true => read_all(&path, into),
            false => into.push_str(&String::from_utf8_lossy(&fs::read(&path).expect("read"))),
        }
    }
}

#[test]
fn no_planted_secret_is_seen() {
    let machine = Machine::of_shell("sh");
    let secrets = planted();
    let data = bootstrap::read(&data(&secrets), &instance()).expect("bootstrap data");
    let plan = RunPlan::bootstrap(RunId::bootstrap("uid-1").expect("an id"), &data, &RunOptions::default());
    let driver = Driver::of(&machine);
    driver.ask(&owner::claim(&driver.owner));
    let at = Start { attempt: 1, from_step: 1 };
    let requests = [upload(&plan, &driver.owner), start(&plan.id, &driver.owner, at)];
    requests.iter().for_each(|request| driver.change(request));
    machine.wait_for_job();
    let watched = driver.watched(&plan);
    let (mut log, mut from) = (String::new(), 0);
    while from < watched.log_bytes {
        let part = read_watch(&driver.ask(&watch(&plan.id, from)), &plan.redactor()).expect("an answer");
        assert!(part.log_next > from, "{part:?}");
        log.push_str(&part.log);
        from = part.log_next;
    }
    let step = watched.journal.as_ref().and_then(Journal::failed);
    assert!(step.is_some() && log.matches("<secret>").count() >= 2 * EACH, "{log}");
    let folder = machine.path("var/lib/capstan");
    // The log is root's alone, and is redacted when it is read.
    fs::remove_file(folder.join("runs/uid-1/log")).expect("a log");
    let mut seen = format!("{log}{plan}{plan:?}{data:?}{requests:?}{watched:?}{:?}", plan.redactor());
    seen.push_str(&serde_json::to_string(&plan).expect("JSON"));
    requests.iter().for_each(|request| seen.push_str(request.line.as_str()));
    read_all(&folder, &mut seen);
    let found: Vec<&String> = secrets.iter().filter(|secret| seen.contains(secret.as_str())).collect();
    assert_eq!(found, Vec::<&String>::new(), "of {}", secrets.len());
}
