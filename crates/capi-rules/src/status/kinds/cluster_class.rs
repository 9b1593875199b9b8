//! What is true of a ClusterClass: its variables are known, and its templates are named in the newest
//! version. Must not know how either is found out.
//! Source: cluster-api `core/reconcilers/clusterclass/clusterclass_controller_status.go`, v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::setter::{Draft, condition, internal_error, not_paused};
use capi_types::condition::Status;
use capstan_base::time::Timestamp;

/// Condition types that the ClusterClass controller owns.
pub const OWNED: [&str; 3] = ["Paused", "RefVersionsUpToDate", "VariablesReady"];

/// Everything the conditions depend on.
#[derive(Clone, Debug, Default)]
pub struct ObservedClass {
    /// As stored.
    pub conditions: Vec<Condition>,
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// Why the variables of runtime extensions could not be discovered.
    pub discovery_failure: Option<String>,
    /// References to templates in a version that is not the newest; `None`: not known.
    pub outdated: Option<Vec<OutdatedRef>>,
}

/// A reference to a template, with the version it names and the newest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutdatedRef {
    /// Of the template.
    pub kind: String,
    /// Of the template.
    pub name: String,
    /// The version that the class names.
    pub current: String,
    /// The newest version that fulfils the contract.
    pub latest: String,
}

/// The conditions of a class that is not paused.
pub fn conditions(o: &ObservedClass, now: Timestamp) -> Vec<Condition> {
    let mut draft = Draft::new(o.conditions.as_slice(), o.generation, now);
    draft.set(not_paused());
    draft.set(ref_versions(o));
    draft.set(match &o.discovery_failure {
        Some(error) => condition("VariablesReady", Status::False, "VariableDiscoveryFailed", error.clone()),
        None => condition("VariablesReady", Status::True, "VariablesReady", ""),
    });
    draft.finish()
}

fn ref_versions(o: &ObservedClass) -> Condition {
    const TYPE: &str = "RefVersionsUpToDate";
    let Some(outdated) = &o.outdated else { return internal_error(TYPE).into() };
    if outdated.is_empty() {
        return condition(TYPE, Status::True, TYPE, "");
    }
    let mut message = "The following templateRefs are not using the latest apiVersion:".to_owned();
    for OutdatedRef { kind, name, current, latest } in outdated {
        message.push_str(&format!("\n* {kind} {name}: current: {current}, latest: {latest}"));
    }
    condition(TYPE, Status::False, "RefVersionsNotUpToDate", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::conditions::setter::CHECK_LOGS;
    use crate::status::tests::witness;

    fn said(o: &ObservedClass) -> Vec<(String, String, String)> {
        let all = conditions(o, Timestamp::default());
        all.into_iter().map(|c| (c.status, c.reason, c.message)).collect()
    }

    fn line(status: &str, reason: &str, message: &str) -> (String, String, String) {
        (status.to_owned(), reason.to_owned(), message.to_owned())
    }

    #[test]
    fn classes_report_variables_and_versions() {
        let not_paused = line("False", "NotPaused", "");
        let fine = ObservedClass { outdated: Some(Vec::new()), ..ObservedClass::default() };
        assert_eq!(
            said(&fine),
            [line("True", "RefVersionsUpToDate", ""), line("True", "VariablesReady", ""), not_paused.clone()]
        );
        let old = OutdatedRef {
            kind: "DevClusterTemplate".into(),
            name: "t".into(),
            current: "v1beta1".into(),
            latest: "v1beta2".into(),
        };
        let bad = ObservedClass {
            discovery_failure: Some("no extension".into()),
            outdated: Some(vec![old]),
            ..ObservedClass::default()
        };
        assert_eq!(
            said(&bad),
            [
                line(
                    "False",
                    "RefVersionsNotUpToDate",
                    "The following templateRefs are not using the latest apiVersion:\n\
                     * DevClusterTemplate t: current: v1beta1, latest: v1beta2"
                ),
                line("False", "VariableDiscoveryFailed", "no extension"),
                not_paused
            ]
        );
        assert_eq!(said(&ObservedClass::default())[0].1, "InternalError");
        let expect = |o: &ObservedClass, type_: &str, expected: (&str, &str, &str)| {
            witness::expect("ClusterClass", &conditions(o, Timestamp::default()), type_, expected);
        };
        for type_ in ["RefVersionsUpToDate", "VariablesReady"] {
            expect(&fine, type_, ("True", type_, ""));
        }
        expect(&bad, "VariablesReady", ("False", "VariableDiscoveryFailed", "no extension"));
        let text = "The following templateRefs are not using the latest apiVersion:\n\
                    * DevClusterTemplate t: current: v1beta1, latest: v1beta2";
        expect(&bad, "RefVersionsUpToDate", ("False", "RefVersionsNotUpToDate", text));
        let unknown = ("Unknown", "InternalError", CHECK_LOGS);
        expect(&ObservedClass::default(), "RefVersionsUpToDate", unknown);
    }
}
