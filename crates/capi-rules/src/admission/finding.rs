//! What rules find wrong with an object, collected: causes of a refusal and warnings. Must not know
//! a kind.

use serde_json::Value;

use k8s_machinery::validation::cause::Cause;

/// Everything one look at an object found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub causes: Vec<Cause>,
    pub warnings: Vec<String>,
}

impl Findings {
    pub fn invalid(&mut self, field: impl Into<String>, value: &Value, detail: &str) {
        self.causes.push(Cause::invalid(field, value, detail));
    }

    pub fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.causes.push(Cause::required(field, detail));
    }

    pub fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.causes.push(Cause::forbidden(field, detail));
    }

    /// A check that could not be made.
    pub fn internal(&mut self, field: impl Into<String>, why: &str) {
        self.causes.push(Cause::internal(field, why));
    }
}

/// Why an object could not be defaulted.
#[derive(Debug)]
pub(super) enum Denial {
    /// 403 with this sentence.
    Sentence(String),
    /// 422 with this cause.
    Cause(Cause),
}
