//! Another machine answers at the address of one that was trusted: it gets no byte of what was meant for the first, the claim stays,
//! and all goes on when the first is back.

use serde_json::json;

use super::line::Line;
use super::machine::{Client, Machine, Wishes};
use super::rack::{Rack, said};
use super::{SECRET, data};

/// Lets in whoever comes, and writes down all that it is sent.
async fn impostor(of: &Machine) -> Option<Machine> {
    let config =
        "ForceCommand printf '%s\\n' \"$SSH_ORIGINAL_COMMAND\" >>FOLDER/received; cat >>FOLDER/received";
    let impostor = Machine::start(Wishes::with(config)).await?;
    std::fs::copy(of.at("authorized_keys"), impostor.at("authorized_keys")).expect("the same people");
    Some(impostor)
}

/// The impostor takes what it is sent: this test could see it.
fn receives(impostor: &Machine, machine: &Machine) {
    let client = Client::of(machine, &impostor.known_at(impostor.port()));
    let (code, text) = client.check(&[&impostor.place()]);
    assert_eq!(code, Some(13), "{text}");
    let received = std::fs::read_to_string(impostor.at("received")).expect("what it was sent");
    assert!(received.contains("sh -s") && received.contains("product_uuid"), "{received}");
    std::fs::remove_file(impostor.at("received")).expect("removed");
}

async fn gets_nothing(is_pinned: bool) {
    let Some(machine) = Machine::start(Wishes::default()).await else { return };
    let mut machine = machine.with_stand_ins();
    let Some(mut impostor) = impostor(&machine).await else { return };
    receives(&impostor, &machine);
    let begun = impostor.log().len();
    let line = Line::to(machine.port()).await;
    let known = if is_pinned { String::new() } else { machine.known_at(line.port) };
    let client = Client::of(&machine, &known);
    let rack = Rack::start(&client).await;
    let mut spec = json!({"address": machine.address, "connection": {"port": line.port}});
    if is_pinned {
        spec["hostKeys"] = json!([machine.host_key()]);
    }
    rack.host("h1", spec).await;
    rack.until_state("h1", "Available").await;

    line.lead_to(impostor.port());
    rack.machine("one", &data(100_000)).await;
    let is_caught = |host: &capi_types::host::Host| {
        let verified = said(host, "HostKeyVerified");
        verified.starts_with("False ") && host.spec.consumer_ref.is_some()
    };
    let host = rack.until("h1", "claimed and untrusted", is_caught).await;
    let offered = host.status.map(|status| status.offered_host_keys).unwrap_or_default();
    assert!(!offered.is_empty(), "the keys of the impostor are shown");
    assert!(rack.list().contains("Untrusted"), "{}", rack.list());
    let visits = impostor.visits(begun);
    assert!(visits > 0, "{}", impostor.log());
    // A claim, an upload or a look is tried again, and comes no further.
    let again = visits + 2;
    impostor.until_visits(begun, again).await;
    assert!(!impostor.log()[begun..].contains("Accepted publickey"), "{}", impostor.log());
    assert!(!impostor.at("received").exists());
    assert_eq!(machine.read("var/lib/capstan/owner"), None, "nor did the first get anything meanwhile");

    line.lead_to(machine.port());
    rack.until("h1", "the claim", |host| said(host, "Claimed").starts_with("True")).await;
    rack.until("h1", "a run that has ended", |_| {
        machine.read("etc/secret").is_some_and(|text| text.contains(SECRET))
    })
    .await;
    machine.until_log("Accepted publickey").await;
    assert!(!impostor.at("received").exists());
    let owner = machine.read("var/lib/capstan/owner").expect("an owner");
    assert!(owner.contains("installation=test"), "{owner}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_the_address_of_a_pinned_machine_gets_nothing() {
    gets_nothing(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_over_the_address_of_a_known_machine_gets_nothing() {
    gets_nothing(false).await;
}
