//! What the server counts about itself, as Prometheus text. Must not know what requests mean.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::OnceLock;

use http::{Method, StatusCode};
use parking_lot::Mutex;

use capstan_store::Revision;

/// Lines of another part of the process.
pub type MoreMetrics = Box<dyn Fn() -> String + Send + Sync>;

/// Counters since the start.
#[derive(Default)]
pub struct Metrics {
    /// By method and code.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    more: OnceLock<MoreMetrics>,
}

impl Metrics {
    pub fn count(&self, method: &Method, code: StatusCode) {
        *self.requests.lock().entry((word(method), code.as_u16())).or_default() += 1;
    }

    /// Adds lines of another part of the process, such as an engine, to the text. Only the first call counts.
    pub fn append(&self, more: MoreMetrics) {
        let _ = self.more.set(more);
    }

    /// Prometheus text format 0.0.4. The names are kube-apiserver's where it has such a number.
    pub fn text(&self, revision: Revision, resources: usize) -> String {
        let mut text = String::new();
        let mut number = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let version = format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
        number("capstan_build_info", "gauge", "Which capstan this is.", &[(version, 1)]);
        let requests = self.requests.lock();
        let requests: Vec<_> = requests
            .iter()
            .map(|((method, code), count)| (format!("{{verb=\"{method}\",code=\"{code}\"}}"), *count))
            .collect();
        number("apiserver_request_total", "counter", "Requests answered, by method and code.", &requests);
        let plain = |value: u64| [(String::new(), value)];
        number("capstan_store_revision", "gauge", "Revision of the last write.", &plain(revision));
        let resources = u64::try_from(resources).unwrap_or(u64::MAX);
        number("capstan_served_resources", "gauge", "Kinds served, by version.", &plain(resources));
        if let Some(more) = self.more.get() {
            text.push_str(&more());
        }
        text
    }
}

/// Unknown methods share one label value, so that clients cannot invent labels.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
