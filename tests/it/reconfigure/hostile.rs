//! What stands in a cluster may have been written by anybody: records, and what goes on with them.

use http::Method;
use serde_json::{Value, json};

use super::{FLAG, M1, Person, on};

const RECORD: &str = "/api/v1/namespaces/kube-system/configmaps/capstan-change";

/// A change that stopped at its first node.
async fn interrupted(words: &[&str]) -> Person {
    let person = Person::at(2, 0).await;
    person.site.beside.lock().fault = Some(("cp-0".to_owned(), M1));
    assert_eq!(person.applies(&[&["apply"], words, &FLAG].concat()).await.exit_code, 11);
    person
}

/// Writes something else into the record.
async fn rewrite(person: &Person, edit: impl FnOnce(&mut Value)) {
    let map = person.site.get(RECORD).await;
    let mut record: Value =
        serde_json::from_str(map["data"]["record"].as_str().expect("a record")).expect("JSON");
    edit(&mut record);
    let patch = json!({"data": {"record": record.to_string()}});
    person.site.send(Method::PATCH, RECORD, &patch).await;
}

#[tokio::test]
async fn a_record_with_an_id_of_another_form_is_refused() {
    for id in ["x; touch obeyed; echo $(id) #", "x/../../../escaped", "$(touch obeyed)", "0a1b2c3d4e5f\n"] {
        let person = interrupted(&[]).await;
        let before = person.site.lines().len();
        rewrite(&person, |record| record["id"] = json!(id)).await;
        for words in [
            &["apply", "--executor", "ssh", "--yes"][..],
            &["rollback", "--executor", "ssh", "--yes"],
            &["status"],
        ] {
            let error = person.tries(words, "").await.err().expect(id).to_string();
            assert!(error.contains("expected 12 hexadecimal digits: capstan did not write it"), "{error}");
        }
        assert_eq!(person.site.lines().len(), before, "nothing was run");
        let files = std::fs::read_dir(person.folder.path()).expect("a folder").flatten();
        let names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        assert!(names.iter().all(|name| !name.contains("escaped") && !name.contains("obeyed")), "{names:?}");
        assert!(!person.folder.path().join("../escaped.log").exists());
    }
}

#[tokio::test]
async fn going_on_shows_the_plan_and_judges_it_anew() {
    let person = interrupted(&["--acknowledge", "--set", "cpuManagerPolicy=static"]).await;
    let before = person.site.lines().len();
    let said = person.applies(&["apply"]).await;
    assert!(
        said.exit_code == 14 && said.text.contains("STEPS") && said.text.contains("cpuManagerPolicy"),
        "{}",
        said.text
    );
    assert_eq!(person.site.lines().len(), before, "nothing was run");
    let error = person.tries(&["apply", "--acknowledge"], "n\n").await.err().expect("not confirmed");
    assert_eq!(error.to_string(), "not confirmed; nothing was written");
}

#[tokio::test]
async fn a_block_is_not_passed_because_it_stands_in_a_record() {
    let person = interrupted(&[]).await;
    let stored = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    let blocked = stored.replace("dnsDomain: cluster.local", "dnsDomain: corp.local");
    assert_ne!(stored, blocked);
    let patch = json!({"data": {"after.kubeadm-config": blocked}});
    person.site.send(Method::PATCH, RECORD, &patch).await;
    let before = person.site.lines().len();
    let said = person.applies(&["apply", "--acknowledge"]).await;
    assert!(said.exit_code == 12 && said.text.contains("dnsDomain"), "{}", said.text);
    assert_eq!(person.site.lines().len(), before, "nothing was run");
}

#[tokio::test]
async fn what_was_taken_back_is_stored_again_only_by_name() {
    let person = Person::at(1, 0).await;
    assert_eq!(person.applies(&[&["apply"][..], &FLAG].concat()).await.exit_code, 0);
    assert_eq!(person.applies(&["rollback"]).await.exit_code, 0);
    let taken = person.record().await;
    assert!(taken.takes_back.as_ref().is_some_and(|taken| !taken.was_open), "{taken:?}");
    let runs = on(&person.site.lines(), "cp-0", M1);
    let said = person.applies(&["rollback"]).await;
    assert!(
        said.exit_code == 12 && said.text.contains("event-ttl") && said.text.contains("rollback --change "),
        "{}",
        said.text
    );
    assert_eq!(on(&person.site.lines(), "cp-0", M1), runs, "nothing was run");
    let said = person.applies(&["rollback", "--change", taken.id.as_str()]).await;
    assert_eq!(said.exit_code, 0, "{}", said.text);
    assert!(person.site.stored("kubeadm-config", "ClusterConfiguration").await.contains("event-ttl"));
}

#[tokio::test]
async fn a_rollback_that_stopped_goes_on() {
    let person = interrupted(&[]).await;
    person.site.beside.lock().fault = Some(("cp-1".to_owned(), M1));
    let stopped = person.applies(&["rollback"]).await;
    assert!(
        stopped.exit_code == 11 && !stopped.text.contains("`capstan change rollback` takes it back"),
        "{}",
        stopped.text
    );
    let said = person.applies(&["rollback"]).await;
    assert!(said.exit_code == 0 && said.text.contains("is not over"), "{}", said.text);
    let stored = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    assert!(!stored.contains("event-ttl"), "the value is not stored again: {stored}");
}
