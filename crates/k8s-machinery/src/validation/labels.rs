//! Labels and annotations as a whole: the spelling of each, and how much there may be. Must not know whose they are.
//!
//! Source: apimachinery `pkg/apis/meta/v1/validation/validation.go`, `pkg/api/validation/objectmeta.go`, v0.35.

use serde_json::Value;

use super::cause::Cause;
use super::naming;

/// All annotations of an object together: upstream's `TotalAnnotationSizeLimitB`.
const ANNOTATIONS_BYTES_MAX: usize = 262_144;

/// The spelling of labels; `field` is where they are.
pub fn validate_labels(labels: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        causes.extend(
            naming::qualified_name(key).iter().map(|c| Cause::invalid(field, &key.as_str().into(), c)),
        );
        let text = value.as_str().unwrap_or_default();
        causes.extend(naming::label_value(text).iter().map(|c| Cause::invalid(field, value, c)));
    }
}

/// The spelling of annotation keys, and the size of all; `field` is where they are.
pub fn validate_annotations(annotations: &Value, field: &str, causes: &mut Vec<Cause>) {
    let mut bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().unwrap_or_default().len();
        // Upstream checks the key in lower case, so a prefix in upper case passes, unlike that of a
        // label.
        let complaints = naming::qualified_name(&key.to_lowercase());
        causes.extend(complaints.iter().map(|c| Cause::invalid(field, &key.as_str().into(), c)));
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        causes.push(Cause::too_long(field, ANNOTATIONS_BYTES_MAX as u64));
    }
}
