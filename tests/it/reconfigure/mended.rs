//! A ConfigMap that somebody made unreadable after a change: its rollback writes it back first.

use http::Method;
use kubeadm_change::record::ChangeRecord;

use super::site::map;
use super::{CLUSTER, FLAG, M1, Person, on};

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

async fn broken(person: &Person) {
    let text = map("kubeadm-config", "ClusterConfiguration", "a: [");
    person.site.send(Method::PATCH, &format!("{MAPS}/kubeadm-config"), &text).await;
}

async fn fails(person: &Person, words: &[&str], answers: &str) -> String {
    person.tries(words, answers).await.err().expect("an error").to_string()
}

#[tokio::test]
async fn an_unreadable_config_map_is_written_back_and_the_change_taken_back() {
    let person = Person::at(1, 0).await;
    assert_eq!(person.applies(&[&["apply"][..], &FLAG].concat()).await.exit_code, 0);
    let left = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    broken(&person).await;
    for words in [&["status"][..], &["rollback", "--plan"]] {
        assert!(fails(&person, words, "").await.contains("kubeadm-config, key ClusterConfiguration"));
    }
    assert_eq!(fails(&person, &["rollback"], "n\n").await, "not confirmed; nothing was written");
    assert_eq!(person.site.stored("kubeadm-config", "ClusterConfiguration").await, "a: [");

    let stopped =
        person.tries(&["rollback"], "y\nn\n").await.err().expect("the rollback itself is asked for");
    assert_eq!(stopped.to_string(), "not confirmed; nothing was written");
    assert_eq!(person.site.stored("kubeadm-config", "ClusterConfiguration").await, left);

    broken(&person).await;
    let back = person.applies(&["rollback"]).await;
    let words = "what change PLAN left there is written back";
    assert!(back.exit_code == 0 && back.text.contains(words), "{}", back.text);
    let stored = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    assert!(stored.contains("clusterName: prod") && !stored.contains("event-ttl"), "{stored}");
    assert_eq!(on(&person.site.lines(), "cp-0", M1), 2);
    let journal = std::fs::read_to_string(person.folder.path().join("journal.jsonl")).expect("a journal");
    assert!(journal.lines().filter(|line| line.contains("ConfigMap")).count() >= 2, "{journal}");
}

#[tokio::test]
async fn what_no_change_left_there_is_not_made_up() {
    let person = Person::at(1, 0).await;
    broken(&person).await;
    let error = fails(&person, &["rollback", "--yes"], "").await;
    assert!(error.contains("YAML or JSON was expected here"), "{error}");
    person
        .site
        .send(
            Method::PATCH,
            &format!("{MAPS}/kubeadm-config"),
            &map("kubeadm-config", "ClusterConfiguration", CLUSTER),
        )
        .await;
    assert_eq!(person.applies(&[&["apply"][..], &FLAG].concat()).await.exit_code, 0);
    let record: ChangeRecord = person.record().await;
    let data = serde_json::json!({"data": {"after.kubeadm-config": "a: ["}});
    person.site.send(Method::PATCH, &format!("{MAPS}/capstan-change"), &data).await;
    broken(&person).await;
    let error = fails(&person, &["rollback", "--yes"], "").await;
    assert!(error.contains("YAML or JSON was expected here"), "{} {error}", record.id);
}
