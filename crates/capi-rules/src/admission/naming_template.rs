//! Templates of object names: can they be rendered, and are the results names? Must not know a kind.
//!
//! Source: cluster-api `internal/topology/names/names.go` v1.14.2; Go `text/template`. Variables are
//! all that is rendered; functions and control structures are refused (`docs/differences.md`).

use serde_json::Value;

use super::finding::Findings;
use capi_types::name_template::{self, Fault, variable};
use k8s_machinery::validation::naming;

/// Stands for five random letters and digits.
const RANDOM: &str = "abcde";
/// What Go's engine calls the template in its complaints.
const TITLE: &str = "template name generator";

/// A template of Machine names: `owner` is the variable that names the owner, next to `.cluster.name`.
pub(super) fn check_machine_naming(template: &Value, field: &str, owner: &str, out: &mut Findings) {
    let Some(text) = template.as_str().filter(|text| !text.is_empty()) else { return };
    // By this spelling alone, as upstream: `{{.random}}` counts as missing.
    if !text.contains("{{ .random }}") {
        out.invalid(field, template, "invalid template, {{ .random }} is missing");
    }
    match render(text, &[(".cluster.name", "cluster"), (owner, "owner")]) {
        Err(why) => out.invalid(field, template, &format!("invalid template: {why}")),
        Ok(name) => {
            for complaint in naming::dns_subdomain(&name) {
                let detail = format!(
                    "invalid template, generated names would not be valid Kubernetes object names: {complaint}"
                );
                out.invalid(field, template, &detail);
            }
        }
    }
}

/// A template of a topology object's name. `what` begins the complaint.
pub(super) fn check_topology_naming(
    template: &Value,
    field: &str,
    what: &str,
    variable: Option<&str>,
    out: &mut Findings,
) {
    let Some(text) = template.as_str().filter(|text| !text.is_empty()) else { return };
    let mut variables = vec![(".cluster.name", "cluster")];
    variables.extend(variable.map(|name| (name, "topology")));
    match render(text, &variables) {
        Err(why) => out.invalid(field, template, &format!("invalid {what} name template: {why}")),
        Ok(name) => {
            naming::dns_subdomain(&name).iter().for_each(|complaint| out.invalid(field, template, complaint));
        }
    }
}

/// # Errors
/// Why the template cannot be rendered.
fn render(template: &str, variables: &[(&str, &str)]) -> Result<String, String> {
    match name_template::render(template, variables, RANDOM) {
        Ok(rendered) => Ok(rendered.name),
        Err(Fault::Unclosed) => {
            Err(format!("parsing template {template:?}: template: {TITLE}:1: unclosed action"))
        }
        Err(Fault::NotKnown { action, start }) => Err(complaint(action, start, variables)),
    }
}

/// Go's message about the text between the braces; `start` is the byte behind the opening ones.
fn complaint(action: &str, start: usize, variables: &[(&str, &str)]) -> String {
    let path = variable(action);
    let steps: Vec<&str> = path.split('.').skip(1).collect();
    let is_word = |step: &&str| !step.is_empty() && step.chars().all(|c| c.is_alphanumeric() || c == '_');
    if !path.starts_with('.') || !steps.iter().all(is_word) {
        return format!("only plain variables are known here, not {{{{{action}}}}}");
    }
    // Go points at the second field of a chain, and names the first one that is missing.
    let at = start
        + action.find(path).unwrap_or(0)
        + steps.first().filter(|_| steps.len() > 1).map_or(0, |s| s.len() + 1);
    let first = format!(".{}.", steps.first().copied().unwrap_or_default());
    let known = variables.iter().any(|(known, _)| known.starts_with(&first));
    let missing = steps.get(usize::from(known)).or(steps.first()).copied().unwrap_or_default();
    format!(
        "rendering template: template: {TITLE}:1:{at}: executing \"{TITLE}\" at <{path}>: map has no entry for \
         key \"{missing}\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_render_or_say_why_not() {
        let variables = [(".cluster.name", "prod"), (".machineSet.name", "md-0-x")];
        let long = "a".repeat(70);
        for (template, expected) in [
            ("{{ .machineSet.name }}-{{ .random }}", Ok("md-0-x-abcde".to_owned())),
            ("{{- .cluster.name -}}-{{.random}}", Ok("prod-abcde".to_owned())),
            (long.as_str(), Ok("a".repeat(58) + "abcde")),
            (
                "{{ .random",
                Err("parsing template \"{{ .random\": template: template name generator:1: unclosed action"),
            ),
            (
                "{{ .pool.name }}",
                Err("rendering template: template: template name generator:1:8: executing \"template name \
                     generator\" at <.pool.name>: map has no entry for key \"pool\""),
            ),
            (
                "{{ .cluster.size }}",
                Err("rendering template: template: template name generator:1:11: executing \"template name \
                     generator\" at <.cluster.size>: map has no entry for key \"size\""),
            ),
            ("{{ len .random }}", Err("only plain variables are known here, not {{ len .random }}")),
        ] {
            assert_eq!(render(template, &variables), expected.map_err(str::to_owned), "{template}");
        }
    }
}
