//! Lists of any kind that a server has: what is asked for and after which rest, what is shown of it, and what is read of a real
//! answer of the server.

use std::sync::Arc;

use capi_rules::admission::Webhooks;
use capstan_dashboard::operations::{FieldPath, ObjectQuery, ObjectTable, PathColumn, TableColumn, TableRow};
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::Model;
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::text;
use capstan_dashboard::tui::subject::{ObjectsSubject, Subject, SubjectKind};
use capstan_dashboard::tui::update::update;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::actions::Place;
use crate::fleet_fixture as fixture;
use crate::golden;
use crate::harbor_screen::{keys, model};

/// The reading that is asked for, and the rest before it.
fn asked(effects: &[Effect]) -> Option<(ObjectsSubject, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: Subject::Objects(subject), wait_ms, .. } => Some((subject.clone(), *wait_ms)),
        _ => None,
    })
}

fn answer(model: &mut Model, of: &ObjectsSubject, read: Result<ObjectTable, String>) -> Vec<Effect> {
    let (subject, reading) = (Subject::Objects(of.clone()), Reading::Objects(read.map(Box::new)));
    update(model, Msg::Done(EffectOutcome::Read { subject, reading }))
}

fn hosts() -> ObjectTable {
    let column = |name: &str, is_wide| TableColumn { name: name.to_owned(), is_wide };
    let row = |namespace: &str, name: &str, state: &str, age: &str| TableRow {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("{namespace}/{name}"),
        cells: [name, state, age, "long text that only wide lists have"].map(str::to_owned).to_vec(),
    };
    ObjectTable {
        gvk: capi_types::key::Gvk {
            group: "metal3.io".to_owned(),
            version: "v1alpha1".to_owned(),
            plural: "baremetalhosts".to_owned(),
            kind: "BareMetalHost".to_owned(),
            namespaced: true,
        },
        columns: vec![
            column("Name", false),
            column("State", false),
            column("Age", false),
            column("Error", true),
        ],
        rows: vec![
            row("metal", "rack-1-host-7", "provisioned", "9d"),
            row("metal", "rack-1-host-8", "available", "100d"),
            row("spare", "rack-2-host-1", "provisioning", "12m"),
        ],
        more: None,
    }
}

#[test]
fn a_kind_of_the_server_is_read_shown_narrowed_and_ordered() {
    let mut model = model(80, 24);
    let effects = keys(&mut model, "\":hosts\" enter");
    let (of, rest) = asked(&effects).expect("it is read");
    assert_eq!(
        (of.query.named.as_str(), of.query.otherwise, of.query.namespace.as_str(), rest),
        ("hosts.infrastructure.cluster.x-k8s.io", "baremetalhosts.metal3.io", "", 0)
    );
    assert!(text(&mut model).contains("are being read"), "{}", text(&mut model));
    let next = asked(&answer(&mut model, &of, Ok(hosts()))).expect("it is read again");
    assert!(next.1 > 0, "after a rest");
    golden::screen("objects-80x24", &text(&mut model));
    keys(&mut model, "\":sort age\" enter");
    let screen = text(&mut model);
    let place = |name: &str| screen.find(name).expect("a row");
    assert!(
        place("rack-2-host-1") < place("rack-1-host-7") && place("rack-1-host-7") < place("rack-1-host-8")
    );
    keys(&mut model, "/ \"prov !spare\" enter");
    assert!(text(&mut model).contains("baremetalhosts 1 of 3"), "{}", text(&mut model));
    keys(&mut model, "esc \":sort color\" enter");
    assert!(text(&mut model).contains("known: name, state, age, error"), "{}", text(&mut model));
    let effects = keys(&mut model, "enter");
    let is_object = |effect: &Effect| matches!(effect, Effect::Read { subject: Subject::Object(_), .. });
    assert!(effects.iter().any(is_object), "its YAML: {effects:?}");
    let stops = |effect: &Effect| matches!(effect, Effect::StopReading(SubjectKind::Objects));
    assert!(effects.iter().any(stops), "the list is not read meanwhile: {effects:?}");
}

#[test]
fn what_cannot_be_read_is_said_and_what_was_read_stays() {
    let mut model = model(80, 24);
    let effects = keys(&mut model, "\":get widgets\" enter");
    let (of, _) = asked(&effects).expect("it is read");
    let why = "the server has no kind that is called `widgets`";
    answer(&mut model, &of, Err(why.to_owned()));
    assert!(text(&mut model).contains(why), "{}", text(&mut model));
    answer(&mut model, &of, Ok(ObjectTable { more: Some(Some(41)), ..hosts() }));
    assert!(text(&mut model).contains("baremetalhosts 3 of 44"), "{}", text(&mut model));
    answer(&mut model, &of, Err("not allowed: list widgets".to_owned()));
    let screen = text(&mut model);
    assert!(screen.contains("rack-2-host-1") && screen.contains("not since"), "{screen}");
    let query = ObjectQuery { named: "others".to_owned(), ..of.query.clone() };
    let other = ObjectsSubject { query, ..of };
    answer(&mut model, &other, Ok(ObjectTable { rows: Vec::new(), ..hosts() }));
    assert!(text(&mut model).contains("rack-2-host-1"), "an answer about another kind");
}

#[test]
fn kinds_that_are_watched_have_their_own_lists() {
    let mut model = model(80, 24);
    let effects = keys(&mut model, "\":get ma\" enter");
    assert!(asked(&effects).is_none() && text(&mut model).contains("machines "), "{}", text(&mut model));
}

#[tokio::test]
async fn the_first_objects_of_any_kind_are_read_and_no_secret_is() {
    let place = Place::serving(capi_types::crds::all(), Arc::new(Webhooks)).await;
    let secrets: Api<Secret> = Api::namespaced(place.connection(false).client, "default");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a-ca"},
                        "data": {"tls.key": "c2VjcmV0LXZhbHVl"}});
    let secret: Secret = serde_json::from_value(secret).expect("a Secret");
    secrets.create(&PostParams::default(), &secret).await.expect("created");
    let executor = place.executor(true);
    let query = |named: &str, namespace: &str, own: &[PathColumn]| ObjectQuery {
        named: named.to_owned(),
        namespace: namespace.to_owned(),
        own: own.to_vec(),
        ..ObjectQuery::default()
    };
    for named in ["secrets", "secret", "Secret"] {
        let table = executor.objects(&query(named, "", &[])).await.expect(named);
        assert_eq!((table.rows.len(), table.rows[0].name.as_str()), (1, "a-ca"), "{named}");
        assert!(!format!("{table:?}").contains("c2VjcmV0"), "{table:?}");
    }
    assert!(executor.objects(&query("secrets", "elsewhere", &[])).await.expect("none").rows.is_empty());
    let own = |path: &str| {
        let path = FieldPath::parse(path).expect("a path");
        vec![PathColumn { name: "X".to_owned(), path }]
    };
    let error = executor.objects(&query("secrets", "", &own(".data['tls.key']"))).await.expect_err("refused");
    assert!(error.contains("fields of Secrets are not read"), "{error}");
    let kinds = executor
        .objects(&query("customresourcedefinitions", "", &own(".spec.names.kind")))
        .await
        .expect("kinds");
    assert!(kinds.rows.iter().any(|row| row.cells.last().is_some_and(|cell| cell == "Machine")), "{kinds:?}");
    let instead = ObjectQuery {
        otherwise: "hosts.infrastructure.cluster.x-k8s.io",
        ..query("baremetalhosts.metal3.io", "", &[])
    };
    let hosts = executor.objects(&instead).await.expect("the other kind");
    let shown: Vec<&str> = hosts.columns.iter().filter(|it| !it.is_wide).map(|it| it.name.as_str()).collect();
    assert_eq!(shown, ["Name", "Pool", "Address", "State", "Claimed by", "CPUs", "MiB", "Kubelet", "Age"]);
    let error = executor.objects(&query("secretz", "", &[])).await.expect_err("no such kind");
    assert!(error.contains("no kind that is called `secretz`; did you mean `secrets`?"), "{error}");
}

/// A path that is typed is marked where it cannot be understood, and what it finds is a column.
#[test]
fn columns_are_chosen_by_name_and_by_path() {
    let mut model = model(100, 24);
    let effects = keys(&mut model, "\":hosts\" enter");
    let (of, _) = asked(&effects).expect("it is read");
    answer(&mut model, &of, Ok(hosts()));
    keys(&mut model, "\":columns age\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("NAME") && screen.contains("AGE") && !screen.contains("STATE"), "{screen}");
    keys(&mut model, "\":columns stat\" enter");
    assert!(
        text(&mut model).contains("there is no column `stat`; did you mean `state`?"),
        "{}",
        text(&mut model)
    );
    keys(&mut model, "\":columns +RACK=.spec[rack\"");
    assert!(text(&mut model).contains("an index, a quoted name or * is missing"), "{}", text(&mut model));
    keys(&mut model, "enter");
    assert!(text(&mut model).contains("at letter 13: an index"), "{}", text(&mut model));
    let effects = keys(&mut model, "\":columns +RACK=.spec.rack\" enter");
    let (own, rest) = asked(&effects).expect("it is read again");
    assert_eq!((own.query.own.len(), own.query.own[0].path.as_str(), rest), (1, ".spec.rack", 0));
    let mut table = hosts();
    table.columns.push(TableColumn { name: "RACK".to_owned(), is_wide: false });
    for (at, row) in table.rows.iter_mut().enumerate() {
        row.cells.push(format!("r{at}"));
    }
    let (_, rest) = asked(&answer(&mut model, &own, Ok(table))).expect("it is read again");
    assert!(rest >= 30_000, "objects are read whole: {rest}");
    let screen = text(&mut model);
    assert!(screen.contains("RACK") && screen.contains("r2") && !screen.contains("STATE"), "{screen}");
    keys(&mut model, "\":sort rack\" enter");
    assert!(text(&mut model).contains("r0"), "{}", text(&mut model));
    let effects = keys(&mut model, "\":columns\" enter");
    assert!(asked(&effects).expect("it is read again").0.query.own.is_empty());
    assert!(text(&mut model).contains("STATE"), "{}", text(&mut model));
}

#[test]
fn lists_over_the_fleet_have_the_columns_that_are_chosen() {
    let mut model = model(120, 24);
    keys(&mut model, "\":machines\" enter");
    assert!(text(&mut model).contains("WHY"), "{}", text(&mut model));
    keys(&mut model, "\":columns since,phase\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("SINCE") && screen.contains("PHASE") && !screen.contains("WHY"), "{screen}");
    keys(&mut model, "\":columns +os-image\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("PHASE") && screen.contains("OS-IMAGE"), "{screen}");
    keys(&mut model, "\":columns\" enter");
    assert!(text(&mut model).contains("WHY"), "{}", text(&mut model));
    // Fields are read of the objects themselves.
    let effects = keys(&mut model, "\":columns +ZONE=.spec.failureDomain\" enter");
    let (of, _) = asked(&effects).expect("it is read");
    assert_eq!(
        (of.query.named.as_str(), of.query.own[0].name.as_str()),
        ("machines.cluster.x-k8s.io", "ZONE")
    );
}

/// The MachineSets that are there, by their labels.
#[test]
fn revisions_of_a_deployment_are_listed_newest_first() {
    let mut model = model(140, 24);
    update(&mut model, Msg::Fleet(fixture::sample()));
    keys(&mut model, "\":clusters\" enter \":revisions\" enter");
    assert!(text(&mut model).contains("a MachineDeployment has revisions"), "{}", text(&mut model));
    keys(&mut model, "\":md\" enter");
    assert!(text(&mut model).contains("machine deployments"), "{}", text(&mut model));
    let name =
        model.selected_row().and_then(|id| model.fleet.row(id)).expect("a deployment").name.to_string();
    let effects = keys(&mut model, "\":revisions\" enter");
    let (of, _) = asked(&effects).expect("it is read");
    assert!(of.query.selector.starts_with(&format!("cluster.x-k8s.io/deployment-name={name},")), "{of:?}");
    assert!(!of.query.namespace.is_empty());
    let names = ["Name", "Cluster", "Desired", "Ready", "Age"].map(str::to_owned);
    let own = of.query.own.iter().map(|own| own.name.clone());
    let columns = names.into_iter().chain(own).map(|name| TableColumn { name, is_wide: false }).collect();
    let row = |name: &str, cells: [&str; 9]| TableRow {
        namespace: of.query.namespace.clone(),
        name: name.to_owned(),
        uid: name.to_owned(),
        cells: cells.map(str::to_owned).to_vec(),
    };
    let rows = vec![
        row("web-old", ["web-old", "c", "0", "0", "9d", "9", "v1.33.1", "web-infra-1", "web-boot-1"]),
        row("web-new", ["web-new", "c", "3", "3", "1d", "10", "v1.34.0", "web-infra-2", "web-boot-1"]),
    ];
    answer(&mut model, &of, Ok(ObjectTable { columns, rows, ..hosts() }));
    let screen = text(&mut model);
    let place = |word: &str| screen.find(word).unwrap_or_else(|| panic!("{word}:\n{screen}"));
    assert!(screen.contains(&format!("revisions of {name} 2")), "{screen}");
    assert!(place("web-new") < place("web-old"), "{screen}");
    assert!(place("web-infra-1") > 0 && place("v1.33.1") > 0 && place("REVISION") < place("INFRASTRUCTURE"));
    assert!(!screen.contains("CLUSTER  "), "{screen}");
}
