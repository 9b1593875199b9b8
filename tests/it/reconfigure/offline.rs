//! The way back while no API server answers: by commands on hosts alone.

use super::{FLAG, M1, Person, Reach, on};
use capstan_engine::client::ConnectOptions;

#[tokio::test]
async fn hosts_get_back_what_stood_there() {
    let person = Person::at(2, 0).await;
    person.site.beside.lock().fault = Some(("cp-0".to_owned(), M1));
    let stopped = person.applies(&[&["apply"][..], &FLAG].concat()).await;
    let id = person.record().await.id.to_string();
    let line = "if no API server comes back: capstan change rollback --offline --change PLAN --node cp-0=10.0.0.1 --node cp-1=10.0.0.2\n";
    assert!(stopped.text.ends_with(line), "{}", stopped.text);

    let requests = person.site.beside.lock().requests.len();
    let words =
        ["rollback", "--offline", "--node", "cp-0=10.0.0.1", "--node", "cp-1=10.0.0.2", "--change", &id];
    let error = person.tries(&words, "n\n").await.err().expect("an error").to_string();
    assert_eq!(error, "not confirmed; nothing was written");
    let script = format!("sh /etc/kubernetes/tmp/capstan-{id}/back.sh locked");
    person.site.beside.lock().fault = Some(("cp-0".to_owned(), "sh /etc/kubernetes/tmp/capstan-"));
    let said = person.says(&[&words[..], &["--yes"]].concat()).await;
    assert_eq!(
        said.text,
        "cp-0: connection closed\ncp-1: everything is as it was before\n\
         when an API server answers: capstan change rollback takes back what is stored\n"
    );
    assert_eq!((said.exit_code, on(&person.site.lines(), "cp-1", &script)), (11, 1), "the others are tried");
    assert_eq!(person.site.beside.lock().requests.len(), requests, "the API is not asked");
    let journal = std::fs::read_to_string(person.folder.path().join("journal.jsonl")).expect("a journal");
    assert!(journal.contains("change rollback --offline"), "{journal}");
    let read_only = person.tries(&[&words[..], &["--read-only", "--yes"]].concat(), "").await.err();
    assert!(read_only.expect("refused").to_string().contains("--read-only"), "hosts are written to");
}

#[tokio::test]
async fn a_rollback_that_nothing_answers_names_the_way_on_hosts() {
    let person = Person::at(1, 0).await;
    let path = "GET /api/v1/namespaces/kube-system/configmaps/kubeadm-config";
    person.site.beside.lock().refused = vec![(path.to_owned(), 500)];
    let error = person.tries(&["rollback"], "").await.err().expect("an error").to_string();
    assert!(error.contains("`capstan change rollback --offline --node NAME=ADDRESS` puts back"), "{error}");
    let error = person.tries(&["status"], "").await.err().expect("an error").to_string();
    assert!(!error.contains("--offline"), "only a rollback has that way: {error}");
}

/// What is said where the kubeconfig leads.
async fn refusal(person: &Person, server: &str, words: &[&str]) -> String {
    let kubeconfig = person.folder.path().join("config");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c,
           clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}],
           contexts: [{{name: c, context: {{cluster: c}}}}]}}"
    );
    std::fs::write(&kubeconfig, text).expect("written");
    let options = ConnectOptions { kubeconfig: Some(kubeconfig), ..ConnectOptions::default() };
    person.tries_at(Reach::Options(options), words, "").await.err().expect("an error").to_string()
}

#[tokio::test]
async fn a_rollback_without_a_connection_names_the_way_on_hosts() {
    let person = Person::at(1, 0).await;
    let closed = "http://127.0.0.1:1";
    let error = refusal(&person, closed, &["rollback"]).await;
    let (first, second) = error.split_once('\n').expect("two lines");
    assert!(first.starts_with("no API server answers at http://127.0.0.1:1"), "{error}");
    assert!(second.contains("`capstan change rollback --offline --node NAME=ADDRESS` puts back"), "{error}");
    let error = refusal(&person, closed, &["status"]).await;
    assert!(!error.contains("--offline"), "only a rollback has that way: {error}");
    let error = refusal(&person, "nothing://here", &["rollback"]).await;
    assert!(!error.contains("--offline"), "the kubeconfig is what is wrong: {error}");
}
