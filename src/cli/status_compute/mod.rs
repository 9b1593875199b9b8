//! `capstan status compute`: the status that our functions compute for objects from files, and what in
//! the stored one differs. Owns files and output; must not know an API server. Everything but `read` is
//! pure.
//!
//! Each object is judged by what the *stored* objects around it say, as its controller would in its next
//! pass; statuses computed in the same run are not fed back.

pub mod compute;
mod control_plane;
mod deletion;
mod diff;
pub mod dump;
mod observe;
mod read;
mod topology;
mod workload;

#[cfg(test)]
mod tests;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::args::{StatusComputeArgs, StatusOutputArg};
use super::output;
use crate::time::Timestamp;
use compute::Computed;
use dump::Dump;

/// What the command prints, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub document: String,
    /// What could not be judged, and why.
    pub remarks: Vec<String>,
    /// Some status differs from the one it came with.
    pub differs: bool,
}

/// Reads, computes and lays out.
///
/// # Errors
/// A file that cannot be read or is no YAML or JSON, in a sentence.
pub fn run(args: &StatusComputeArgs, now: Timestamp) -> anyhow::Result<Answer> {
    let documents = read::documents(&args.files, &args.workloads)?;
    let dump = Dump::new(documents);
    let computed = compute::all(&dump, now);
    let document = if args.diff { differences(&computed) } else { objects(&computed, args.output)? };
    let remarks = dump.remarks.iter().cloned().chain(computed.iter().filter_map(Computed::remark)).collect();
    Ok(Answer { document, remarks, differs: computed.iter().any(Computed::differs) })
}

fn differences(computed: &[Computed]) -> String {
    computed.iter().map(diff::text).collect()
}

fn objects(computed: &[Computed], output: StatusOutputArg) -> anyhow::Result<String> {
    let after: Vec<&Value> = computed.iter().map(|c| &c.after).collect();
    match output {
        StatusOutputArg::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": after});
            Ok(output::json(&list)?)
        }
        StatusOutputArg::Yaml => {
            let mut stream = String::new();
            for object in after {
                // A macro of the crate has no type to keep between two uses.
                let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
                let text = serde_saphyr::to_string_with_options(object, options)
                    .context("an object cannot be printed as YAML")?;
                stream.push_str("---\n");
                stream.push_str(&text);
            }
            Ok(stream)
        }
    }
}
