//! What is left for people of a change: all steps, and the next ones as blocks that are pasted into a shell. Owns their text; which
//! step is next is `change::gate`'s.

use std::collections::BTreeMap;

use capstan_engine::reconfigure::apply::uploaded;
use kubeadm_change::gate::items_of;
use kubeadm_change::node_file::NodeFile;
use kubeadm_change::plan::{ChangePlan, PlannedStep};
use kubeadm_change::progress::{ItemState, ProgressItem, state_of};
use kubeadm_change::report;

/// Everything that is left. `texts`: of the files that steps need, by their paths.
pub(super) fn text(
    plan: &ChangePlan,
    items: &[ProgressItem],
    next: usize,
    texts: &BTreeMap<String, String>,
) -> String {
    let mut text = "\nLEFT FOR YOU; then the same command goes on\n".to_owned();
    for line in report::step_lines(&plan.steps) {
        text.push_str(&format!("  {line}\n"));
    }
    let step = &plan.steps[next];
    text.push_str(&format!("\nnext: step {}, {} {}\n", next + 1, step.title, step.nodes.join(", ")));
    if step.id.is_for_people() {
        text.push_str(&format!(
            "no program does it; when it is done everywhere: the same command with --done {}\n",
            step.id.name()
        ));
    }
    for (at, step) in plan.steps.iter().enumerate().take(next + 1) {
        if is_open(step, items) && !is_passed(&plan.steps[at..], items) {
            text.push_str(&block(at, step, texts));
        }
    }
    text
}

/// On hosts, and not known to be done.
fn is_open(step: &PlannedStep, items: &[ProgressItem]) -> bool {
    let is_on_hosts = !step.nodes.is_empty() && !step.id.is_by_api() && !step.id.is_for_people();
    is_on_hosts && state_of(items_of(step, items)).0 != ItemState::Done
}

/// No API shows it, and something after it is done.
fn is_passed(steps: &[PlannedStep], items: &[ProgressItem]) -> bool {
    let state = |step: &PlannedStep| state_of(items_of(step, items)).0;
    let [this, after @ ..] = steps else { return false };
    let shows = |step: &&PlannedStep| !step.nodes.is_empty() && state(step) == ItemState::Done;
    // Lines are done in their order: something later that shows is the proof of this one.
    state(this) == ItemState::Manual && after.iter().any(|step| shows(&step))
}

/// One step for a shell of its node, with the files that it needs.
fn block(at: usize, step: &PlannedStep, texts: &BTreeMap<String, String>) -> String {
    let mut text = format!("\nstep {}, as root on {}:\n\n", at + 1, step.nodes.join(", "));
    for file in &step.files {
        if let Some(content) = texts.get(&file.path) {
            text.push_str(&here_document(file, content));
        }
    }
    text + &step.script() + "\n"
}

/// Writes the file, and goes on with what follows. The delimiter is quoted, so that the shell takes every line as it is.
fn here_document(file: &NodeFile, content: &str) -> String {
    let mut end = "CAPSTAN_FILE".to_owned();
    // A line of the file that equals the delimiter would end it early, and the rest would be run.
    while content.lines().any(|line| line == end) {
        end.push('_');
    }
    format!("{} <<'{end}' &&\n{}\n{end}\n", uploaded(file), content.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use kubeadm_change::node_file::NodeFileKind;

    #[test]
    fn a_shell_writes_the_file_as_it_is_whatever_stands_in_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below/cp-0.yaml").display().to_string();
        let file = NodeFile { path: path.clone(), ..NodeFile::of(NodeFileKind::Cluster, "0a", "cp-0") };
        let content = "a: $HOME `id` $(id) \\ 'x'\nCAPSTAN_FILE\nCAPSTAN_FILE_\nb: \"\"\n";
        let script = here_document(&file, content) + "echo on";
        let output = Command::new("sh").arg("-c").arg(&script).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "on\n", "{output:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), content);
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).expect("there"));
        assert_eq!(mode & 0o777, 0o600);
        std::fs::remove_dir_all(folder.path().join("below")).expect("gone");
        std::fs::write(folder.path().join("below"), "in the way").expect("a file");
        let output = Command::new("sh").arg("-c").arg(&script).output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "what follows is not run");
    }
}
