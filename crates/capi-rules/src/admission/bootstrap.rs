//! KubeadmConfig and its template; also the part of a KubeadmControlPlane that is one. The rules
//! behind the Ignition gate apply: the gate counts as open.
//!
//! Source: cluster-api `bootstrap/kubeadm/webhooks/admission/{kubeadmconfig,kubeadmconfigtemplate}.go`,
//! v1.14.2.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::finding::{Denial, Findings};
use super::parts::check_metadata;
use super::value::{at, fill, is_defined, items, items_at, text};
use super::{Request, Review, compares_topology};

const WITH_IGNITION: &str = "not supported when spec.format is set to: \"ignition\"";

pub(super) fn check_config(review: &Review<'_>, out: &mut Findings) {
    check_spec(&review.new["spec"], "spec", out);
}

pub(super) fn check_template(review: &Review<'_>, out: &mut Findings) {
    check_spec(at(review.new, "/spec/template/spec"), "spec.template.spec", out);
    check_metadata(at(review.new, "/spec/template/metadata"), "spec.template.metadata", out);
}

/// Only for a topology controller that compares: what older versions filled in.
pub(super) fn default_template(request: &Request<'_>, template: &mut Value) -> Result<(), Denial> {
    if compares_topology(request, template)
        && let Some(spec) = template.pointer_mut("/spec/template/spec")
    {
        fill_history(spec);
    }
    Ok(())
}

/// Defaults that webhooks once set, so that objects from then equal those without them.
pub(super) fn fill_history(spec: &mut Value) {
    fill(spec, &[], "format", json!("cloud-config"));
    for configuration in ["initConfiguration", "joinConfiguration"] {
        fill(spec, &[configuration, "nodeRegistration"], "imagePullPolicy", json!("IfNotPresent"));
    }
    let exec = ["joinConfiguration", "discovery", "file", "kubeConfig", "user", "exec"];
    // Only where it is: filling it in would make the object that it stands in.
    if is_defined(at(spec, &format!("/{}", exec.join("/")))) {
        fill(spec, &exec, "apiVersion", json!("client.authentication.k8s.io/v1"));
    }
}

/// `at` is the path of the spec in its object.
pub(super) fn check_spec(spec: &Value, at: &str, out: &mut Findings) {
    check_files(spec, at, out);
    check_users(spec, at, out);
    check_ignition(spec, at, out);
    check_partitions(spec, at, out);
    let user = super::value::at(spec, "/joinConfiguration/discovery/file/kubeConfig/user");
    if is_defined(&user["exec"]) && is_defined(&user["authProvider"]) {
        // The lower case `c` is upstream's.
        let field = format!("{at}.joinConfiguration.discovery.file.kubeconfig.user");
        out.invalid(field, user, "only one of authProvider or exec must be defined");
    }
}

/// Control planes have both configurations, and both must wait for the same time.
pub(super) fn check_timeouts(spec: &Value, at: &str, out: &mut Findings) {
    let timeout = |part: &str| {
        let seconds = spec[part]["timeouts"]["controlPlaneComponentHealthCheckSeconds"].as_i64();
        seconds.map_or_else(|| "unset".to_owned(), |seconds| seconds.to_string())
    };
    let (init, join) = (timeout("initConfiguration"), timeout("joinConfiguration"));
    // Both unset are equal too: kubeadm has one default for both.
    if init == join {
        return;
    }
    let detail = format!(
        "controlPlaneComponentHealthCheckSeconds must be set to the same value both in \
         initConfiguration.timeouts ({init}) and in joinConfiguration.timeouts ({join})"
    );
    for (part, value) in [("initConfiguration", init), ("joinConfiguration", join)] {
        let field = format!("{at}.{part}.timeouts.controlPlaneComponentHealthCheckSeconds");
        out.invalid(field, &json!(value), &detail);
    }
}

fn check_files(spec: &Value, at: &str, out: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (index, file) in items(&spec["files"]).iter().enumerate() {
        let field = format!("{at}.files[{index}]");
        let source = &file["contentFrom"];
        if is_defined(&file["content"]) && is_defined(source) {
            let detail = "only one of content or contentFrom may be specified for a single file";
            out.invalid(field.clone(), file, detail);
        }
        check_secret(source, &format!("{field}.contentFrom"), out);
        // The later of two would overwrite the first on the host, silently.
        if !seen.insert(text(file, "/path")) {
            out.invalid(format!("{field}.path"), file, "path property must be unique among all files");
        }
    }
}

fn check_users(spec: &Value, at: &str, out: &mut Findings) {
    for (index, user) in items(&spec["users"]).iter().enumerate() {
        let field = format!("{at}.users[{index}]");
        let source = &user["passwdFrom"];
        if is_defined(&user["passwd"]) && is_defined(source) {
            let detail = "only one of passwd or passwdFrom may be specified for a single user";
            out.invalid(field.clone(), user, detail);
        }
        check_secret(source, &format!("{field}.passwdFrom"), out);
    }
}

fn check_secret(source: &Value, field: &str, out: &mut Findings) {
    if !is_defined(source) {
        return;
    }
    for part in ["name", "key"] {
        if text(source, &format!("/secret/{part}")).is_empty() {
            let detail = format!("secret file source must specify non-empty secret {part}");
            out.required(format!("{field}.secret.{part}"), &detail);
        }
    }
}

/// Ignition cannot do everything that cloud-init can.
fn check_ignition(spec: &Value, at: &str, out: &mut Findings) {
    let format = text(spec, "/format");
    if format != "ignition" {
        // Settings that would be read by nothing.
        if is_defined(&spec["ignition"]) {
            let detail = "must be set to \"ignition\" if spec.ignition is set";
            out.invalid(format!("{at}.format"), &json!(format), detail);
        }
        return;
    }
    for (index, user) in items(&spec["users"]).iter().enumerate() {
        if user["inactive"] == true {
            out.forbidden(format!("{at}.users[{index}].inactive"), WITH_IGNITION);
        }
    }
    for (index, file) in items(&spec["files"]).iter().enumerate() {
        if file["encoding"] == "gzip" || file["encoding"] == "gzip+base64" {
            out.forbidden(format!("{at}.files[{index}].encoding"), WITH_IGNITION);
        }
    }
    // Ignition runs once, before anything that could execute commands.
    if !spec["bootCommands"].is_null() {
        out.forbidden(format!("{at}.bootCommands"), WITH_IGNITION);
    }
    for (index, partition) in items_at(spec, "/diskSetup/partitions").iter().enumerate() {
        let table = text(partition, "/tableType");
        if !table.is_empty() && table != "gpt" {
            let detail = "only partition type \"gpt\" is supported when spec.format is set to \"ignition\"";
            let field = format!("{at}.diskSetup.partitions[{index}].tableType");
            out.invalid(field, &json!(table), detail);
        }
    }
    for (index, filesystem) in items_at(spec, "/diskSetup/filesystems").iter().enumerate() {
        for part in ["replaceFS", "partition"] {
            if is_defined(&filesystem[part]) {
                out.forbidden(format!("{at}.diskSetup.filesystems[{index}].{part}"), WITH_IGNITION);
            }
        }
    }
}

fn check_partitions(spec: &Value, at: &str, out: &mut Findings) {
    for (index, partition) in items_at(spec, "/diskSetup/partitions").iter().enumerate() {
        let shares = items(&partition["diskLayout"]).iter().filter_map(|part| part["percentage"].as_i64());
        // Numbers out of an object: a plain sum could overflow.
        let total = shares.fold(0_i64, i64::saturating_add);
        if total > 100 {
            let detail = "the sum of all partition percentages must not be greater than 100";
            out.invalid(format!("{at}.diskSetup.partitions[{index}].diskLayout"), &json!(total), detail);
        }
    }
}
