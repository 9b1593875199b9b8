//! Who asks, and what they may do. Owns tokens, identities and roles; must not know how a request
//! reached the server.

use std::borrow::Cow;
use std::fmt;

use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use super::routes::{Target, Verb};
use crate::failure::Failure;

/// The bearer tokens of a server. Compared in constant time, never shown.
#[derive(Clone)]
pub struct Tokens {
    /// A request with it is made by [`Identity::ADMIN`]. An empty text is not a token.
    pub admin: String,
    /// A request with it is made by [`Identity::READ_ONLY`]. An empty text is not a token.
    pub read_only: String,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens(..)")
    }
}

/// What an identity may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    Admin,
    /// Reads everything but Secrets.
    ReadOnly,
    /// Known by name only: asks what it may do, and what is served.
    Guest,
    /// Health and version.
    Anonymous,
}

/// The group that may do everything.
const ADMINS: &str = "system:masters";
/// The group that may read.
const VIEWERS: &str = "capstan:viewers";

/// Somebody who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name, as `kubectl auth whoami` shows it.
    pub user: Cow<'static, str>,
    /// As given; see [`Identity::groups`].
    given_groups: Cow<'static, [Cow<'static, str>]>,
    pub(crate) role: Role,
}

impl Identity {
    /// Of the group `system:masters`: may do everything, and act as anybody.
    pub const ADMIN: Self = Self::known("kubernetes-admin", &[Cow::Borrowed(ADMINS)], Role::Admin);
    /// Of the group `capstan:viewers`: reads everything but Secrets.
    pub const READ_ONLY: Self = Self::known("capstan-viewer", &[Cow::Borrowed(VIEWERS)], Role::ReadOnly);
    /// Without credentials: health and version only.
    pub const ANONYMOUS: Self =
        Self::known("system:anonymous", &[Cow::Borrowed("system:unauthenticated")], Role::Anonymous);

    const fn known(user: &'static str, groups: &'static [Cow<'static, str>], role: Role) -> Self {
        Self { user: Cow::Borrowed(user), given_groups: Cow::Borrowed(groups), role }
    }

    /// Somebody by name; the groups decide what they may do.
    pub fn of(user: String, groups: Vec<String>) -> Self {
        // Groups that come with this name give it no rights.
        if user == Self::ANONYMOUS.user {
            return Self::ANONYMOUS;
        }
        let member = |group: &str| groups.iter().any(|given| given == group);
        let role = match () {
            () if member(ADMINS) => Role::Admin,
            () if member(VIEWERS) => Role::ReadOnly,
            () => Role::Guest,
        };
        let groups = groups.into_iter().map(Cow::Owned).collect();
        Self { user: Cow::Owned(user), given_groups: Cow::Owned(groups), role }
    }

    /// The groups, as reviews list them.
    pub fn groups(&self) -> Vec<&str> {
        let everybody = (self.role != Role::Anonymous).then_some("system:authenticated");
        self.given_groups.iter().map(AsRef::as_ref).chain(everybody).collect()
    }

    /// Whom a request is made as: the administrator may act as anybody, nobody else may.
    ///
    /// Source: apiserver `pkg/endpoints/filters/impersonation/impersonation.go`, v0.35. Intended difference: a
    /// uid or extra values are refused; nothing here reads them.
    ///
    /// # Errors
    /// 403 without that right; 400 for groups without a user.
    pub(crate) fn impersonating(self, headers: &HeaderMap) -> Result<Self, Failure> {
        let all = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect()
        };
        let (users, groups) = (all("impersonate-user"), all("impersonate-group"));
        let other = headers.keys().map(http::HeaderName::as_str).find(|name| {
            name.strip_prefix("impersonate-").is_some_and(|rest| !matches!(rest, "user" | "group"))
        });
        let Some(user) = users.into_iter().next().filter(|user| !user.is_empty()) else {
            if groups.is_empty() && other.is_none() {
                return Ok(self);
            }
            return Err(Failure::bad_request(
                "requested groups, a uid or extra values without impersonating a user",
            ));
        };
        let refuse = |resource: &str, name: &str| {
            let why = format!(
                "User \"{}\" cannot impersonate resource \"{resource}\" in API group \"\" at the cluster scope",
                self.user
            );
            Err(Failure::forbidden("", resource, name, &why))
        };
        match (self.role, other) {
            (Role::Admin, None) => Ok(Self::of(user, groups)),
            (Role::Admin, Some("impersonate-uid")) => refuse("uids", ""),
            (Role::Admin, Some(_)) => refuse("userextras", ""),
            (Role::Anonymous, _) => Err(Failure::unauthorized()),
            _ => refuse("users", &user),
        }
    }
}

impl Tokens {
    /// Fresh ones from the operating system's entropy: 244 bits each.
    pub fn random() -> Self {
        let token = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        Self { admin: token(), read_only: token() }
    }

    /// From the `Authorization` header; `None` without one.
    ///
    /// # Errors
    /// 401 for anything but a known bearer token.
    pub(crate) fn authenticate(&self, authorization: Option<&str>) -> Result<Option<Identity>, Failure> {
        let Some(authorization) = authorization else { return Ok(None) };
        let token = authorization
            .split_once(' ')
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map_or("", |(_, token)| token.trim());
        // Both are compared whatever the first says.
        let (admin, read_only) = (same_secret(&self.admin, token), same_secret(&self.read_only, token));
        match (admin, read_only) {
            (true, _) => Ok(Some(Identity::ADMIN)),
            (_, true) => Ok(Some(Identity::READ_ONLY)),
            _ => Err(Failure::unauthorized()),
        }
    }
}

/// Compares digests, so that time tells neither content nor length. An empty secret matches nothing.
fn same_secret(secret: &str, given: &str) -> bool {
    let (a, b) = (Sha256::digest(secret), Sha256::digest(given));
    let difference = a.iter().zip(&b).fold(0_u8, |all, (a, b)| all | (a ^ b));
    !secret.is_empty() && difference == 0
}

/// One thing to be allowed, as authorisation sees it.
#[derive(Clone, Copy, Debug)]
pub enum Attributes<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, subresource: &'a str },
    Path { verb: &'a str, path: &'a str },
}

impl Identity {
    pub(crate) fn may(&self, attributes: Attributes<'_>) -> bool {
        match (self.role, attributes) {
            (Role::Admin, _) => true,
            (Role::ReadOnly, Attributes::Resource { verb, group, resource, subresource }) => {
                let secrets = group.is_empty() && resource == "secrets";
                // Behind it is a kubelet, which runs commands by GET.
                let kubelet = subresource.split('/').next() == Some("proxy");
                // A question about every kind (`*`) is one about Secrets, too.
                (is_of_oneself(group, resource) && verb == "create")
                    || (matches!(verb, "get" | "list" | "watch") && !secrets && !kubelet && resource != "*")
            }
            (Role::Guest, Attributes::Resource { verb, group, resource, .. }) => {
                is_of_oneself(group, resource) && verb == "create"
            }
            (Role::ReadOnly, Attributes::Path { verb, .. }) => verb == "get",
            // As upstream's discovery role, which has no `/metrics`.
            (Role::Guest, Attributes::Path { verb, path }) => verb == "get" && path != "metrics",
            (Role::Anonymous, Attributes::Resource { .. }) => false,
            (Role::Anonymous, Attributes::Path { verb, path }) => verb == "get" && is_open(path),
        }
    }

    /// # Errors
    /// 403 in upstream's words.
    pub fn authorize(&self, verb: Verb, target: &Target) -> Result<(), Failure> {
        let Target { group, plural, subresource, namespace, name, .. } = target;
        let attributes = Attributes::Resource { verb: verb.word(), group, resource: plural, subresource };
        if self.may(attributes) {
            return Ok(());
        }
        // 401 makes a client show credentials, which 403 does not.
        if self.role == Role::Anonymous {
            return Err(Failure::unauthorized());
        }
        let resource =
            if subresource.is_empty() { plural.clone() } else { format!("{plural}/{subresource}") };
        let place = if namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{namespace}\"")
        };
        let why = format!(
            "User \"{}\" cannot {} resource \"{resource}\" in API group \"{group}\" {place}",
            self.user,
            verb.word()
        );
        Err(Failure::forbidden(group, plural, name, &why))
    }

    /// # Errors
    /// 401 or 403 for a path that is not a resource.
    pub fn authorize_path(&self, verb: &str, path: &str) -> Result<(), Failure> {
        if self.may(Attributes::Path { verb, path }) {
            return Ok(());
        }
        if self.role == Role::Anonymous {
            return Err(Failure::unauthorized());
        }
        let why = format!("User \"{}\" cannot {verb} path \"/{path}\"", self.user);
        Err(Failure::forbidden("", "", "", &why))
    }
}

/// A review that says nothing about others.
fn is_of_oneself(group: &str, resource: &str) -> bool {
    matches!(group, "authorization.k8s.io" | "authentication.k8s.io") && resource.starts_with("selfsubject")
}

/// Paths that need no token.
fn is_open(path: &str) -> bool {
    let first = path.trim_matches('/').split('/').next().unwrap_or_default();
    matches!(first, "healthz" | "livez" | "readyz" | "version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_owner() {
        let tokens = Tokens { admin: "a".repeat(32), read_only: String::new() };
        let who = |header: Option<&str>| tokens.authenticate(header).map(|who| who.map(|who| who.role));
        assert_eq!(who(Some(&format!("Bearer {}", "a".repeat(32)))).unwrap(), Some(Role::Admin));
        assert_eq!(who(None).unwrap(), None);
        for bad in ["Bearer ", "Bearer b", "Basic x", "", &"a".repeat(32)] {
            assert_eq!(who(Some(bad)).unwrap_err().code(), 401, "{bad}");
        }
    }

    #[test]
    fn roles_may_what_they_say() {
        let attributes = |verb, path: &'static str| {
            let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
            Attributes::Resource { verb, group: "", resource, subresource }
        };
        for (identity, attributes, allowed) in [
            (Identity::ADMIN, attributes("delete", "secrets"), true),
            (Identity::READ_ONLY, attributes("list", "nodes"), true),
            (Identity::READ_ONLY, attributes("get", "secrets"), false),
            (Identity::READ_ONLY, attributes("get", "nodes/status"), true),
            (Identity::READ_ONLY, attributes("get", "nodes/proxy/healthz"), false),
            (Identity::ADMIN, attributes("get", "nodes/proxy"), true),
            (Identity::READ_ONLY, attributes("patch", "nodes"), false),
            (Identity::READ_ONLY, attributes("deletecollection", "nodes"), false),
            (Identity::READ_ONLY, Attributes::Path { verb: "get", path: "openapi/v3" }, true),
            (Identity::of("who".to_owned(), Vec::new()), attributes("get", "nodes"), false),
            (
                Identity::of("who".to_owned(), Vec::new()),
                Attributes::Path { verb: "get", path: "apis" },
                true,
            ),
            (Identity::of("boss".to_owned(), vec![ADMINS.to_owned()]), attributes("delete", "nodes"), true),
            (Identity::ANONYMOUS, attributes("get", "nodes"), false),
            (Identity::ANONYMOUS, Attributes::Path { verb: "get", path: "readyz/ping" }, true),
            (Identity::ANONYMOUS, Attributes::Path { verb: "get", path: "apis" }, false),
        ] {
            assert_eq!(identity.may(attributes), allowed, "{} {attributes:?}", identity.user);
        }
    }
}
