//! Carries bootstrap data out on a machine without a cluster API around it: what a controller does, by hand. tests/lab/hosts-run
//! drives it.
//!
//! ```text
//! host_run look|prove HOST
//! host_run claim|release|run|reset|log HOST INSTALLATION UID GENERATION [FILE] [NAME=VALUE...]
//! ```
//!
//! `FILE` is bootstrap data. What a controller would read of the cluster is given: `node=unknown|absent|not-ready|ready`,
//! `member=unknown|none|added|started`, `initialized=yes|no`, `role=worker`, `once=yes` (one decision only), `attempts=N`.
//! `CAPSTAN_SSH` names the ssh program; see `ssh` for the others.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use capstan_hosts::bootstrap::{self, Instance};
use capstan_hosts::owner::{self, HostOwner, OwnerAnswer};
use capstan_hosts::request::ShellRequest;
use capstan_hosts::run::{
    Changed, MemberSeen, NodeSeen, ObservedRun, Redactor, ResetNext, ResetOptions, RunId, RunNext,
    RunOptions, RunPlan, Watched, decide, decide_reset, read_changed, read_watch, start, upload, watch,
};
use capstan_hosts::{clean, reasons};
use capstan_remote::destination::Destination;
use capstan_remote::openssh::{Call, CallError, OpenSsh};
use capstan_remote::sockets::ControlSockets;
use capstan_remote::sudo::{Password, Sudo};

/// Between two looks at a run.
const PAUSE: Duration = Duration::from_secs(2);
/// A machine that reboots is away for so long.
const AWAY: Duration = Duration::from_secs(180);

struct Session {
    ssh: OpenSsh,
    to: Destination,
    trips: u32,
    sent: usize,
    received: usize,
}

impl Session {
    async fn try_ask(&mut self, request: &ShellRequest) -> Result<String> {
        let limit = Some(Duration::from_secs(request.limit_s));
        let call = Call { to: &self.to, line: &request.line, input: &request.input, environment: &[], limit };
        let output = self.ssh.call(call).await?;
        self.trips += 1;
        self.sent += request.line.as_str().len() + request.input.len();
        self.received += output.stdout.len();
        if let Some((trouble, words)) = output.trouble() {
            bail!("{trouble:?}: {words}");
        }
        Ok(output.stdout)
    }

    /// Again while the machine is away.
    async fn ask(&mut self, request: &ShellRequest) -> Result<String> {
        let begun = Instant::now();
        loop {
            match self.try_ask(request).await {
                Ok(answer) => return Ok(answer),
                // A password that was refused is not tried again: accounts get locked.
                Err(error) if matches!(error.downcast_ref(), Some(CallError::Sudo(_))) => return Err(error),
                Err(error) if begun.elapsed() < AWAY => {
                    println!("  no answer: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn change(&mut self, request: &ShellRequest) -> Result<()> {
        let changed = read_changed(&self.ask(request).await?)?;
        println!("  {changed:?}");
        match changed {
            Changed::Done | Changed::Already => Ok(()),
            Changed::NotOwner(OwnerAnswer::Busy) => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            Changed::NotOwner(_) | Changed::Refused(_) => bail!("refused"),
        }
    }

    async fn reset(&mut self, of: &RunId, owner: &HostOwner, number: u32) -> Result<bool> {
        let options = ResetOptions { of: of.clone(), cri_socket: None };
        let plan = RunPlan::reset(RunId::reset(of.as_str(), number)?, &options);
        loop {
            let watched = read_watch(&self.ask(&watch(&plan.id, 0)).await?, &plan.redactor())?;
            let next = decide_reset(&plan, &watched);
            println!("reset: {next:?}");
            match next {
                ResetNext::Upload => self.change(&upload(&plan, owner)).await?,
                ResetNext::Start(at) => self.change(&start(&plan.id, owner, at)).await?,
                ResetNext::Wait { .. } => tokio::time::sleep(PAUSE).await,
                ResetNext::Ended => {
                    println!("{}", watched.log);
                    return self.prove().await;
                }
            }
        }
    }

    async fn prove(&mut self) -> Result<bool> {
        let proof = clean::read(&self.ask(&clean::prove()).await?)?;
        println!("clean: {}", proof.is_clean());
        proof.left.iter().for_each(|leftover| println!("  {leftover}"));
        proof.unread.iter().for_each(|what| println!("  unread: {what}"));
        Ok(proof.is_clean())
    }
}

/// What the command line says of the cluster.
struct Facts(BTreeMap<String, String>);

impl Facts {
    fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|given| given == value)
    }

    fn node(&self) -> NodeSeen {
        match self.0.get("node").map(String::as_str) {
            Some("absent") => NodeSeen::Absent,
            Some("not-ready") => NodeSeen::NotReady,
            Some("ready") => NodeSeen::Ready,
            _ => NodeSeen::Unknown,
        }
    }

    fn member(&self) -> MemberSeen {
        match self.0.get("member").map(String::as_str) {
            Some("none") => MemberSeen::NotAMember,
            Some("added") => MemberSeen::AddedNotStarted,
            Some("started") => MemberSeen::Started,
            _ => MemberSeen::Unknown,
        }
    }
}

fn planned(host: &str, uid: &str, file: &str) -> Result<RunPlan> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let instance = Instance { instance_id: uid.to_owned(), local_hostname: host.to_owned() };
    let data = bootstrap::read(&text, &instance)?;
    let options = RunOptions { provider_id: Some(format!("capstan-host://{host}/{uid}")) };
    Ok(RunPlan::bootstrap(RunId::bootstrap(uid)?, &data, &options))
}

async fn run(session: &mut Session, plan: &RunPlan, owner: &HostOwner, facts: &Facts) -> Result<()> {
    let redactor = plan.redactor();
    let (mut from, mut log) = (0, String::new());
    let mut is_clean = None;
    loop {
        let watched = read_watch(&session.ask(&watch(&plan.id, from)).await?, &redactor)?;
        from = watched.log_next;
        log.push_str(&watched.log);
        print!("{}", watched.log);
        let reason = reasons::explain(&log, &watched.component_lines);
        let observed = ObservedRun {
            plan,
            watched: &watched,
            is_control_plane: !facts.is("role", "worker"),
            node: facts.node(),
            member: facts.member(),
            is_cluster_initialized: facts.0.get("initialized").map(|value| value == "yes"),
            is_clean,
            has_token_expired: reason
                .as_ref()
                .is_some_and(|reason| reason.kind == reasons::ReasonKind::TokenInvalid),
        };
        let next = decide(&observed);
        if !matches!(next, RunNext::Wait { .. }) {
            println!("next: {next:?}");
        }
        match next {
            RunNext::Upload => session.change(&upload(plan, owner)).await?,
            RunNext::Start { start: at, .. } => session.change(&start(&plan.id, owner, at)).await?,
            RunNext::Wait { .. } => tokio::time::sleep(PAUSE).await,
            RunNext::Reset { .. } => {
                is_clean = Some(session.reset(&plan.id, owner, resets(&watched) + 1).await?);
            }
            RunNext::Done => return Ok(()),
            other => {
                println!("reason: {reason:?}");
                watched.component_lines.iter().for_each(|line| println!("  {line}"));
                bail!("{other:?}");
            }
        }
        if facts.is("once", "yes") {
            return Ok(());
        }
    }
}

fn resets(watched: &Watched) -> u32 {
    watched.journal.as_ref().map_or(0, |journal| journal.resets)
}

/// As the environment says it: `CAPSTAN_SSH`, `CAPSTAN_SUDO` (a password, for tests only), `CAPSTAN_SOCKETS`.
fn ssh() -> Result<OpenSsh> {
    let of = |name: &str| std::env::var(name).ok();
    let named = OpenSsh::named(&of("CAPSTAN_SSH").unwrap_or_else(|| "ssh".to_owned()));
    let sudo = match of("CAPSTAN_SUDO").as_deref() {
        None => Sudo::No,
        Some("") => Sudo::Passwordless,
        Some(password) => Sudo::Password(Password::new(password.to_owned())),
    };
    let sockets = of("CAPSTAN_SOCKETS").map(|folder| ControlSockets::at(folder.as_ref())).transpose()?;
    Ok(OpenSsh { sudo, sockets, ..named })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let facts = words
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
    let facts = Facts(facts);
    words.retain(|word| !word.contains('='));
    let word = |at: usize| {
        words.get(at).map(String::as_str).context("too few arguments: see the head of the source")
    };
    let (verb, host) = (word(0)?, word(1)?);
    let ssh = ssh()?;
    let mut session = Session { ssh, to: host.parse()?, trips: 0, sent: 0, received: 0 };
    match verb {
        "look" => println!("{:?}", owner::read(&session.ask(&owner::look()).await?)?),
        "prove" => {
            session.prove().await?;
        }
        _ => {
            let (installation, uid) = (word(2)?, word(3)?);
            let owner = HostOwner::new(installation, host, uid, "default/lab", word(4)?.parse()?)?;
            changing(&mut session, verb, &owner, words.get(5).map(String::as_str), &facts).await?;
        }
    }
    println!(
        "{} round trips, {} bytes sent, {} bytes received",
        session.trips, session.sent, session.received
    );
    Ok(())
}

async fn changing(
    session: &mut Session,
    verb: &str,
    owner: &HostOwner,
    file: Option<&str>,
    facts: &Facts,
) -> Result<()> {
    let id = RunId::bootstrap(&owner.machine)?;
    match verb {
        "claim" => println!("{:?}", owner::read(&session.ask(&owner::claim(owner)).await?)?),
        "release" => println!("{:?}", owner::read(&session.ask(&owner::release(owner)).await?)?),
        "log" => println!("{}", read_watch(&session.ask(&watch(&id, 0)).await?, &Redactor::default())?.log),
        "plan" => print!("{}", planned(&owner.host, &owner.machine, file.context("no file")?)?),
        "run" => {
            let plan = planned(&owner.host, &owner.machine, file.context("no file")?)?;
            run(session, &plan, owner, facts).await?;
        }
        "reset" => {
            let watched = read_watch(&session.ask(&watch(&id, 0)).await?, &Redactor::default())?;
            session.reset(&id, owner, resets(&watched) + 1).await?;
        }
        other => bail!("{other}: see the head of the source"),
    }
    Ok(())
}
