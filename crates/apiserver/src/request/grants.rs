//! What rules of Roles cover, and what somebody may hand on by a Role or a binding: nothing that he does not hold himself, unless he
//! may `escalate` or `bind`. Pure; must not know where rules are kept.
//!
//! Source: kubernetes `pkg/registry/rbac/{role,rolebinding,clusterrole,clusterrolebinding}/policybased/storage.go`,
//! `pkg/registry/rbac/validation/rule.go`, `policy_comparator.go`, `pkg/apis/rbac/v1/evaluation_helpers.go`, v1.35.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

/// Something that somebody wants to do. Empty text: not in the request.
#[derive(Clone, Copy, Debug)]
pub struct ResourceAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// Does the rule allow it?
pub fn covers(rule: &PolicyRule, attributes: ResourceAttributes<'_>) -> bool {
    let resource = match attributes.subresource {
        "" => attributes.resource.to_owned(),
        subresource => format!("{}/{subresource}", attributes.resource),
    };
    // A name that the request does not carry is in no list: a rule with names never allows to create.
    let only = rule.resource_names.as_deref().unwrap_or_default();
    let allows_name = only.is_empty() || only.iter().any(|name| name == attributes.name);
    any_or(&rule.verbs, attributes.verb)
        && any_or(list(&rule.api_groups), attributes.group)
        && has_resource(list(&rule.resources), &resource)
        && allows_name
}

fn list(words: &Option<Vec<String>>) -> &[String] {
    words.as_deref().unwrap_or_default()
}

fn any_or(words: &[String], word: &str) -> bool {
    words.iter().any(|known| known == "*" || known == word)
}

fn has_resource(resources: &[String], resource: &str) -> bool {
    let subresource = resource.split_once('/').map(|(_, subresource)| format!("*/{subresource}"));
    any_or(resources, resource) || subresource.is_some_and(|all| resources.contains(&all))
}

/// Why a Role or a binding is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrantRefusal {
    /// It hands on what its author does not hold; a sentence in upstream's words.
    NotHeld(String),
    /// A binding names a role that is not there, and its author may not `bind` it: whoever makes that role later would grant it.
    NoRole { resource: &'static str, name: String },
}

/// What somebody holds in a place, and what the roles there would hand on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grants {
    pub user: String,
    pub groups: Vec<String>,
    pub held: Vec<PolicyRule>,
    /// By kind and name.
    pub roles: BTreeMap<(String, String), Vec<PolicyRule>>,
}

impl Grants {
    /// Refuses a Role or a binding that hands on what its author does not hold. `old`: as it is stored.
    ///
    /// # Errors
    /// [`GrantRefusal`].
    pub fn check(&self, kind: &str, old: Option<&Value>, new: &Value) -> Result<(), GrantRefusal> {
        let same = |field: &str| old.is_some_and(|old| old[field] == new[field]);
        match kind {
            // As upstream, a write that leaves the rules as they are hands on nothing.
            "Role" | "ClusterRole" if same("rules") => Ok(()),
            "Role" | "ClusterRole" => {
                let name = new["metadata"]["name"].as_str().unwrap_or_default();
                self.check_rules("escalate", kind, name, Some(&rules_of(&new["rules"])))
            }
            "RoleBinding" | "ClusterRoleBinding" if same("subjects") && same("roleRef") => Ok(()),
            "RoleBinding" | "ClusterRoleBinding" => {
                let text = |field: &str| new["roleRef"][field].as_str().unwrap_or_default().to_owned();
                let (kind, name) = (text("kind"), text("name"));
                let rules = self.roles.get(&(kind.clone(), name.clone()));
                self.check_rules("bind", &kind, &name, rules.map(Vec::as_slice))
            }
            _ => Ok(()),
        }
    }

    /// Unless `verb` on the role is held, each of its rules has to be. `None`: the role is not there.
    fn check_rules(
        &self,
        verb: &str,
        kind: &str,
        name: &str,
        rules: Option<&[PolicyRule]>,
    ) -> Result<(), GrantRefusal> {
        let resource = if kind == "ClusterRole" { "clusterroles" } else { "roles" };
        // `covers` looks at no namespace: what is held was gathered for this place.
        let (group, subresource, namespace) = ("rbac.authorization.k8s.io", "", "");
        let attributes = ResourceAttributes { verb, group, resource, subresource, namespace, name };
        if self.held.iter().any(|rule| covers(rule, attributes)) {
            return Ok(());
        }
        let Some(rules) = rules else {
            return Err(GrantRefusal::NoRole { resource, name: name.to_owned() });
        };
        let missing = missing(&self.held, rules);
        if missing.is_empty() {
            return Ok(());
        }
        let groups: Vec<String> = self.groups.iter().map(|group| format!("{group:?}")).collect();
        let Self { user, .. } = self;
        let groups = groups.join(" ");
        Err(GrantRefusal::NotHeld(format!(
            "user {user:?} (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n{}",
            missing.join("\n")
        )))
    }
}

fn rules_of(rules: &Value) -> Vec<PolicyRule> {
    // Rules that cannot be read are none here, and give nothing in `rbac` either.
    serde_json::from_value(rules.clone()).unwrap_or_default()
}

/// The parts of `wanted` that no rule of `held` covers, as upstream prints them.
fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
    let parts = wanted.iter().flat_map(parts);
    let missing = parts.filter(|part| !held.iter().any(|rule| part.is_in(rule)));
    let mut said: Vec<String> = missing.map(|part| part.to_string()).collect();
    said.sort();
    said.dedup();
    said
}

/// One verb on one thing.
enum Part<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Url { verb: &'a str, url: &'a str },
}

fn parts(rule: &PolicyRule) -> Vec<Part<'_>> {
    let names: Vec<Option<&str>> = match list(&rule.resource_names) {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let mut parts = Vec::new();
    for verb in &rule.verbs {
        for group in list(&rule.api_groups) {
            for resource in list(&rule.resources) {
                parts.extend(names.iter().map(|name| Part::Resource { verb, group, resource, name: *name }));
            }
        }
        parts.extend(list(&rule.non_resource_urls).iter().map(|url| Part::Url { verb, url }));
    }
    parts
}

impl Part<'_> {
    fn is_in(&self, rule: &PolicyRule) -> bool {
        match self {
            Self::Resource { verb, group, resource, name } => {
                let only = list(&rule.resource_names);
                // Without names all are asked for, which a rule with names does not give.
                let has_name = only.is_empty() || name.is_some_and(|name| only.iter().any(|n| n == name));
                any_or(&rule.verbs, verb)
                    && any_or(list(&rule.api_groups), group)
                    && has_resource(list(&rule.resources), resource)
                    && has_name
            }
            Self::Url { verb, url } => {
                let within = |known: &String| match known.strip_suffix('*') {
                    Some(beginning) => url.starts_with(beginning),
                    None => known == url,
                };
                any_or(&rule.verbs, verb) && list(&rule.non_resource_urls).iter().any(within)
            }
        }
    }
}

impl std::fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Resource { verb, group, resource, name } => {
                write!(f, "{{APIGroups:[{group:?}], Resources:[{resource:?}]")?;
                if let Some(name) = name {
                    write!(f, ", ResourceNames:[{name:?}]")?;
                }
                write!(f, ", Verbs:[{verb:?}]}}")
            }
            Self::Url { verb, url } => write!(f, "{{NonResourceURLs:[{url:?}], Verbs:[{verb:?}]}}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(value: Value) -> Vec<PolicyRule> {
        serde_json::from_value(value).expect("rules")
    }

    fn attributes<'a>(verb: &'a str, subresource: &'a str, name: &'a str) -> ResourceAttributes<'a> {
        let (group, resource, namespace) = ("coordination.k8s.io", "leases", "kube-system");
        ResourceAttributes { verb, group, resource, subresource, namespace, name }
    }

    #[test]
    fn a_rule_covers_what_it_names() {
        let rule = |names: Value| -> PolicyRule {
            let rule = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases", "*/scale"],
                "verbs": ["create", "get"], "resourceNames": names});
            serde_json::from_value(rule).expect("a rule")
        };
        for (names, attributes, expected) in [
            (json!([]), attributes("get", "", "a"), true),
            (json!([]), attributes("create", "", ""), true),
            (json!([]), attributes("update", "", "a"), false),
            (json!([]), attributes("get", "status", "a"), false),
            (json!([]), attributes("get", "scale", "a"), true),
            (json!(["a"]), attributes("get", "", "a"), true),
            (json!(["a"]), attributes("get", "", "b"), false),
            (json!(["a"]), attributes("create", "", ""), false),
        ] {
            assert_eq!(covers(&rule(names.clone()), attributes), expected, "{names} {attributes:?}");
        }
    }

    /// An administrator of roles in one namespace, who may read pods there.
    fn grants(more: Value) -> Grants {
        let mut held = rules(json!([
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
             "verbs": ["create", "update", "get"]},
            {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["*"]},
            {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]},
        ]));
        held.extend(rules(more));
        let role = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
        let all = rules(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
        let readers = rules(json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
        Grants {
            user: "ada".to_owned(),
            groups: vec!["team".to_owned(), "system:authenticated".to_owned()],
            held,
            roles: BTreeMap::from([(role("ClusterRole", "all"), all), (role("Role", "readers"), readers)]),
        }
    }

    #[test]
    fn nobody_hands_on_what_he_does_not_hold() {
        let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
        for (rules, missing) in [
            (json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]), ""),
            (
                json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["delete"]}]),
                "",
            ),
            (json!([{"nonResourceURLs": ["/metrics/x"], "verbs": ["get"]}]), ""),
            (json!([]), ""),
            (
                json!([{"apiGroups": [""], "resources": ["pods", "secrets"], "verbs": ["get"]}]),
                "{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}",
            ),
            (
                json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
                "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}",
            ),
            (
                json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]),
                "{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"get\"]}",
            ),
            (
                json!([{"nonResourceURLs": ["/*"], "verbs": ["get"]}]),
                "{NonResourceURLs:[\"/*\"], Verbs:[\"get\"]}",
            ),
        ] {
            let checked = grants(json!([])).check("Role", None, &role(rules.clone()));
            let expected = match missing {
                "" => Ok(()),
                missing => Err(GrantRefusal::NotHeld(format!(
                    "user \"ada\" (groups=[\"team\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
                     currently held:\n{missing}"
                ))),
            };
            assert_eq!(checked, expected, "{rules}");
        }
        let all = role(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
        assert_eq!(grants(json!([])).check("Role", Some(&all), &all), Ok(()), "it is so already");
        let may = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"]}]);
        assert_eq!(grants(may).check("Role", None, &all), Ok(()));
    }

    #[test]
    fn nobody_binds_a_role_that_he_does_not_hold() {
        let binding = |kind: &str, name: &str| json!({"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": name}, "subjects": []});
        let none = grants(json!([]));
        assert_eq!(none.check("RoleBinding", None, &binding("Role", "readers")), Ok(()));
        assert!(none.check("RoleBinding", None, &binding("ClusterRole", "all")).is_err());
        let may = |name: &str| {
            json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"],
                "resourceNames": [name]}])
        };
        assert_eq!(grants(may("all")).check("RoleBinding", None, &binding("ClusterRole", "all")), Ok(()));
        assert!(grants(may("other")).check("RoleBinding", None, &binding("ClusterRole", "all")).is_err());
        let missing = |resource| Err(GrantRefusal::NoRole { resource, name: "later".to_owned() });
        assert_eq!(none.check("RoleBinding", None, &binding("Role", "later")), missing("roles"));
        assert_eq!(
            none.check("RoleBinding", None, &binding("ClusterRole", "later")),
            missing("clusterroles")
        );
        assert_eq!(grants(may("later")).check("RoleBinding", None, &binding("ClusterRole", "later")), Ok(()));
    }
}
