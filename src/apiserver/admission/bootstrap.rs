//! KubeadmConfig and its template; also the part of a KubeadmControlPlane that is one.
//! Source: `bootstrap/kubeadm/webhooks/admission` and `api/bootstrap/kubeadm/v1beta2` validation.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::value::text;
use crate::apiserver::failure::Cause;

pub(super) fn check_config(_: Option<&Value>, config: &Value, causes: &mut Vec<Cause>) {
    check_spec(&config["spec"], "spec", causes);
}

pub(super) fn check_template(_: Option<&Value>, template: &Value, causes: &mut Vec<Cause>) {
    check_spec(&template["spec"]["template"]["spec"], "spec.template.spec", causes);
}

/// `at` is the path of the spec in its object.
pub(super) fn check_spec(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    check_timeouts(spec, at, causes);
    check_files(spec, at, causes);
    for (index, user) in spec["users"].as_array().into_iter().flatten().enumerate() {
        if !user["passwd"].is_null() && !user["passwdFrom"].is_null() {
            let detail = "only one of passwd or passwdFrom may be specified for a single user";
            causes.push(Cause::invalid(format!("{at}.users[{index}]"), &json!(text(user, "/name")), detail));
        }
    }
    let user = "/joinConfiguration/discovery/file/kubeConfig/user";
    let has = |field: &str| spec.pointer(&format!("{user}/{field}")).is_some_and(|value| !value.is_null());
    if has("exec") && has("authProvider") {
        let field = format!("{at}{}", user.replace('/', "."));
        causes.push(Cause::invalid(field, &json!(""), "only one of authProvider or exec must be defined"));
    }
}

fn check_timeouts(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    let timeout = |part: &str| spec[part]["timeouts"]["controlPlaneComponentHealthCheckSeconds"].as_i64();
    let (Some(init), Some(join)) = (timeout("initConfiguration"), timeout("joinConfiguration")) else {
        return;
    };
    if init != join {
        let detail = format!(
            "controlPlaneComponentHealthCheckSeconds must be set to the same value both in initConfiguration.timeouts \
             ({init}) and in joinConfiguration.timeouts ({join})"
        );
        let field = format!("{at}.initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds");
        causes.push(Cause::invalid(field, &json!(init), &detail));
    }
}

fn check_files(spec: &Value, at: &str, causes: &mut Vec<Cause>) {
    let mut seen = BTreeSet::new();
    for (index, file) in spec["files"].as_array().into_iter().flatten().enumerate() {
        let field = format!("{at}.files[{index}]");
        if !file["content"].is_null() && !file["contentFrom"].is_null() {
            let detail = "only one of content or contentFrom may be specified for a single file";
            causes.push(Cause::invalid(field.clone(), &json!(text(file, "/path")), detail));
        }
        let path = text(file, "/path");
        if !seen.insert(path) {
            let detail = "path property must be unique among all files";
            causes.push(Cause::invalid(format!("{field}.path"), &json!(path), detail));
        }
    }
}
