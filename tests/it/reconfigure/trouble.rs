//! Trouble from outside while a change is carried out: hosts that lack something, kubelets that are dead, API servers that have
//! just come back.

use super::{FLAG, M1, Person, on};

#[tokio::test]
async fn what_hosts_lack_is_named_at_once_before_anything_is_written() {
    let person = Person::at(3, 0).await;
    let words = [&["apply"][..], &FLAG].concat();
    {
        let mut beside = person.site.beside.lock();
        let missing = "missing: crictl is not installed\nv1.34.1\n".to_owned();
        beside.answers.insert("cp-0".to_owned(), Ok(missing));
        beside.answers.insert("cp-2".to_owned(), Err("Host key verification failed.\n".to_owned()));
    }
    let said = person.applies(&words).await;
    let last = said.text.lines().last().unwrap_or_default();
    assert_eq!(
        last,
        "only planned, nothing was written: cp-0: crictl is not installed; cp-0: kubeadm is v1.34.1, and the cluster 1.36: it would \
         write what its own release writes; install kubeadm 1.36; cp-2: nothing can be run there: Host key verification failed."
    );
    assert_eq!((said.exit_code, person.site.lines()), (11, Vec::new()));
    let stored = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    assert_eq!(stored, super::CLUSTER, "nothing is written");
    let runbook = person.says(&[&words[..], &["--yes"]].concat()).await;
    assert_eq!(runbook.exit_code, 10, "people look themselves: {}", runbook.text);
}

#[tokio::test]
async fn a_change_goes_on_where_hosts_let_it() {
    let person = Person::at(2, 0).await;
    person.site.beside.lock().fault = Some(("cp-1".to_owned(), M1));
    assert_eq!(person.applies(&[&["apply"][..], &FLAG].concat()).await.exit_code, 11);
    person.site.beside.lock().answers.insert("cp-0".to_owned(), Err("Connection refused".to_owned()));
    let said = person.applies(&["apply"]).await;
    assert!(
        said.exit_code == 0
            && said.text.contains("on hosts: cp-0: nothing can be run there: Connection refused"),
        "{}",
        said.text
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_kubelet_is_a_sentence_and_is_mended_by_the_way_back() {
    let person = Person::at(1, 1).await;
    person.site.beside.lock().dead_kubelets.insert("w-000".to_owned());
    let said = person.applies_within(&["apply", "--set", "maxPods=60", "--acknowledge"], "1s", "3s").await;
    let words = "kubelet on w-000: the kubelet of w-000 does not answer (503): refused by the test";
    assert!(said.exit_code == 11 && said.text.contains(words), "{}", said.text);
    let status = person.says(&["status"]).await;
    assert!(status.exit_code == 10 && status.text.contains("does not answer (503)"), "{}", status.text);
    let restarts = |person: &Person| on(&person.site.lines(), "w-000", "systemctl restart kubelet");
    let before = restarts(&person);
    person.site.beside.lock().revived_by = Some("systemctl restart kubelet");
    let back = person.applies(&["rollback", "--acknowledge"]).await;
    assert_eq!((back.exit_code, restarts(&person)), (0, before + 1), "{}", back.text);
}

#[tokio::test]
async fn an_api_server_that_comes_back_is_waited_for() {
    for (path, status) in [
        // It does not know yet who may do what.
        ("GET /api/v1/namespaces/kube-system/configmaps/kubeadm-config", 403),
        ("GET /api/v1/nodes", 503),
        // The record, after everything else.
        ("PATCH /api/v1/namespaces/kube-system/configmaps/capstan-change", 503),
    ] {
        let person = Person::at(1, 0).await;
        person.site.beside.lock().troubled = Some((M1, path, status, 3));
        let said = person.applies(&[&["apply"][..], &FLAG].concat()).await;
        assert_eq!(said.exit_code, 0, "{path}: {}", said.text);
        assert!(person.site.beside.lock().troubled.is_none(), "{path}: it happened");
    }
    let person = Person::at(1, 0).await;
    let path = "GET /api/v1/namespaces/kube-system/configmaps/kubeadm-config";
    person.site.beside.lock().refused = vec![(path.to_owned(), 403)];
    let error = person.tries(&["status"], "").await.err().expect("an error").to_string();
    assert!(error.starts_with("missing right at "), "a server that is ready means it: {error}");
}

#[tokio::test]
async fn what_only_hosts_show_is_drift() {
    let person = Person::at(2, 1).await;
    let status = ["status", "--executor", "ssh"];
    let nothing = person.says(&status).await;
    assert_eq!((nothing.exit_code, nothing.remarks), (0, Vec::new()), "{}", nothing.text);
    {
        let mut beside = person.site.beside.lock();
        let flags =
            |part: &str, address: &str| format!("== {part}\nKUBELET_KUBEADM_ARGS=\"--node-ip={address}\"\n");
        let edited = flags("flags file", "10.0.0.9") + &flags("flags running", "10.0.0.3");
        beside.answers.insert("w-000".to_owned(), Ok(edited));
        beside.answers.insert("cp-1".to_owned(), Ok("== command\nkubelet\n--node-ip=10.9.9.9\n".to_owned()));
        beside.answers.insert("cp-0".to_owned(), Err("Connection refused".to_owned()));
    }
    let said = person.says(&status).await;
    for words in [
        "DRIFT on hosts",
        "cp-1: what runs is not what stands there",
        "kubelet was started with --node-ip=10.9.9.9, and its Node has 10.0.0.2",
        "kubeadm-flags.env was edited: - --node-ip=10.0.0.3, + --node-ip=10.0.0.9",
    ] {
        assert!(said.exit_code == 11 && said.text.contains(words), "{words} in {}", said.text);
    }
    assert_eq!(said.remarks, ["cp-0: nothing can be run there: Connection refused"]);
    assert_eq!(person.site.lines(), [""; 0], "nothing is changed there");
    let ports = person.says(&["status", "--certificates"]).await;
    assert!(
        ports.exit_code == 0 && ports.remarks.len() == 4,
        "nobody can forward ports here: {:?}",
        ports.remarks
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_is_waited_for_as_long_as_was_said() {
    let person = Person::at(1, 0).await;
    person.site.beside.lock().silent_after = Some(M1);
    let began = tokio::time::Instant::now();
    let said = person.applies_within(&[&["apply"][..], &FLAG].concat(), "1s", "5s").await;
    let words = "it did not show within 5 s, no further step was begun: the server did not answer in time";
    assert!(said.exit_code == 11 && said.text.contains(words), "{} {}", said.exit_code, said.text);
    assert!(began.elapsed().as_secs() < 7, "{:?}", began.elapsed());
}
