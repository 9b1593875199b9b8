//! The rights that leader migration needs beside what is built in: a Role and a binding of its own. Owns what is
//! asked for; must not know how a server is asked.
//!
//! The documented recipe replaces the rules of a built-in Role, and asks for `create` by name, which never allows
//! anything: the name of an object that is made is not known when the right is judged.

use std::fmt::Write as _;

/// Somebody who needs the rights.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grantee {
    /// As an access review names the user.
    User(String),
    /// As of a DaemonSet's pods.
    ServiceAccount {
        /// Where the account is.
        namespace: String,
        /// Of the account, without a prefix.
        name: String,
    },
}

impl Grantee {
    /// kube-controller-manager's usual user.
    pub fn kube_controller_manager() -> Self {
        Self::User("system:kube-controller-manager".to_owned())
    }

    /// As an access review names it.
    pub fn user(&self) -> String {
        match self {
            Self::User(name) => name.clone(),
            Self::ServiceAccount { namespace, name } => format!("system:serviceaccount:{namespace}:{name}"),
        }
    }

    /// The groups of an access review: those that the API server gives to every service account.
    pub fn groups(&self) -> Vec<String> {
        match self {
            Self::User(_) => vec!["system:authenticated".to_owned()],
            Self::ServiceAccount { namespace, .. } => vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
        }
    }
}

/// One question: may `subject` do `verb` on Leases, or on the one of this name?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightQuestion {
    /// Who would do it.
    pub subject: Grantee,
    /// `get`, `create`, `update`.
    pub verb: &'static str,
    /// Of the Lease.
    pub namespace: String,
    /// Empty for `create`.
    pub lease: String,
}

/// What has to be allowed before a process can hold the lock.
pub fn questions(subjects: &[Grantee], namespace: &str, lease: &str) -> Vec<RightQuestion> {
    let ask = |subject: &Grantee, verb: &'static str| RightQuestion {
        subject: subject.clone(),
        verb,
        namespace: namespace.to_owned(),
        // A rule with a name never allows `create`: the name is not known when the right is judged.
        lease: if verb == "create" { String::new() } else { lease.to_owned() },
    };
    // client-go's elector does nothing else with a Lease.
    subjects.iter().flat_map(|subject| ["create", "get", "update"].map(|verb| ask(subject, verb))).collect()
}

/// Role and RoleBinding as YAML. `lease` must be a name of an object, and is then safe to print.
pub fn role(namespace: &str, lease: &str, subjects: &[Grantee]) -> String {
    let mut text = format!(
        "apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: leader-migration:{lease}
  namespace: {namespace}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{lease}]
    verbs: [get, update, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: leader-migration:{lease}
  namespace: {namespace}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: leader-migration:{lease}
subjects:
"
    );
    for subject in subjects {
        let _ = match subject {
            Grantee::User(name) => {
                writeln!(text, "  - apiGroup: rbac.authorization.k8s.io\n    kind: User\n    name: {name}")
            }
            Grantee::ServiceAccount { namespace, name } => {
                writeln!(text, "  - kind: ServiceAccount\n    name: {name}\n    namespace: {namespace}")
            }
        };
    }
    text
}
