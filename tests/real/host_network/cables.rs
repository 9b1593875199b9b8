//! Bad lines: slow, cut in the middle of a look and of an upload, and a disk that is full at the other end. Each ends in its time, is
//! said, and goes on when the cable is back.

use std::time::{Duration, Instant};

use capstan_host_provider::access::{Claim, Machines as _};
use capstan_hosts::owner::OwnerAnswer;
use capstan_hosts::run::Changed;
use capstan_remote::trouble::SshTrouble;

use super::line::Line;
use super::machine::{Client, Machine, Wishes, has_namespaces};
use super::namespaces::Cable;
use super::{machines, owner, plan, reach};

/// Of an upload; more than what is under way on a line at once.
const MUCH: usize = 1_400_000;

/// How soon a connection that is dead is given up: in three seconds instead of 60.
const SOON: &str = "exec ssh -o ServerAliveInterval=1 -o ServerAliveCountMax=2 -F \"$folder/config\" \"$@\"";

fn passes(client: &Client, place: &str) {
    let (code, text) = client.check(&[place]);
    assert!(matches!(code, Some(0 | 11)), "{code:?}: {text}");
}

/// Waits for a file that a program of the machine makes.
async fn until_there(path: &std::path::Path) {
    let begun = Instant::now();
    while !path.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} is never made", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A program of the machine that says that it was reached, and goes on when there is no gate any more.
fn gated(machine: &Machine, name: &str) {
    std::fs::write(machine.at("gate"), "").expect("a gate");
    machine.program(
        name,
        &format!(
            ": >\"$MACHINE/reached\"\nwhile [ -e \"$MACHINE/gate\" ]; do sleep 0.05; done\nPATH=${{PATH#*/programs:}}\nexec {name} \"$@\""
        ),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_over_a_line_that_is_slow_or_cut_ends_in_time() {
    let Some(machine) = Machine::start(Wishes::default()).await else { return };
    let line = Line::to(machine.port()).await;
    let client = Client::of(&machine, &machine.known_at(line.port));
    let place = format!("127.0.0.1:{}", line.port);
    passes(&client, &place);
    let (up, down) = (line.up(), line.down());
    println!("a look by host check: {up} bytes up, {down} bytes down");

    // Cut at ever later moments: before the key, before the user, before the question, in the middle of it.
    for part in [0, 5, 25, 50, 75, 95] {
        line.cut_after(up * part / 100);
        let begun = Instant::now();
        let (code, text) = client.check(&[&place, "--timeout", "2s"]);
        assert_eq!(code, Some(13), "{part} %: {text}");
        assert!(text.contains("no end within 2 seconds"), "{part} %: {text}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{part} %: {:?}", begun.elapsed());
        assert!(line.is_cut(), "{part} %");
        line.mend();
    }
    passes(&client, &place);

    line.delay(Duration::from_millis(150));
    let begun = Instant::now();
    passes(&client, &place);
    println!("a look with 300 ms there and back: {:.1} s", begun.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_was_cut_is_made_again() {
    let Some(machine) = Machine::start(Wishes::default()).await else { return };
    let line = Line::to(machine.port()).await;
    let client = Client::of(&machine, "");
    client.called(SOON);
    let (asked, at) = (machines(&client), reach(&machine, line.port));
    let (plan, owner) = (plan(MUCH), owner());
    let claimed = asked.claim(&at, &Claim::Make, &owner).await.expect("a claim");
    assert!(matches!(claimed, OwnerAnswer::Ours { is_new: true, .. }), "{claimed:?}");
    for part in [10, 50, 90] {
        line.cut_after(MUCH as u64 * part / 100);
        let begun = Instant::now();
        let silence = asked.upload(&at, &plan, &owner).await.expect_err("no answer");
        assert_eq!(
            (silence.trouble, silence.is_passing()),
            (Some(SshTrouble::Unreachable), true),
            "{silence}"
        );
        assert!(begun.elapsed() < Duration::from_secs(30), "{part} %: {:?}", begun.elapsed());
        let run = plan.id.folder();
        assert_eq!(machine.read(&format!("{}/ready", run.trim_start_matches('/'))), None, "half is nothing");
        line.mend();
        assert!(asked.facts(&at).await.is_ok(), "{part} %");
    }
    assert_eq!(asked.upload(&at, &plan, &owner).await, Ok(Changed::Done));
    assert_eq!(asked.upload(&at, &plan, &owner).await, Ok(Changed::Already));
}

/// A machine that was never told of the end keeps the session, and the session keeps the lock, until its sshd asks for a sign of life.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_left_behind_ends_where_sshd_asks_for_signs_of_life() {
    let config = "ClientAliveInterval 1\nClientAliveCountMax 3";
    let Some(machine) = Machine::start(Wishes::with(config)).await else { return };
    let line = Line::to(machine.port()).await;
    let client = Client::of(&machine, "");
    client.called(SOON);
    let (asked, at) = (machines(&client), reach(&machine, line.port));
    let (plan, owner) = (plan(MUCH), owner());
    asked.claim(&at, &Claim::Make, &owner).await.expect("a claim");
    line.cut_after(MUCH as u64 / 2);
    let silence = asked.upload(&at, &plan, &owner).await.expect_err("no answer");
    assert!(silence.is_passing(), "{silence}");
    line.mend_late();
    let mut changed = asked.upload(&at, &plan, &owner).await;
    for _ in 0..5 {
        if changed != Ok(Changed::NotOwner(OwnerAnswer::Busy)) {
            break;
        }
        changed = asked.upload(&at, &plan, &owner).await;
    }
    assert_eq!(changed, Ok(Changed::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cable_that_is_pulled_out_is_noticed_and_comes_back() {
    let Some(cable) = Cable::new() else { return };
    let Some(mut machine) = cable.machine().await else { return };
    let client = cable.client(&machine);
    let place = machine.place();
    passes(&client, &place);
    gated(&machine, "uname");
    let begun = Instant::now();
    let (code, text) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| client.check(&[&place, "--timeout", "10s"]));
        while !machine.at("reached").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60) && !asked.is_finished(), "never asked");
            std::thread::sleep(Duration::from_millis(20));
        }
        cable.cut();
        std::fs::remove_file(machine.at("gate")).expect("the gate opens");
        asked.join().expect("an answer")
    });
    assert!(code == Some(13) && text.contains("no end within 10 seconds"), "{code:?} {text}");
    let (code, text) = client.check(&[&place, "--timeout", "2s"]);
    let is_said = text.contains("no end within 2 seconds") || text.contains("No route to host");
    assert!(code == Some(13) && is_said, "{code:?} {text}");
    cable.mend();
    // The kernel remembers for a moment that there was no way.
    let begun = Instant::now();
    while client.check(&[&place]).0 == Some(13) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never comes back");
    }

    if !cable.worsen("delay 150ms loss 10%") {
        println!("skipped: the kernel has no netem for loss and delay");
        return;
    }
    let begun = Instant::now();
    passes(&client, &place);
    println!("a look with 300 ms there and back and 10 % loss: {:.1} s", begun.elapsed().as_secs_f64());
    machine.until_log("Accepted publickey").await;
}

/// With the times that ssh is called with: a minute of silence.
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_over_a_cable_that_is_pulled_out_ends_and_is_made_again() {
    let Some(cable) = Cable::new() else { return };
    let Some(machine) = cable.machine().await else { return };
    let client = cable.client(&machine);
    let (asked, at) = (machines(&client), reach(&machine, machine.port()));
    let (plan, owner) = (plan(MUCH), owner());
    asked.claim(&at, &Claim::Make, &owner).await.expect("a claim");
    gated(&machine, "tar");
    let begun = Instant::now();
    let pulled = async {
        until_there(&machine.at("reached")).await;
        cable.cut();
        std::fs::remove_file(machine.at("gate")).expect("the gate opens");
    };
    let (silence, ()) = tokio::join!(asked.upload(&at, &plan, &owner), pulled);
    let silence = silence.expect_err("no answer");
    println!("an upload over a dead cable: {silence} after {:.0} s", begun.elapsed().as_secs_f64());
    assert!(silence.is_passing() && begun.elapsed() < Duration::from_secs(90), "{silence}");
    cable.mend();
    let begun = Instant::now();
    loop {
        match asked.upload(&at, &plan, &owner).await {
            // All of it may have arrived, and only the answer was lost.
            Ok(Changed::Done | Changed::Already) => break,
            // The session before has the lock until its end is noticed.
            Ok(Changed::NotOwner(OwnerAnswer::Busy)) | Err(_) => {}
            other => panic!("{other:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "never");
    }
    println!("uploaded {:.0} s after the cable was back", begun.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_said_and_what_fits_later_is_uploaded() {
    if !has_namespaces() {
        return;
    }
    let mounts = "mount -t tmpfs -o size=1m none \"$MACHINE/files/var/lib/capstan\"";
    let Some(machine) = Machine::start(Wishes::mounted(mounts)).await else { return };
    let client = Client::of(&machine, "");
    let (asked, at) = (machines(&client), reach(&machine, machine.port()));
    let (plan, owner) = (plan(MUCH), owner());
    let claimed = asked.claim(&at, &Claim::Make, &owner).await.expect("a claim");
    assert!(matches!(claimed, OwnerAnswer::Ours { .. }), "{claimed:?}");
    let silence = asked.upload(&at, &plan, &owner).await.expect_err("no room").to_string();
    println!("{silence}");
    assert!(silence.contains("No space left on device"), "{silence}");
    // What came is taken away again: there is room for the lock, the owner, and a smaller run.
    assert!(matches!(asked.owner(&at).await, Ok(OwnerAnswer::Other { .. })));
    let small = super::plan(10_000);
    assert_eq!(asked.upload(&at, &small, &owner).await, Ok(Changed::Done));
}
