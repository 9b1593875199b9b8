//! What components refuse of `logging`, which they share. Owns the rules over its fields.
//!
//! Source: component-base 0.36.3 `logs/api/v1/options.go` (`Validate`).

use serde_json::Value;

use super::super::units::quantity_milli;
use super::limits::amount;

/// Fields and messages; `gate` says whether a gate is on.
pub(super) fn refused(document: &Value, gate: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let logging = &document["logging"];
    let mut found = Vec::new();
    let mut refuse = |path: &str, message: &str| found.push((format!("logging.{path}"), message.to_owned()));
    // kubeadm itself stores 0, and components take it.
    if amount(&logging["flushFrequency"]).is_some_and(|period| period < 0.0) {
        refuse("flushFrequency", "has to be more than 0");
    }
    if logging["verbosity"].as_i64().is_some_and(|level| !(0..=i64::from(i32::MAX)).contains(&level)) {
        refuse("verbosity", "has to be a whole number from 0 on");
    }
    let patterns = logging["vmodule"].as_array().map(Vec::as_slice).unwrap_or_default();
    let format = logging["format"].as_str().unwrap_or_default();
    if !patterns.is_empty() && !matches!(format, "" | "text") {
        refuse("vmodule", "is only for the format text");
    }
    let is_wrong = |item: &&Value| {
        let pattern = item["filePattern"].as_str().unwrap_or_default();
        pattern.is_empty() || pattern.contains(['=', ','])
    };
    if patterns.iter().any(|item| is_wrong(&item)) {
        refuse("vmodule", "has a filePattern that is empty, or has `=` or `,` in it");
    }
    for format in ["text", "json"] {
        let options = &logging["options"][format];
        let size = match &options["infoBufferSize"] {
            Value::String(text) => quantity_milli(text),
            value => value.as_f64(),
        };
        let is_used = options["splitStream"] == true || size.is_some_and(|size| size != 0.0);
        if is_used && !gate("LoggingAlphaOptions") {
            refuse(&format!("options.{format}"), "needs the gate LoggingAlphaOptions, which is off");
        }
    }
    found
}
