//! What somebody stored by hand is rolled out.

use http::Method;

use super::site::{CLUSTER, map};
use super::{M1, Person, on};

const MAPS: &str = "/api/v1/namespaces/kube-system/configmaps";

#[tokio::test]
async fn what_was_stored_by_hand_is_rolled_out() {
    let person = Person::at(2, 1).await;
    let nothing = person.applies(&["apply", "--as-stored"]).await;
    assert_eq!((nothing.exit_code, person.site.lines().len()), (0, 0), "{}", nothing.text);

    let cluster = format!("{CLUSTER}scheduler:\n  extraArgs:\n  - name: v\n    value: \"4\"\n");
    let stored = map("kubeadm-config", "ClusterConfiguration", &cluster);
    person.site.send(Method::PATCH, &format!("{MAPS}/kubeadm-config"), &stored).await;
    let kubelet = person.site.stored("kubelet-config", "kubelet").await.replace("110", "60");
    let stored = map("kubelet-config", "kubelet", &kubelet);
    person.site.send(Method::PATCH, &format!("{MAPS}/kubelet-config"), &stored).await;

    let status = person.says(&["status", "--kubelets"]).await;
    assert!(status.exit_code == 11 && status.text.contains("maxPods: 110 → 60"), "{}", status.text);
    let refused = person.applies(&["apply", "--as-stored"]).await;
    assert_eq!((refused.exit_code, person.site.lines().len()), (14, 0), "{}", refused.text);
    person.site.beside.lock().fault = Some(("cp-1".to_owned(), M1));
    let stopped = person.applies(&["apply", "--as-stored", "--acknowledge"]).await;
    assert_eq!(stopped.exit_code, 11, "{}", stopped.text);
    let gone_on = person.applies(&["apply", "--acknowledge"]).await;
    assert_eq!(gone_on.exit_code, 0, "{}", gone_on.text);
    let lines = person.site.lines();
    for node in ["cp-0", "cp-1"] {
        assert_eq!(on(&lines, node, M1), 1, "{lines:#?}");
    }
    assert_eq!(on(&lines, "w-000", "systemctl restart kubelet"), 1, "{lines:#?}");
    assert_eq!(person.says(&["status", "--kubelets"]).await.exit_code, 0);
    let back = person.applies(&["rollback"]).await;
    assert!(
        back.exit_code == 0 && back.text.contains("nothing to do"),
        "nothing was stored by it: {}",
        back.text
    );
}

#[tokio::test]
async fn warnings_are_acknowledged_by_their_names() {
    let person = Person::at(1, 1).await;
    let plan = |names: &'static [&'static str]| [&["plan", "--set", "maxPods=60"][..], names].concat();
    let open = person.says(&plan(&[])).await;
    let words = "to acknowledge, all by --acknowledge or each by --acknowledge NAME: maxPods\n";
    assert!(open.exit_code == 14 && open.text.contains(words), "{}", open.text);
    for names in [&["--acknowledge", "maxPods"][..], &["--acknowledge"]] {
        assert_eq!(person.says(&plan(names)).await.exit_code, 10, "{names:?}");
    }
    let other = ["apply", "--set", "maxPods=60", "--acknowledge", "mode", "--yes"];
    let error = person.tries(&other, "").await.err().expect("it means another plan").to_string();
    assert_eq!(error, "--acknowledge mode: this plan asks for maxPods");
    let applied = person.applies(&["apply", "--set", "maxPods=60", "--acknowledge", "maxPods"]).await;
    assert_eq!(applied.exit_code, 0, "{}", applied.text);
}
