//! `capstan host add`: machines become Hosts of a server. Owns their names and what is asked of them before; whether a machine is fit
//! is the business of `capstan_hosts`.

use std::io::BufRead;
use std::net::IpAddr;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::args::HostAddArgs;
use super::objects::HostsOfServer;
use super::{ask_all, ssh_of};
use crate::creation::{Creation, CreationTalk, yaml};
use crate::exit_code::WrongUsage;
use capi_types::host::{Host, HostPool};
use capi_types::key::{Gvk, ObjectRef};
use capstan_base::time::Clock;
use capstan_dashboard::operations::object_writes::Write;
use capstan_dashboard::operations::{Finding, Severity};
use capstan_host_provider::access::Silence;
use capstan_hosts::check::check;
use capstan_hosts::facts::HostFacts;
use capstan_hosts::finding::{Fitness, Purpose};
use capstan_remote::destination::Destination;
use capstan_remote::host_key::PublicKey;
use k8s_machinery::validation::naming::dns_subdomain;

/// A machine, and what it said.
struct Candidate {
    to: Destination,
    /// `None`: its key was pinned from the command line, and the engine asks it.
    facts: Option<HostFacts>,
    pinned: Vec<String>,
}

/// The objects of the machines, as YAML where that is all that is asked for.
///
/// # Errors
/// A machine does not answer or offers none of the keys, it was not confirmed, or the server refuses.
pub async fn add<O: std::io::Write, A: BufRead>(
    hosts: &HostsOfServer<'_>,
    args: &HostAddArgs,
    clock: &Clock,
    mut talk: CreationTalk<'_, O, A>,
) -> anyhow::Result<()> {
    if args.name.is_some() && args.hosts.len() > 1 {
        bail!(WrongUsage("--name is for one machine: name one, or leave it out".to_owned()));
    }
    let candidates = candidates(args, clock).await?;
    let objects = objects(hosts, &candidates, args)?;
    if args.output.is_some() {
        talk.out.write_all(yaml(&objects)?.as_bytes())?;
        return Ok(());
    }
    let findings = candidates.iter().flat_map(|it| findings(it, args)).collect();
    let mut writes = Vec::new();
    for object in objects {
        let is_pool = object["kind"] == "HostPool";
        let key = hosts.key(object["metadata"]["name"].as_str().unwrap_or_default());
        if is_pool && hosts.pool(&key.name).await?.is_some() {
            continue;
        }
        let gvk = if is_pool { Gvk::of::<HostPool>() } else { Gvk::of::<Host>() };
        writes.push((ObjectRef { gvk, key, uid: String::new() }, Write::Create(object)));
    }
    let creation = Creation { action: "add hosts", objects: writes, findings };
    if talk.create(creation).await? {
        writeln!(talk.out, "added; `capstan host list` shows what becomes of them")?;
    }
    Ok(())
}

/// # Errors
/// One does not answer, or offers none of the keys.
async fn candidates(args: &HostAddArgs, clock: &Clock) -> anyhow::Result<Vec<Candidate>> {
    if args.fingerprint.is_empty() {
        let answers = ask_all(&args.hosts, &args.reach, clock).await.into_iter();
        return answers.map(|(to, answer)| answered(to, answer)).collect();
    }
    let ssh = ssh_of(&args.reach);
    let mut candidates = Vec::new();
    for to in &args.hosts {
        let pinned = chosen(to, &ssh.offered_public_keys(to).await, &args.fingerprint)?;
        candidates.push(Candidate { to: to.clone(), facts: None, pinned });
    }
    Ok(candidates)
}

fn answered(to: Destination, answer: Result<HostFacts, Silence>) -> anyhow::Result<Candidate> {
    match answer {
        Ok(facts) => Ok(Candidate { to, facts: Some(facts), pinned: Vec::new() }),
        Err(silence) => {
            let offered: Vec<String> =
                silence.offered.iter().map(|key| format!("{} {}", key.kind, key.fingerprint)).collect();
            let advice = match offered.is_empty() {
                true => String::new(),
                false => format!(
                    "; it offers {}: compare one with what its own console says, and name it with --fingerprint",
                    offered.join(", ")
                ),
            };
            bail!("{to} does not answer: {}{advice}; nothing was written", silence.reason)
        }
    }
}

/// The keys of a machine whose fingerprints were compared.
fn chosen(to: &Destination, offered: &[PublicKey], fingerprints: &[String]) -> anyhow::Result<Vec<String>> {
    let wanted = offered.iter().filter(|key| fingerprints.contains(&key.key.fingerprint));
    let texts: Vec<String> = wanted.map(|key| key.text.clone()).collect();
    if texts.is_empty() {
        bail!(
            "{to} offers no key with one of these fingerprints: another machine may answer there; nothing was written"
        );
    }
    Ok(texts)
}

/// What speaks against a machine for the role that is asked about; it does not keep it from being added.
fn findings(candidate: &Candidate, args: &HostAddArgs) -> Vec<Finding> {
    let Some(facts) = &candidate.facts else { return Vec::new() };
    let purpose = Purpose { role: args.role.of(), version: None };
    let against = check(facts, &purpose)
        .into_iter()
        .filter(|it| it.outcome != Fitness::Passed && !args.ignore.iter().any(|rule| rule == it.rule));
    let severity =
        |outcome: Fitness| if outcome == Fitness::Unfit { Severity::Warning } else { Severity::Note };
    against
        .map(|it| Finding {
            severity: severity(it.outcome),
            rule: it.rule,
            text: format!("{}: {}", candidate.to, it.evidence),
        })
        .collect()
}

fn objects(
    hosts: &HostsOfServer<'_>,
    candidates: &[Candidate],
    args: &HostAddArgs,
) -> anyhow::Result<Vec<Value>> {
    let namespace = hosts.key("").namespace;
    let mut objects = vec![json!({
        "apiVersion": Gvk::of::<HostPool>().api_version(), "kind": "HostPool",
        "metadata": {"name": args.pool, "namespace": namespace}, "spec": {},
    })];
    for candidate in candidates {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => name_of(candidate)?,
        };
        let mut object = json!({
            "apiVersion": Gvk::of::<Host>().api_version(), "kind": "Host",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"pool": args.pool, "address": candidate.to.host},
        });
        let spec = &mut object["spec"];
        let connection = connection(candidate, args);
        if connection.as_object().is_some_and(|fields| !fields.is_empty()) {
            spec["connection"] = connection;
        }
        if !candidate.pinned.is_empty() {
            spec["hostKeys"] = json!(candidate.pinned);
        }
        if !args.ignore.is_empty() {
            spec["ignoredRules"] = json!(args.ignore);
        }
        if let Some(domain) = &args.failure_domain {
            spec["failureDomain"] = json!(domain);
        }
        objects.push(object);
    }
    Ok(objects)
}

/// What differs from the operator's ssh configuration.
fn connection(candidate: &Candidate, args: &HostAddArgs) -> Value {
    let mut connection = json!({});
    if let Some(user) = candidate.to.user.as_ref().or(args.reach.ssh_user.as_ref()) {
        connection["user"] = json!(user);
    }
    if let Some(port) = candidate.to.port {
        connection["port"] = json!(port);
    }
    if !args.reach.jump.is_empty() {
        let jump = args.reach.jump.iter().map(|it| {
            let mut jump = json!({"address": it.host});
            it.user.iter().for_each(|user| jump["user"] = json!(user));
            it.port.iter().for_each(|port| jump["port"] = json!(port));
            jump
        });
        connection["jump"] = jump.collect();
    }
    connection
}

/// As ssh calls it; of an address the machine's own name, where it is known.
fn name_of(candidate: &Candidate) -> anyhow::Result<String> {
    let host = candidate.to.host.to_lowercase();
    let is_address = host.parse::<IpAddr>().is_ok();
    let own = candidate.facts.as_ref().and_then(|facts| facts.hostname.clone()).map(|it| it.to_lowercase());
    let names = if is_address { [own, Some(host)] } else { [Some(host), own] };
    let valid = names.into_iter().flatten().find(|name| dns_subdomain(name).is_empty());
    valid.with_context(|| format!("no Host can be called after {}: give it a name with --name", candidate.to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(to: &str, hostname: Option<&str>) -> Candidate {
        let facts = HostFacts { hostname: hostname.map(str::to_owned), ..HostFacts::default() };
        Candidate { to: to.parse().expect("a machine"), facts: Some(facts), pinned: Vec::new() }
    }

    #[test]
    fn a_host_is_called_as_ssh_calls_it_and_an_address_as_the_machine_calls_itself() {
        for (to, hostname, expected) in [
            ("H1", Some("web-1"), Some("h1")),
            ("admin@10.0.0.12:2222", Some("Web-1"), Some("web-1")),
            ("10.0.0.12", None, Some("10.0.0.12")),
            ("10.0.0.12", Some("bad_name"), Some("10.0.0.12")),
            ("my_host", Some("web-1"), Some("web-1")),
            ("my_host", None, None),
            ("fe80::1", None, None),
        ] {
            assert_eq!(name_of(&candidate(to, hostname)).ok().as_deref(), expected, "{to}");
        }
    }

    #[test]
    fn only_keys_that_were_compared_are_pinned() {
        let key = |fingerprint: &str| PublicKey {
            key: capstan_remote::host_key::HostKey {
                kind: "ssh-ed25519".to_owned(),
                fingerprint: fingerprint.to_owned(),
            },
            text: format!("ssh-ed25519 {fingerprint}"),
        };
        let (to, offered) = (Destination::host("h1").expect("a host"), [key("SHA256:a"), key("SHA256:b")]);
        let pinned = chosen(&to, &offered, &["SHA256:b".to_owned()]).expect("it is offered");
        assert_eq!(pinned, ["ssh-ed25519 SHA256:b"]);
        let error = chosen(&to, &offered, &["SHA256:c".to_owned()]).expect_err("it is not").to_string();
        assert!(error.contains("nothing was written"), "{error}");
    }
}
