//! Why a run ended badly, for the condition of its HostMachine. Owns how the sentence is put together; which line is a cause says
//! `capstan_hosts::reasons`.

use capstan_hosts::reasons::{Reason, ReasonKind, explain, of_exit_code};
use capstan_hosts::run::{RunPlan, Watched};

/// Where no cause is known by its words.
const UNKNOWN: &str = "StepFailed";
const LINES_SHOWN: usize = 3;

fn reason(watched: &Watched) -> Option<Reason> {
    explain(&watched.log, &watched.component_lines)
}

/// The token of the bootstrap data has ended.
pub fn has_token_expired(watched: &Watched) -> bool {
    reason(watched).is_some_and(|reason| reason.kind == ReasonKind::TokenInvalid)
}

/// What was printed last.
fn last_lines(watched: &Watched) -> String {
    let lines: Vec<&str> = watched.log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().rev().take(LINES_SHOWN).rev().copied().collect::<Vec<_>>().join(" | ")
}

/// The reason of the condition, and its message: step, code, what happened and what to do, the deciding line, the last lines.
pub fn failure(plan: &RunPlan, watched: &Watched, step: u32, code: i32) -> (&'static str, String) {
    let title = plan.step(step).map_or("a step", |step| step.title.as_str());
    let head = format!("step {step} of {}, {title}, ended with {code}", plan.steps.len());
    let last = last_lines(watched);
    match reason(watched).or_else(|| of_exit_code(code)) {
        Some(reason) if reason.evidence.is_empty() => {
            (reason.kind.name(), format!("{head}: {}. Its last lines: {last}", reason.sentence))
        }
        Some(reason) => (
            reason.kind.name(),
            format!("{head}: {} ({}). Its last lines: {last}", reason.sentence, reason.evidence),
        ),
        None => (UNKNOWN, format!("{head}. Its last lines: {last}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_hosts::bootstrap::{self, Instance};
    use capstan_hosts::run::{RunId, RunOptions};

    fn watched(log: &str) -> Watched {
        Watched { log: log.to_owned(), ..Watched::default() }
    }

    #[test]
    fn a_failure_is_said_with_its_cause_where_one_is_known() {
        let instance = Instance { instance_id: "u".to_owned(), local_hostname: "h1".to_owned() };
        let data = bootstrap::read("#cloud-config\nruncmd:\n- kubeadm init\n", &instance).expect("data");
        let plan = RunPlan::bootstrap(RunId::bootstrap("u").expect("an id"), &data, &RunOptions::default());
        let kubeadm = plan.kubeadm.expect("kubeadm").number;
        for (log, code, reason, words) in [
            ("a\nb\nc\nd\n\n", 1, "StepFailed", "ended with 1. Its last lines: b | c | d"),
            ("x\n", 127, "CommandMissing", "ended with 127: "),
            ("[ERROR Port-10250]: Port 10250 is in use\n", 1, "PortTaken", "(ss -ltnp shows it)"),
        ] {
            let (found, message) = failure(&plan, &watched(log), kubeadm, code);
            assert_eq!(found, reason, "{message}");
            assert!(
                message.starts_with(&format!("step {kubeadm} of ")) && message.contains(words),
                "{message}"
            );
        }
    }

    #[test]
    fn an_expired_token_is_told_from_other_ends() {
        let expired = "error: couldn't validate the identity of the API Server: could not find a JWS signature in the cluster-info \
                       ConfigMap for token ID \"abcdef\"\n";
        assert!(has_token_expired(&watched(expired)));
        assert!(!has_token_expired(&watched("[ERROR Port-10250]: Port 10250 is in use\n")));
    }
}
