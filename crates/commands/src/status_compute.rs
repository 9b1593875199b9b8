//! `capstan status compute`: the status that the status rules compute for objects from files, and what in
//! the stored one differs. Owns arguments and output; the statuses are `recompute`'s.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::output::{self, Style};
use super::status_report;
use crate::arguments::Moment;
use crate::documents::{self, WorkloadFile};
use capi_rules::observe::dump::Dump;
use capi_rules::recompute::{Computed, all, kept};
use capstan_base::text::counted;
use capstan_base::time::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatusOutputArg {
    Yaml,
    Json,
}

#[derive(Clone, Debug, Args)]
pub struct StatusComputeArgs {
    /// File, folder, or - for standard input; YAML or JSON, streams and lists
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Nodes and Pods in FILE are of the workload cluster NAMESPACE/NAME
    #[arg(long = "workload", value_name = "NAMESPACE/NAME=FILE")]
    pub workloads: Vec<WorkloadFile>,
    /// The moment to judge at: 2026-11-20T10:00:00Z, or from now: +2h, +30m, +1d; without it the present
    #[arg(long, value_name = "TIME")]
    pub now: Option<Moment>,
    /// A stream of documents, or one List
    #[arg(short, long, default_value = "yaml")]
    pub output: StatusOutputArg,
    /// Print what differs from the status that each object came with; exit 1 when something does, 3 when it failed
    #[arg(long, conflicts_with = "output")]
    pub diff: bool,
}

/// What the command prints, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub document: String,
    /// What was left out, could not be judged, or was only repeated; and why.
    pub remarks: Vec<String>,
    /// Some status differs from the one in the files.
    pub differs: bool,
}

/// Reads, computes and lays out.
///
/// # Errors
/// A file that cannot be read or is neither YAML nor JSON, or nothing to compute, in a sentence.
pub fn run(args: &StatusComputeArgs, now: Timestamp, style: Style) -> anyhow::Result<Answer> {
    let (documents, mut remarks) = documents::documents(&args.files, &args.workloads)?;
    let count = documents.len();
    let dump = Dump::new(documents);
    let computed = all(&dump, now);
    remarks.extend(dump.remarks.iter().cloned());
    if computed.is_empty() {
        remarks.push(format!(
            "there is nothing to compute among {}: no Cluster API kind with rules here",
            counted(count, "object")
        ));
        bail!("{}", remarks.join("\n"));
    }
    let document = if args.diff {
        status_report::text(&computed, &dump.unjudged(), style)
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
