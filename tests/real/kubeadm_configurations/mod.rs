//! Configurations made by chance, judged by kubeadm itself and here: what kubeadm refuses is never ready, and what it takes is
//! never refused. Owns the comparison. kubeadm is built on first use from its public module; without Go or the module the test
//! says so and skips.

mod drawing;

use capstan_base::rng::Rng;
use kubeadm_change::check::{self, DocumentFinding, FindingSeverity};
use kubeadm_change::convert::to_stored;
use kubeadm_change::document::{DocumentKind, read_inputs};
use kubeadm_change::kind::{KUBEADM_GROUP, V1BETA4};
use kubeadm_change::plan::{Acknowledged, PlanOptions, PlanState, plan};
use kubeadm_change::request::{PatchKind, RequestPart, apply};
use serde_json::json;

use crate::kubeadm_program::Kubeadm;
use drawing::{Drawing, Drawn};

/// What every run asks. A build of kubeadm takes minutes, so it is of one release.
const RELEASE: &str = "1.36.3";
const CONFIGURATIONS: u64 = 200;
const SEED: u64 = 29;
/// The first minor release that is built by Go 1.26, which refuses a URL with a second colon in its host. Older ones take it, and
/// etcd is not found there.
const STRICT_COLONS_SINCE: u64 = 36;

/// What was asked, and what came of it.
#[derive(Debug, Default)]
struct Compared {
    refused: u64,
    taken: u64,
    /// Refused here although kubeadm takes them, because no component starts with what kubeadm then writes.
    refused_on_purpose: u64,
    /// Of those that kubeadm takes, and a plan carries out.
    ready: u64,
    wrong: Vec<String>,
}

/// An error here although `kubeadm config validate` takes the document: kubeadm writes a manifest of it that no component starts
/// with, or the command that is given the document refuses it (`kubeadm init` and `join` an address, all commands the names of checks).
fn is_on_purpose(finding: &DocumentFinding, minor: u64) -> bool {
    let ends = ["imageTag", "advertiseAddress", "ignorePreflightErrors"];
    ends.iter().any(|end| finding.path.ends_with(end))
        || finding.path.contains(".extraVolumes")
        || finding.message.contains("expected the name without dashes")
        || (finding.path.starts_with("etcd.external.") && minor < STRICT_COLONS_SINCE)
}

/// Whether the file of a discovery is there, kubeadm looks up on its host. A field that it does not have is a warning here:
/// its commands ignore it, and only `config validate` refuses it.
fn is_no_error_here(why: &str) -> bool {
    ["not a valid HTTPS URL or a file on disk", "unknown field"].iter().any(|known| why.contains(known))
}

/// What is an error here. A document that cannot be read at all is one.
fn errors(drawn: &Drawn, minor: u64) -> Vec<DocumentFinding> {
    let inputs = match read_inputs(&[("drawn".to_owned(), drawn.text.clone())]) {
        Ok(inputs) => inputs,
        Err(unreadable) => {
            let finding = |error: kubeadm_change::document::InputError| DocumentFinding {
                severity: FindingSeverity::Error,
                kind: "document",
                path: String::new(),
                place: error.place,
                message: error.message,
            };
            return unreadable.into_iter().map(finding).collect();
        }
    };
    let found = inputs.documents.iter().flat_map(|document| check::check(document, Some(minor)));
    found.filter(|finding| finding.severity == FindingSeverity::Error).collect()
}

/// The ClusterConfiguration that a plan would store, when it is ready with everything acknowledged and forced.
fn stored_by_plan(drawn: &Drawn, version: &str) -> Option<String> {
    let head = format!(
        "apiVersion: {KUBEADM_GROUP}/{V1BETA4}\nkind: ClusterConfiguration\nkubernetesVersion: {version}\n"
    );
    let inputs = read_inputs(&[("stored".to_owned(), head)]).expect("a document");
    let replace = RequestPart::Replace("drawn".to_owned(), drawn.text.clone());
    let mut target = apply(&inputs, &[replace], PatchKind::Strategic).ok()?;
    let options =
        PlanOptions { force: true, acknowledged: Acknowledged::Everything, ..PlanOptions::default() };
    let plan = plan(&inputs, &mut target, &options).ok()?;
    if !matches!(plan.state, PlanState::Ready | PlanState::NeedsAcknowledgement) {
        return None;
    }
    let wanted = target.document(DocumentKind::Cluster)?;
    let mut value = to_stored(wanted.kind, &wanted.version, &wanted.new).ok()?;
    value["apiVersion"] = json!(format!("{KUBEADM_GROUP}/{}", wanted.version));
    value["kind"] = json!(DocumentKind::Cluster.name());
    Some(value.to_string())
}

fn compare(kubeadm: &Kubeadm, drawn: &Drawn, compared: &mut Compared) {
    let said = kubeadm.refuses(&drawn.text, drawn.is_experimental);
    let errors = errors(drawn, kubeadm.minor);
    match &said {
        Some(why) => {
            compared.refused += 1;
            if errors.is_empty() && !is_no_error_here(why) {
                compared.wrong.push(format!("passes here: {}\n  kubeadm: {why}", drawn.text));
            }
        }
        None => {
            compared.taken += 1;
            compared.refused_on_purpose +=
                u64::from(errors.iter().any(|error| is_on_purpose(error, kubeadm.minor)));
            if let Some(error) = errors.iter().find(|error| !is_on_purpose(error, kubeadm.minor)) {
                compared.wrong.push(format!("refused here: {}\n  {}", drawn.text, error.message));
            }
        }
    }
    if drawn.has_cluster
        && let Some(stored) = stored_by_plan(drawn, &kubeadm.version)
    {
        compared.ready += 1;
        if let Some(why) = kubeadm.refuses(&stored, false).filter(|why| !is_no_error_here(why)) {
            compared.wrong.push(format!("is ready: {}\n  stores {stored}\n  kubeadm: {why}", drawn.text));
        }
    }
}

/// A number of a variable.
fn number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect("a number"))
}

/// `CAPSTAN_KUBEADM_RELEASES=1.31.14,1.34.4` asks other releases, `CAPSTAN_KUBEADM_CONFIGURATIONS=N` N times each,
/// `CAPSTAN_KUBEADM_SEED=S` others.
#[test]
fn what_kubeadm_refuses_is_never_ready_and_what_it_takes_is_never_refused() {
    let releases = std::env::var("CAPSTAN_KUBEADM_RELEASES").unwrap_or_else(|_| RELEASE.to_owned());
    let configurations = number("CAPSTAN_KUBEADM_CONFIGURATIONS", CONFIGURATIONS);
    let seed = number("CAPSTAN_KUBEADM_SEED", SEED);
    let mut wrong = Vec::new();
    for release in releases.split(',') {
        let kubeadm = match Kubeadm::of(release) {
            Ok(kubeadm) => kubeadm,
            Err(why) => {
                println!("skipped: {why}");
                continue;
            }
        };
        let mut compared = Compared::default();
        for index in 0..configurations {
            let rng = Rng::seeded(seed).stream(&format!("{release} {index}"));
            let drawing = Drawing { rng, version: &kubeadm.version, minor: kubeadm.minor };
            compare(&kubeadm, &drawing.draw(), &mut compared);
        }
        println!(
            "kubeadm {release}: {configurations} documents, {} taken, {} refused; here {} of those taken were refused on purpose; {} plans were ready; {} wrong",
            compared.taken,
            compared.refused,
            compared.refused_on_purpose,
            compared.ready,
            compared.wrong.len()
        );
        assert!(compared.taken.min(compared.refused) > 0, "only one kind of answer: {compared:?}");
        wrong.extend(compared.wrong.into_iter().map(|case| format!("{release} {case}")));
    }
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
}
