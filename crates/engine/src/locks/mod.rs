//! The locks of one server as they are now: its Leases, the controller managers that compete for them, and who may write
//! the migration Lease. Owns what is read, and keeping it up to date by watches; must not judge it, and writes nothing.

mod follow;

pub use follow::follow;

use crate::client::Client;
use crate::client::access::{Attempt, may_user};
use leader_migration::rights::{Grantee, RightQuestion, questions};
use leader_migration::validate::RightFact;

/// Asks the server one question by an access review.
///
/// # Errors
/// The server did not answer, or does not answer such questions to this user.
pub async fn review(client: &Client, question: &RightQuestion) -> Result<bool, crate::client::Error> {
    let attempt = Attempt {
        verb: question.verb.to_owned(),
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        namespace: question.namespace.clone(),
        name: question.lease.clone(),
        ..Attempt::default()
    };
    let (user, groups) = (question.subject.user(), question.subject.groups());
    Ok(may_user(client, &user, &groups, &attempt).await?.allowed)
}

/// What the subjects may do to the migration Lease. A question that the server does not answer stays open.
pub async fn rights(
    client: &Client,
    subjects: &[Grantee],
    namespace: &str,
    leader_name: &str,
) -> Vec<RightFact> {
    let mut facts = Vec::new();
    for question in questions(subjects, namespace, leader_name) {
        let allowed = review(client, &question).await.ok();
        facts.push(RightFact { question, allowed });
    }
    facts
}
