//! Clusters by what they have in common: how many of each group there are, how those are, and how to see only them. Owns the
//! text; must not know how it is drawn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::Outcome;
use crate::fleet::Verdict;
use crate::fleet::{Row, RowId};
use crate::tui::model::Model;
use crate::tui::paint::Paint;
use capstan_base::text::did_you_mean;

/// What clusters can be grouped by besides their labels.
const FIELDS: [&str; 3] = ["namespace", "class", "version"];
/// Where a cluster has no value.
const WITHOUT: &str = "(none)";
/// Names of one group that are not well.
const NAMED_MAX: usize = 5;

/// Clusters with one value.
#[derive(Default)]
struct Group {
    counts: [usize; Verdict::ALL.len()],
    /// Not well, worst first.
    faulty: Vec<(Verdict, String)>,
}

impl Group {
    fn size(&self) -> usize {
        self.counts.iter().sum()
    }

    fn worst(&self) -> Verdict {
        Verdict::worst(Verdict::ALL.into_iter().filter(|verdict| self.counts[*verdict as usize] > 0))
    }
}

/// Shows the groups that a field or a label makes.
pub fn groups(model: &mut Model, by: &str) -> Outcome {
    let known = keys(model);
    if !known.contains(by) {
        let hint = did_you_mean(by, known.iter().map(String::as_str));
        return Err(format!("no Cluster has a label `{by}`, nor is it one of {}{hint}", FIELDS.join(", ")));
    }
    let text = overview(model, by);
    model.overview(format!("clusters by {by}"), text);
    Ok(Vec::new())
}

/// What the clusters here can be grouped by: fields, then labels.
pub fn keys(model: &Model) -> BTreeSet<String> {
    let labels = clusters(model).flat_map(|(_, row)| row.labels.0.iter().map(|(key, _)| key.to_string()));
    FIELDS.into_iter().map(str::to_owned).chain(labels).collect()
}

fn clusters(model: &Model) -> impl Iterator<Item = (RowId, &Row)> {
    model.fleet.clusters().iter().filter_map(|id| Some((*id, model.fleet.row(*id)?.as_ref())))
}

fn overview(model: &Model, by: &str) -> String {
    let paint = Paint::new(&model.look.theme, model.now);
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (id, row) in clusters(model) {
        let group = groups.entry(value(model, id, row, by)).or_default();
        let verdict = model.fleet.verdict(id);
        group.counts[verdict as usize] += 1;
        if verdict > Verdict::Progressing {
            group.faulty.push((verdict, row.name.to_string()));
        }
    }
    let mut groups: Vec<(String, Group)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.worst()));
    let widest = groups.iter().map(|(name, _)| capstan_base::text::width(name)).max().unwrap_or(0);
    let mut text = String::new();
    for (name, group) in &mut groups {
        let padding = " ".repeat(widest - capstan_base::text::width(name));
        let _ = writeln!(text, "{name}{padding}  {:>4}  {}", group.size(), counts(group, &paint));
        group.faulty.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.cmp(y)));
        if !group.faulty.is_empty() {
            let named = group.faulty.iter().take(NAMED_MAX);
            let mut names: Vec<String> =
                named.map(|(verdict, name)| format!("{} {name}", paint.verdict_glyph(*verdict))).collect();
            let more = group.faulty.len().saturating_sub(NAMED_MAX);
            if more > 0 {
                names.push(format!("and {more} more"));
            }
            let _ = writeln!(text, "  {}", names.join("  "));
        }
    }
    let filter = match by {
        "namespace" => "ns:VALUE".to_owned(),
        field if FIELDS.contains(&field) => format!("{field}:VALUE"),
        label => format!("l:{label}=VALUE"),
    };
    let _ = write!(text, "\n/ {filter} shows only those of one value.");
    text
}

/// Worst first, as in the header.
fn counts(group: &Group, paint: &Paint<'_>) -> String {
    let mut words: Vec<String> = Vec::new();
    for verdict in [Verdict::Blocked, Verdict::Degraded, Verdict::Unknown, Verdict::Progressing, Verdict::Ok]
    {
        let count = group.counts[verdict as usize];
        if count > 0 {
            words.push(format!("{} {count} {}", paint.verdict_glyph(verdict), verdict.word()));
        }
    }
    words.join("  ")
}

/// The value of one cluster; of several versions all of them.
fn value(model: &Model, id: RowId, row: &Row, by: &str) -> String {
    let value = match by {
        "namespace" => row.namespace.to_string(),
        "class" => row.cluster_facts().map(|facts| facts.class.to_string()).unwrap_or_default(),
        "version" => {
            let versions = model.fleet.versions(id);
            versions.iter().map(|v| v.version.to_string()).collect::<Vec<_>>().join(" and ")
        }
        label => row.labels.get(label).unwrap_or_default().to_owned(),
    };
    if value.is_empty() { WITHOUT.to_owned() } else { value }
}
