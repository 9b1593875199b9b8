//! `capstan host list`: one line for each Host. Owns its columns; must not judge.

use serde_json::{Value, json};

use super::args::HostListArgs;
use super::objects::HostsOfServer;
use crate::arguments::PlanOutputArg;
use crate::output::{self, Style};
use capi_types::condition::find;
use capi_types::host::Host;
use capi_types::host::condition::AVAILABLE;
use capstan_base::text::truncate;

const HEADINGS: [&str; 8] = ["HOST", "POOL", "ADDRESS", "STATE", "CLAIMED BY", "CPUS", "KUBELET", "WHY"];
/// A reason may be as long as a condition's message.
const WHY_CELLS: usize = 60;

/// # Errors
/// The Hosts cannot be listed.
pub async fn list(hosts: &HostsOfServer<'_>, args: &HostListArgs, style: Style) -> anyhow::Result<String> {
    let mut all = hosts.all().await?;
    all.sort_by_key(|host| (host.metadata.namespace.clone(), host.metadata.name.clone()));
    if args.output == PlanOutputArg::Json {
        let hosts: Vec<Value> = all.iter().map(document).collect();
        return Ok(output::json(&json!({ "hosts": hosts }))?);
    }
    if all.is_empty() {
        return Ok("No Hosts.\n".to_owned());
    }
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(row));
    Ok(style.block(output::table(&rows)))
}

fn row(host: &Host) -> Vec<String> {
    let status = host.status.as_ref();
    let facts = status.and_then(|status| status.facts.as_ref());
    let shown = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
    vec![
        shown(host.metadata.name.as_ref()),
        shown(host.spec.pool.as_ref()),
        host.spec.address.clone(),
        shown(status.and_then(|status| status.state.as_ref())),
        shown(host.spec.consumer_ref.as_ref().map(|it| &it.name)),
        facts.and_then(|facts| facts.cpus).map_or_else(|| "-".to_owned(), |cpus| cpus.to_string()),
        shown(facts.and_then(|facts| facts.kubelet.as_ref())),
        truncate(&why(host), WHY_CELLS, "…"),
    ]
}

/// Why it is not available, or what runs on it.
fn why(host: &Host) -> String {
    let status = host.status.as_ref();
    let run = status.and_then(|status| status.run.as_ref()).filter(|_| host.spec.consumer_ref.is_some());
    if let Some(run) = run.filter(|run| run.phase.as_deref() != Some("Succeeded")) {
        let step = |it: Option<i64>| it.map_or_else(|| "?".to_owned(), |it| it.to_string());
        let what = run.what.clone().unwrap_or_default();
        if run.step.is_none() {
            return what;
        }
        return format!("step {} of {}: {what}", step(run.step), step(run.steps));
    }
    let available = status.and_then(|status| find(&status.conditions, AVAILABLE));
    available
        .filter(|it| it.status != "True" && it.reason != "Claimed")
        .map(|it| it.message.clone())
        .unwrap_or_default()
}

fn document(host: &Host) -> Value {
    let status = host.status.as_ref();
    json!({
        "name": host.metadata.name,
        "namespace": host.metadata.namespace,
        "pool": host.spec.pool,
        "address": host.spec.address,
        "state": status.and_then(|status| status.state.as_ref()),
        "claimedBy": host.spec.consumer_ref,
        "facts": status.and_then(|status| status.facts.as_ref()),
        "identity": status.and_then(|status| status.identity.as_ref()),
        "run": status.and_then(|status| status.run.as_ref()),
        "leftovers": status.map(|status| status.leftovers.clone()).unwrap_or_default(),
        "why": why(host),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::host::{HostConsumer, HostRunStatus, HostSpec, HostStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    fn host(reason: &str, message: &str, run: Option<HostRunStatus>) -> Host {
        let consumer_ref =
            run.as_ref().map(|_| HostConsumer { name: "m".to_owned(), ..HostConsumer::default() });
        let mut host =
            Host::new("h1", HostSpec { address: "10.0.0.1".to_owned(), consumer_ref, ..HostSpec::default() });
        let available = Condition {
            type_: AVAILABLE.to_owned(),
            status: "False".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        host.status = Some(HostStatus {
            conditions: vec![available],
            state: Some("Unfit".to_owned()),
            run,
            ..HostStatus::default()
        });
        host
    }

    #[test]
    fn a_host_is_shown_with_the_reason_that_counts_now() {
        let run = |phase: &str| HostRunStatus {
            phase: Some(phase.to_owned()),
            step: Some(3),
            steps: Some(9),
            what: Some("run kubeadm init".to_owned()),
            ..HostRunStatus::default()
        };
        for (host, expected) in [
            (host("Unfit", "swap: in use", None), "swap: in use"),
            (host("Claimed", "HostMachine m has it", Some(run("Running"))), "step 3 of 9: run kubeadm init"),
            (host("Claimed", "HostMachine m has it", Some(run("Succeeded"))), ""),
        ] {
            assert_eq!(why(&host), expected);
        }
        let row = row(&host("Unfit", "swap: in use", None));
        assert_eq!(row, ["h1", "-", "10.0.0.1", "Unfit", "-", "-", "-", "swap: in use"]);
    }
}
