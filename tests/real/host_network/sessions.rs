//! Machines whose sshd takes one session of a connection, or few connections at once.

use capstan_host_provider::access::{Claim, Machines as _};
use capstan_hosts::owner::OwnerAnswer;
use capstan_hosts::run::{Changed, Start};
use capstan_remote::trouble::SshTrouble;
use serde_json::json;

use super::machine::{Client, Machine, Wishes};
use super::rack::{Rack, has_facts};
use super::{machines, owner, plan, reach};

/// A run, from the facts to its end.
async fn lives_through_a_run(machine: &Machine, client: &Client) {
    let (asked, at) = (machines(client), reach(machine, machine.port()));
    let (plan, owner) = (plan(200_000), owner());
    let redactor = plan.redactor();
    assert!(asked.facts(&at).await.expect("facts").kernel.is_some());
    // Four at once, of which only one can have the session.
    let (facts, whose, again, proof) =
        tokio::join!(asked.facts(&at), asked.owner(&at), asked.owner(&at), asked.prove(&at));
    assert!(facts.expect("facts").kernel.is_some() && proof.is_ok());
    assert_eq!([whose, again], [Ok(OwnerAnswer::Free), Ok(OwnerAnswer::Free)]);
    let claimed = asked.claim(&at, &Claim::Make, &owner).await.expect("a claim");
    assert!(matches!(claimed, OwnerAnswer::Ours { is_new: true, .. }), "{claimed:?}");
    assert_eq!(asked.upload(&at, &plan, &owner).await, Ok(Changed::Done));
    let start = Start { attempt: 1, from_step: 1 };
    assert_eq!(asked.start(&at, &plan.id, &owner, &start).await, Ok(Changed::Done));
    let mut watched = asked.watch(&at, &plan.id, 0, &redactor).await.expect("an answer");
    while !watched.journal.as_ref().is_some_and(|journal| journal.is_finished) {
        let (one, other) =
            tokio::join!(asked.watch(&at, &plan.id, 0, &redactor), asked.watch(&at, &plan.id, 0, &redactor));
        watched = one.and(other).expect("an answer");
    }
    assert!(machine.read("etc/secret").is_some_and(|text| text.contains(super::SECRET)));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_session_at_a_time_is_enough() {
    for shares_connections in [true, false] {
        let Some(machine) = Machine::start(Wishes::with("MaxSessions 1")).await else { return };
        let client = Client::of(&machine, "");
        if !shares_connections {
            client.shares_no_connections();
        }
        lives_through_a_run(&machine.with_stand_ins(), &client).await;
    }
}

/// Who is sent away because others were quicker comes back later.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_takes_few_connections_is_asked_again() {
    let Some(machine) = Machine::start(Wishes { ports: 6, ..Wishes::with("MaxStartups 1") }).await else {
        return;
    };
    let client = Client::of(&machine, "");
    client.shares_no_connections();
    let asked = machines(&client);
    let all = machine.ports.iter().map(|port| {
        let (asked, at) = (&asked, reach(&machine, *port));
        async move { asked.facts(&at).await }
    });
    for answer in futures::future::join_all(all).await {
        match answer {
            Ok(facts) => assert!(facts.kernel.is_some()),
            Err(refused) => {
                let expected = (Some(SshTrouble::Unreachable), true);
                assert_eq!((refused.trouble, refused.is_passing()), expected, "{refused}");
            }
        }
    }
    let rack = Rack::start(&client).await;
    for (at, port) in machine.ports.iter().enumerate() {
        let spec = json!({"address": machine.address, "connection": {"port": port}, "hostKeys": [machine.host_key()]});
        rack.host(&format!("h{at}"), spec).await;
    }
    for at in 0..machine.ports.len() {
        rack.until(&format!("h{at}"), "facts", has_facts).await;
    }
}
