//! What the client wants to read: `Accept` to a form of answer. Owns media types; must not know
//! how any form is made.
//!
//! Source: apiserver `pkg/endpoints/handlers/negotiation/negotiate.go`, v0.35.

use super::options::Query;
use crate::failure::Failure;
use crate::table::Include;

/// How objects are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Object,
    /// `PartialObjectMetadata`, or its list.
    Metadata,
    /// `Table` of `meta.k8s.io/v1`.
    Table(Include),
}

const ACCEPTED: [&str; 2] = ["application/json", "application/yaml"];

/// The form for a resource; `list` is true for a list answer (not for a watch).
///
/// # Errors
/// 406 when no clause can be served, 400 for an unknown `includeObject`.
pub fn form(accept: &str, query: &Query, list: bool) -> Result<Form, Failure> {
    if accept.trim().is_empty() {
        return Ok(Form::Object);
    }
    for clause in clauses(accept) {
        // Clients list protobuf first and JSON behind it: the first clause that can be served
        // counts.
        if !clause.is_json() && !clause.is_yaml() {
            continue;
        }
        match clause.parameter("as") {
            None => return Ok(Form::Object),
            // Tables and bare metadata are made as JSON only.
            Some(_) if clause.is_yaml() => {}
            Some(_) if clause.parameter("g") != Some("meta.k8s.io") => {}
            Some("Table") if matches!(clause.parameter("v"), Some("v1" | "v1beta1")) => {
                return include(query).map(Form::Table);
            }
            Some("PartialObjectMetadata") if !list && clause.parameter("v") == Some("v1") => {
                return Ok(Form::Metadata);
            }
            Some("PartialObjectMetadataList") if list && clause.parameter("v") == Some("v1") => {
                return Ok(Form::Metadata);
            }
            Some(_) => {}
        }
    }
    Err(Failure::not_acceptable(&ACCEPTED))
}

fn include(query: &Query) -> Result<Include, Failure> {
    match query.text("includeObject") {
        "" | "Metadata" => Ok(Include::Metadata),
        "Object" => Ok(Include::Object),
        "None" => Ok(Include::Nothing),
        other => Err(Failure::bad_request(format!("unrecognized includeObject value: \"{other}\""))),
    }
}

/// True when the first clause this server can serve asks for aggregated discovery v2.
pub fn wants_aggregated(accept: &str) -> bool {
    // A client that knows only v2beta1 gets the classic document.
    clauses(accept)
        .into_iter()
        .find(|clause| clause.is_json() && (clause.parameter("as").is_none() || clause.is_aggregated()))
        .is_some_and(|clause| clause.is_aggregated())
}

/// True when the first clause this server can serve asks for YAML.
pub fn wants_yaml(accept: &str) -> bool {
    let clauses = clauses(accept);
    let first = clauses.iter().find(|clause| clause.is_json() || clause.is_yaml());
    first.is_some_and(|clause| !clause.is_json() && clause.parameter("as").is_none())
}

/// True when the first clause this server can serve asks for indentation.
pub fn wants_indent(accept: &str) -> bool {
    let clauses = clauses(accept);
    clauses.iter().find(|clause| clause.is_json()).is_some_and(|c| c.parameter("pretty") == Some("1"))
}

struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    /// In thousandths.
    quality: u32,
}

impl Clause<'_> {
    fn is_json(&self) -> bool {
        matches!(self.media_type, "application/json" | "application/*" | "*/*")
    }

    fn is_yaml(&self) -> bool {
        self.media_type == "application/yaml"
    }

    fn is_aggregated(&self) -> bool {
        self.parameter("g") == Some("apidiscovery.k8s.io")
            && self.parameter("v") == Some("v2")
            && self.parameter("as") == Some("APIGroupDiscoveryList")
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }
}

/// Clauses by quality, then as written.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept
        .split(',')
        .map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
            let quality =
                parameters.iter().find(|(key, _)| *key == "q").and_then(|(_, q)| q.parse::<f32>().ok());
            // Clamped to 0..=1000.
            let quality = (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32;
            Clause { media_type, parameters, quality }
        })
        .filter(|clause| clause.quality > 0)
        .collect();
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality));
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let meta = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        for (accept, list, expected) in [
            ("", true, Some(Form::Object)),
            ("*/*", true, Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf, */*", true, Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf,application/json", true, Some(Form::Object)),
            (table, true, Some(Form::Table(Include::Metadata))),
            (meta, false, Some(Form::Metadata)),
            (meta, true, Some(Form::Object)),
            ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", true, None),
            (
                "application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.4",
                true,
                Some(Form::Object),
            ),
            ("text/html", true, None),
        ] {
            let uri = http::Uri::from_static("/");
            assert_eq!(form(accept, &Query::parse(&uri), list).ok(), expected, "{accept}");
        }
    }

    #[test]
    fn aggregated_discovery_is_served_when_asked_for_first() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert!(wants_aggregated(&format!("{v2},{beta},application/json")));
        assert!(!wants_aggregated(&format!("{beta},application/json")));
        assert!(!wants_aggregated("application/json"));
        assert!(!wants_aggregated(&format!("application/json,{v2}")));
    }
}
