//! `capstan status compute`: the status that our functions compute for objects from files, and what in
//! the stored one differs. Owns files and output; must not know an API server. Everything but `read` is
//! pure.
//!
//! Each object is judged by what the *stored* objects around it say, as its controller would in its next
//! pass; statuses computed in the same run are not fed back.

mod assumed;
mod class;
pub mod compute;
mod control_plane;
mod deletion;
pub mod diff;
pub mod document;
pub mod dump;
pub mod kept;
mod observe;
pub mod read;
mod remediation;
mod report;
mod topology;
mod workload;

#[cfg(test)]
mod tests;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::args::{StatusComputeArgs, StatusOutputArg};
use super::output::{self, Style};
use crate::time::Timestamp;
use compute::Computed;
use dump::Dump;

/// What the command prints, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub document: String,
    /// What was left out, could not be judged, or was only repeated; and why.
    pub remarks: Vec<String>,
    /// Some status differs from the one it came with.
    pub differs: bool,
}

/// Reads, computes and lays out.
///
/// # Errors
/// A file that cannot be read or is no YAML or JSON, or nothing to compute, in a sentence.
pub fn run(args: &StatusComputeArgs, now: Timestamp, style: Style) -> anyhow::Result<Answer> {
    let (documents, mut remarks) = read::documents(&args.files, &args.workloads)?;
    let count = documents.len();
    let dump = Dump::new(documents);
    let computed = compute::all(&dump, now);
    remarks.extend(dump.remarks.iter().cloned());
    if computed.is_empty() {
        remarks.push(format!(
            "there is nothing to compute among {count} objects: no Cluster API kind with rules here"
        ));
        bail!("{}", remarks.join("\n"));
    }
    let document = if args.diff {
        report::text(&computed, &dump.unjudged(), style)
    } else {
        style.block(objects(&computed, args.output)?)
    };
    remarks.extend(computed.iter().filter_map(Computed::remark));
    let kept = computed.iter().flat_map(|c| c.kept.iter().map(|kept| (c.kind, &c.key, kept)));
    remarks.extend(kept::sentences(kept));
    Ok(Answer { document, remarks, differs: computed.iter().any(Computed::differs) })
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
