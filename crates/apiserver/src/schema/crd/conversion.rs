//! `spec.conversion` of a CustomResourceDefinition: shape only, nothing is called. The field paths are
//! those of upstream's internal type, which clients see.

use serde_json::{Value, json};

use super::{Cause, text};
use k8s_machinery::validation::naming;

const CLIENT: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";

pub(super) fn check(conversion: &Value, causes: &mut Vec<Cause>) {
    const STRATEGY: &str = "spec.conversion.strategy";
    let webhook = &conversion["webhook"];
    match text(conversion, "/strategy") {
        "Webhook" => {
            client(&webhook["clientConfig"], causes);
            reviews(&webhook["conversionReviewVersions"], causes);
        }
        strategy => {
            match strategy {
                "None" => {}
                "" if conversion.is_null() => {}
                "" => causes.push(Cause::required(STRATEGY, "")),
                other => causes.push(Cause::not_supported(STRATEGY, &json!(other), &["None", "Webhook"])),
            }
            let detail = "should not be set when strategy is not set to Webhook";
            if !webhook["clientConfig"].is_null() {
                causes.push(Cause::forbidden(CLIENT, detail));
            }
            if webhook["conversionReviewVersions"].as_array().is_some_and(|list| !list.is_empty()) {
                causes.push(Cause::forbidden(REVIEWS, detail));
            }
        }
    }
}

fn client(config: &Value, causes: &mut Vec<Cause>) {
    if config.is_null() {
        return causes.push(Cause::required(CLIENT, "required when strategy is set to Webhook"));
    }
    let (url, service) = (&config["url"], &config["service"]);
    if url.is_null() == service.is_null() {
        return causes.push(Cause::required(CLIENT, "exactly one of url or service is required"));
    }
    for key in ["name", "namespace"] {
        if url.is_null() && text(service, &format!("/{key}")).is_empty() {
            causes.push(Cause::required(
                format!("{CLIENT}.service.{key}"),
                &format!("service {key} is required"),
            ));
        }
    }
    if url.as_str().is_some_and(|url| !url.starts_with("https://")) {
        let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        causes.push(Cause::invalid(format!("{CLIENT}.url"), url, detail));
    }
}

fn reviews(versions: &Value, causes: &mut Vec<Cause>) {
    let names: Vec<&str> = versions.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() {
        return causes.push(Cause::required(REVIEWS, ""));
    }
    for (index, name) in names.iter().enumerate() {
        let field = format!("{REVIEWS}[{index}]");
        if names[..index].contains(name) {
            causes.push(Cause::invalid(field, &json!(name), "duplicate version"));
            continue;
        }
        let complaints = naming::dns_1035_label(name);
        causes.extend(complaints.iter().map(|c| Cause::invalid(field.clone(), &json!(name), c)));
    }
    if !names.iter().any(|name| matches!(*name, "v1" | "v1beta1")) {
        causes.push(Cause::invalid(REVIEWS, versions, "must include at least one of v1, v1beta1"));
    }
}
