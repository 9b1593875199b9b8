//! ClusterResourceSet and its binding, ExtensionConfig, MachineDrainRule.
//!
//! Source: cluster-api `core/webhooks/admission/{clusterresourceset,clusterresourcesetbinding,
//! extensionconfig,machinedrainrules}.go`, v1.14.2.

use serde_json::{Value, json};

use super::finding::{Denial, Findings};
use super::selector::Selector;
use super::value::{at, fill, is_defined, items_at, text};
use super::{Request, Review};
use k8s_machinery::validation::naming;

pub(super) fn default_resource_set(_: &Request<'_>, set: &mut Value) -> Result<(), Denial> {
    fill(set, &["spec"], "strategy", json!("ApplyOnce"));
    Ok(())
}

pub(super) fn check_resource_set(review: &Review<'_>, out: &mut Findings) {
    let field = "spec.clusterSelector";
    let selector = at(review.new, "/spec/clusterSelector");
    match Selector::of(selector) {
        Err(why) => out.invalid(field, selector, &why),
        Ok(parsed) if parsed.is_empty() => out.invalid(field, selector, "selector must not be empty"),
        Ok(_) => {}
    }
    let Some(old) = review.old else { return };
    check_text_fixed(old, review.new, "strategy", out);
    if at(old, "/spec/clusterSelector") != selector {
        out.invalid(field, selector, "field is immutable");
    }
}

pub(super) fn check_binding(review: &Review<'_>, out: &mut Findings) {
    if let Some(old) = review.old {
        check_text_fixed(old, review.new, "clusterName", out);
    }
}

/// A text of the spec that is set once.
fn check_text_fixed(old: &Value, new: &Value, name: &str, out: &mut Findings) {
    let value = |object| text(object, &format!("/spec/{name}"));
    let (old, new) = (value(old), value(new));
    // Upstream does not count it as a change when a field that was empty is set.
    if !old.is_empty() && old != new {
        out.invalid(format!("spec.{name}"), &json!(new), "field is immutable");
    }
}

pub(super) fn default_extension(_: &Request<'_>, extension: &mut Value) -> Result<(), Denial> {
    fill(extension, &["spec"], "namespaceSelector", json!({}));
    // `fill` makes what is missing: without this look an extension with a URL would get a service.
    if is_defined(at(extension, "/spec/clientConfig/service")) {
        fill(extension, &["spec", "clientConfig", "service"], "port", json!(443));
    }
    Ok(())
}

pub(super) fn check_extension(review: &Review<'_>, out: &mut Findings) {
    let name = text(review.new, "/metadata/name");
    let complaints = naming::dns_label(name);
    if !complaints.is_empty() {
        let shown = complaints.join(" ");
        let detail = format!("ExtensionConfig name should be a valid DNS1123 label name: [{shown}]");
        out.invalid("metadata.name", &json!(name), &detail);
    }
    let config = at(review.new, "/spec/clientConfig");
    let (url, service) = (text(config, "/url"), &config["service"]);
    match (!url.is_empty(), is_defined(service)) {
        (false, false) => out.required("spec.clientConfig", "either url or service must be defined"),
        (true, true) => out.forbidden("spec.clientConfig", "only one of url or service can be defined"),
        _ => {}
    }
    check_url(url, out);
    if is_defined(service) {
        check_service(service, out);
    }
    let selector = at(review.new, "/spec/namespaceSelector");
    if selector.is_null() {
        out.required("spec.namespaceSelector", "must be defined");
    }
    check_selector(selector, "spec.namespaceSelector", out);
}

fn check_url(url: &str, out: &mut Findings) {
    if url.is_empty() {
        return;
    }
    let field = "spec.clientConfig.url";
    match request_uri(url) {
        Err(why) => {
            let detail = format!("must be a valid URL, e.g. https://example.com: {why}");
            out.invalid(field, &json!(url), &detail);
        }
        Ok(scheme) if scheme != "https" => {
            let detail = "'https' is the only allowed URL scheme, e.g. https://example.com";
            out.invalid(field, &json!(url), detail);
        }
        Ok(_) => {}
    }
}

/// The scheme of a URL, empty for a path. Source: Go `net/url` (`ParseRequestURI`).
fn request_uri(text: &str) -> Result<String, String> {
    let why = |why: &str| format!("parse {text:?}: {why}");
    if text.chars().any(|c| c.is_control()) {
        return Err(why("net/url: invalid control character in URL"));
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    let (scheme, rest) = match end {
        Some(0) if text.starts_with(':') => return Err(why("missing protocol scheme")),
        Some(at)
            if at > 0 && text[at..].starts_with(':') && text.starts_with(|c: char| c.is_alphabetic()) =>
        {
            (text[..at].to_ascii_lowercase(), &text[at + 1..])
        }
        _ => (String::new(), text),
    };
    // Something opaque behind the scheme is accepted; a bare word is not.
    if scheme.is_empty() && !rest.starts_with('/') {
        return Err(why("invalid URI for request"));
    }
    Ok(scheme)
}

fn check_service(service: &Value, out: &mut Findings) {
    let at = "spec.clientConfig.service";
    let rules: [(&str, fn(&str) -> Vec<String>); 2] =
        // Unlike a namespace, a Service may not have a name that begins with a digit.
        [("name", naming::dns_1035_label), ("namespace", naming::dns_label)];
    for (part, spelling) in rules {
        let value = text(service, &format!("/{part}"));
        let field = format!("{at}.{part}");
        if value.is_empty() {
            out.required(field.clone(), "must not be empty");
        }
        // Also of an empty name, as upstream, which then reports both.
        spelling(value).iter().for_each(|complaint| out.invalid(field.clone(), &json!(value), complaint));
    }
    let path = text(service, "/path");
    if !path.is_empty() {
        let field = format!("{at}.path");
        if let Err(why) = request_uri(path) {
            let detail = format!("must be a valid URL path e.g. /path/to/hook: {why}");
            out.invalid(field.clone(), &json!(path), &detail);
        }
        if !path.starts_with('/') {
            out.invalid(field, &json!(path), "must start with \"/\" to be a valid URL path");
        }
    }
    let port = &service["port"];
    if port.as_i64().is_some_and(|port| !(1..=65_535).contains(&port)) {
        out.invalid(format!("{at}.port"), port, "must be between 1 and 65535, inclusive");
    }
}

/// A selector that may be missing.
fn check_selector(selector: &Value, field: &str, out: &mut Findings) {
    if let Some(Err(why)) = (!selector.is_null()).then(|| Selector::of(selector)) {
        out.invalid(field, selector, &why);
    }
}

pub(super) fn check_drain_rule(review: &Review<'_>, out: &mut Findings) {
    let drain = at(review.new, "/spec/drain");
    if matches!(text(drain, "/behavior"), "Skip" | "WaitCompleted") && !drain["order"].is_null() {
        let detail = "order must not be set if drain behavior is \"Skip\" or \"WaitCompleted\"";
        out.invalid("spec.drain.order", &drain["order"], detail);
    }
    for (list, selectors) in
        [("machines", ["selector", "clusterSelector"]), ("pods", ["selector", "namespaceSelector"])]
    {
        for (index, item) in items_at(review.new, &format!("/spec/{list}")).iter().enumerate() {
            for name in selectors {
                check_selector(&item[name], &format!("spec.{list}[{index}].{name}"), out);
            }
        }
    }
}
