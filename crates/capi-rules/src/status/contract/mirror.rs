//! How a provider's object is mirrored into a condition of its owner. Owns what an absent, unreadable or
//! malformed one means; must not know any kind. What such an object promises is `contract`.
//! Source: cluster-api `util/conditions/mirror.go`, `setBootstrapReadyCondition` and its neighbours, v1.14.2.

use crate::status::conditions::new_condition::NewCondition;
use crate::status::conditions::setter::internal_error;
use crate::status::contract::{External, NO_REASON_REPORTED, Provided};
use capi_types::condition::Status;

/// How one provider object is mirrored into a condition of its owner.
pub struct Mirrored<'a> {
    /// On the owner: `InfrastructureReady`, ...
    pub target: &'a str,
    /// On the provider's object: `Ready` or `Available`.
    pub source_type: &'a str,
    /// Without that condition: true or false by this flag.
    pub initialized: bool,
    /// Reason for the flag being false.
    pub not_yet: &'a str,
    /// The field the flag comes from, for the message.
    pub field: &'a str,
    /// A missing object is what a deletion leads to.
    pub owner_deleting: bool,
    /// The message about an object that was there and is gone: ` has been deleted while ...`.
    pub gone: &'a str,
}

impl<'a> Mirrored<'a> {
    /// The condition for `external`. [`External::NotSet`] is an internal error here: kinds that allow it
    /// say what it means before they ask.
    pub fn of(&self, external: &'a External) -> NewCondition<'a> {
        let no = |reason, message: String| NewCondition::new(self.target, Status::False, reason, message);
        match external {
            External::Found(provided) => self.of_found(provided),
            External::NotFound { kind } => match (self.owner_deleting, self.initialized) {
                (true, true) => no("ObjectDeleted", format!("{kind} has been deleted")),
                (false, true) => no("ObjectDeleted", format!("{kind} has been deleted{}", self.gone)),
                (_, false) => no("ObjectDoesNotExist", format!("{kind} does not exist")),
            },
            External::NotSet | External::Unreadable { .. } => internal_error(self.target),
        }
    }

    /// With the transition time of the provider's condition.
    fn of_found(&self, provided: &'a Provided) -> NewCondition<'a> {
        match provided.condition(self.source_type) {
            Err(error) => NewCondition::new(self.target, Status::Unknown, "InvalidConditionReported", error),
            Ok(Some(found)) => {
                let mut said = NewCondition { type_: self.target.into(), ..found.into() };
                // Conditions of v1beta1 have no reason when they
                // are true; the type is the best word for it.
                if found.reason == NO_REASON_REPORTED && found.status == "True" {
                    said.reason = self.source_type.into();
                }
                said
            }
            // Providers need not report conditions at all; the contract's flag stands in.
            Ok(None) if self.initialized => {
                NewCondition::new(self.target, Status::True, self.source_type, "")
            }
            Ok(None) => {
                let message = format!("{} {} is false", provided.kind, self.field);
                NewCondition::new(self.target, Status::False, self.not_yet, message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use capi_types::condition::Condition;
    use capstan_base::time::{parse_rfc3339, to_k8s};

    fn rule(initialized: bool, owner_deleting: bool) -> Mirrored<'static> {
        Mirrored {
            target: "InfrastructureReady",
            source_type: "Ready",
            initialized,
            not_yet: "NotReady",
            field: "status.initialization.provisioned",
            owner_deleting,
            gone: " while the Machine still exists",
        }
    }

    fn check(external: &External, initialized: bool, deleting: bool, expected: (&str, &str, &str)) {
        let got = Condition::from(rule(initialized, deleting).of(external));
        assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
    }

    fn found(status: Value) -> External {
        External::Found(Provided::new(
            json!({"kind": "DevMachine", "metadata": {"name": "m"}, "status": status}),
        ))
    }

    #[test]
    fn a_provider_object_is_mirrored_as_upstream_does() {
        let gone = External::NotFound { kind: "DevMachine".to_owned() };
        let ready = found(json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        check(&ready, true, false, ("True", "Ready", ""));
        check(&found(json!({})), true, false, ("True", "Ready", ""));
        let waiting = "DevMachine status.initialization.provisioned is false";
        check(&found(json!({})), false, false, ("False", "NotReady", waiting));
        check(&gone, true, true, ("False", "ObjectDeleted", "DevMachine has been deleted"));
        let early = "DevMachine has been deleted while the Machine still exists";
        check(&gone, true, false, ("False", "ObjectDeleted", early));
        check(&gone, false, true, ("False", "ObjectDoesNotExist", "DevMachine does not exist"));
        let bad = found(json!({"conditions": [{"type": "Ready", "status": "Yes"}]}));
        let text = "failed to convert status.conditions from DevMachine to []metav1.Condition: \
                    status for the Ready condition must be one of True, False, Unknown";
        check(&bad, true, false, ("Unknown", "InvalidConditionReported", text));
    }

    #[test]
    fn a_mirrored_condition_keeps_its_transition_time() {
        let since = "2026-01-01T00:00:00Z";
        let entry = |status| json!({"type": "Ready", "status": status, "lastTransitionTime": since});
        let twice = found(json!({"conditions": [entry("True"), entry("False")]}));
        let mirrored = Condition::from(rule(true, false).of(&twice));
        assert_eq!((mirrored.type_.as_str(), mirrored.status.as_str()), ("InfrastructureReady", "True"));
        assert_eq!(Some(mirrored.last_transition_time), parse_rfc3339(since).map(to_k8s));
    }

    #[test]
    fn every_malformed_condition_has_its_sentence() {
        for (entry, cause) in [
            (json!({"status": "True"}), "type must be set for all conditions"),
            (json!({"type": "Ready"}), "status must be set for the Ready condition"),
            (
                json!({"type": "Other", "status": "Yes"}),
                "status for the Other condition must be one of True, False, Unknown",
            ),
            (
                json!({"type": "Ready", "status": "True", "lastTransitionTime": "noon"}),
                "failed to unmarshal lastTransitionTime value: noon: not an RFC 3339 time",
            ),
        ] {
            let good = json!({"type": "Ready", "status": "True"});
            for (path, status) in [
                ("status.conditions", json!({"conditions": [good, "no object", entry]})),
                (
                    "status.v1beta2.conditions",
                    json!({"conditions": [good], "v1beta2": {"conditions": [entry]}}),
                ),
            ] {
                let text = format!("failed to convert {path} from DevMachine to []metav1.Condition: {cause}");
                check(&found(status), true, false, ("Unknown", "InvalidConditionReported", &text));
            }
        }
    }

    #[test]
    fn a_legacy_condition_without_reason_keeps_its_mark_unless_it_is_true() {
        let said = |status: &str| {
            found(
                json!({"conditions": [{"type": "Ready", "status": status, "severity": "Error", "message": "m"}]}),
            )
        };
        check(&said("True"), false, false, ("True", "Ready", "m"));
        check(&said("False"), true, false, ("False", "NoReasonReported", "m"));
        check(&said("Unknown"), true, false, ("Unknown", "NoReasonReported", "m"));
        let both = found(json!({
            "conditions": [{"type": "Ready", "status": "False", "severity": "Error"}],
            "v1beta2": {"conditions": [{"type": "Ready", "status": "True", "reason": "AllFine"}]}}));
        check(&both, false, false, ("True", "AllFine", ""));
    }

    #[test]
    fn what_cannot_be_read_is_an_internal_error() {
        let kind = || "DevMachine".to_owned();
        let unreadable = External::Unreadable { kind: kind(), error: "refused".to_owned() };
        for external in [External::NotSet, unreadable] {
            check(
                &external,
                true,
                false,
                ("Unknown", "InternalError", crate::status::conditions::setter::CHECK_LOGS),
            );
        }
    }
}
