//! What this user may do, asked of the server before anything is tried. Owns the question and its answer; must not know
//! who shows it. A preview asks again, for the one object.

use super::Executor;
use capstan_engine::client::access::{Attempt, may};

/// A verb on a kind, in a namespace or, where that is empty, in all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    pub verb: &'static str,
    pub group: String,
    /// Plural, lower case.
    pub resource: String,
    pub namespace: String,
}

/// What the server said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    Allowed,
    /// With the server's reason; often empty.
    Refused(String),
    /// It could not be asked.
    Unknown,
}

impl Executor {
    /// Asks the server, one right after the other.
    pub async fn answers(&self, rights: Vec<Right>) -> Vec<(Right, Grant)> {
        let mut answers = Vec::with_capacity(rights.len());
        for right in rights {
            let attempt = Attempt {
                verb: right.verb.to_owned(),
                group: right.group.clone(),
                resource: right.resource.clone(),
                namespace: right.namespace.clone(),
                ..Attempt::default()
            };
            let answer = match may(&self.connection.client, &attempt).await {
                Ok(access) if access.allowed => Grant::Allowed,
                Ok(access) => Grant::Refused(capstan_base::text::sanitize_line(&access.reason)),
                Err(_) => Grant::Unknown,
            };
            answers.push((right, answer));
        }
        answers
    }
}
