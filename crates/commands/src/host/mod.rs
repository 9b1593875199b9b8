//! `capstan host`: machines that are reached over ssh. Owns who is asked beside whom, and how the command ends; what speaks against
//! a machine is the business of `capstan_hosts`.

pub mod add;
pub mod args;
pub mod change;
pub mod list;
pub mod objects;
mod report;
pub mod run_log;
pub mod runs;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::args::{HostCheckArgs, HostReachArgs};
use crate::exit_code::ExitCode;
use crate::output::Style;
use capstan_base::time::Clock;
use capstan_host_provider::access::Silence;
use capstan_host_provider::ssh::facts;
use capstan_hosts::check::{check as findings_of, overall};
use capstan_hosts::facts::HostFacts;
use capstan_hosts::finding::{Fitness, HostFinding, Purpose};
use capstan_hosts::identity;
use capstan_remote::destination::Destination;
use capstan_remote::openssh::OpenSsh;

/// So many machines are asked beside each other: each is a process of ssh.
const AT_ONCE: usize = 32;

/// What is known of one machine.
#[derive(Debug)]
struct Checked {
    host: Destination,
    answer: Result<HostFacts, Silence>,
    findings: Vec<HostFinding>,
}

impl Checked {
    fn outcome(&self) -> Fitness {
        if self.answer.is_ok() { overall(&self.findings) } else { Fitness::Unknown }
    }
}

/// The text or the JSON, and how the command ends.
#[derive(Debug)]
pub struct HostCheckAnswer {
    pub document: String,
    pub exit_code: ExitCode,
}

/// Asks every machine, each by itself, and judges the answers.
///
/// # Errors
/// The JSON cannot be written.
pub async fn check(args: &HostCheckArgs, clock: &Clock, style: Style) -> anyhow::Result<HostCheckAnswer> {
    let purpose = Purpose {
        role: args.role.of(),
        version: args.kubernetes_version.as_deref().and_then(k8s_machinery::version::parse),
    };
    let answers = ask_all(&args.hosts, &args.reach, clock).await;
    let mut checked: Vec<Checked> =
        answers.into_iter().map(|(host, answer)| judged(host, answer, &purpose)).collect();
    compare(&mut checked);
    let document = report::document(&checked, &purpose, args, style)?;
    Ok(HostCheckAnswer { document, exit_code: exit_code(&checked) })
}

fn judged(host: Destination, answer: Result<HostFacts, Silence>, purpose: &Purpose) -> Checked {
    let findings = answer.as_ref().map(|facts| findings_of(facts, purpose)).unwrap_or_default();
    Checked { host, answer, findings }
}

/// What machines have in common with each other stands with each of them.
fn compare(checked: &mut [Checked]) {
    let names: Vec<String> = checked.iter().map(|it| it.host.to_string()).collect();
    let nothing = HostFacts::default();
    let machines = checked.iter().map(|it| it.answer.as_ref().unwrap_or(&nothing));
    let machines: Vec<(&str, &HostFacts)> = names.iter().map(String::as_str).zip(machines).collect();
    let shared = identity::shared(&machines);
    for (it, shared) in checked.iter_mut().zip(shared) {
        it.findings.splice(0..0, shared);
    }
}

fn exit_code(checked: &[Checked]) -> ExitCode {
    match checked.iter().map(Checked::outcome).min() {
        Some(Fitness::Unfit) => ExitCode::FailedCheck,
        Some(Fitness::Unknown) | None => ExitCode::Unknown,
        Some(Fitness::Warned | Fitness::Passed) => ExitCode::Success,
    }
}

/// In the order in which they are named.
async fn ask_all(
    hosts: &[Destination],
    reach: &HostReachArgs,
    clock: &Clock,
) -> Vec<(Destination, Result<HostFacts, Silence>)> {
    let ssh = Arc::new(ssh_of(reach));
    let room = Arc::new(Semaphore::new(AT_ONCE));
    let mut asked = JoinSet::new();
    for (at, host) in hosts.iter().cloned().enumerate() {
        let (ssh, room, clock, limit) = (ssh.clone(), room.clone(), clock.clone(), reach.timeout);
        asked.spawn(async move {
            // It is never closed.
            let _place = room.acquire().await;
            let answer = facts(&ssh, &host, limit, &clock).await;
            (at, (host, answer))
        });
    }
    // A task that panicked is a mistake of this program, which its own message says.
    let answers: BTreeMap<usize, _> = asked.join_all().await.into_iter().collect();
    answers.into_values().collect()
}

fn ssh_of(reach: &HostReachArgs) -> OpenSsh {
    let named = OpenSsh::named(&reach.ssh_program);
    OpenSsh { user: reach.ssh_user.clone(), jump: reach.jump.clone(), ..named }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(answer: Result<HostFacts, Silence>, findings: Vec<HostFinding>) -> Checked {
        Checked { host: Destination::host("h1").expect("a host"), answer, findings }
    }

    #[test]
    fn the_gravest_machine_decides_the_end() {
        let silence = || Silence::because("no end within 30 seconds");
        let finding = |outcome: Fitness| HostFinding {
            rule: "swap",
            outcome,
            evidence: String::new(),
            remedy: String::new(),
            kubeadm_check: None,
        };
        let known = |outcome: Fitness| checked(Ok(HostFacts::default()), vec![finding(outcome)]);
        let silent = || checked(Err(silence()), Vec::new());
        for (machines, code) in [
            (vec![known(Fitness::Passed), known(Fitness::Warned)], ExitCode::Success),
            (vec![known(Fitness::Passed), silent()], ExitCode::Unknown),
            (vec![silent(), known(Fitness::Unfit)], ExitCode::FailedCheck),
            (vec![known(Fitness::Unknown)], ExitCode::Unknown),
        ] {
            assert_eq!(exit_code(&machines), code, "{machines:?}");
        }
    }
}
