//! Names of generated Machines and MachineSets. Owns what is wrong with a naming template, in an
//! operator's words; randomness is passed in.
//! Source: cluster-api `internal/topology/names/names.go`, v1.14.2.

use capi_types::name_template::{Fault, NAME_BYTES_MAX, render, variable};

/// A naming template that cannot be used.
#[allow(missing_docs, reason = "each says itself in a sentence")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamingError {
    #[error("machine naming template {template:?} has no {{{{ .random }}}}, so names would not be unique")]
    NotRandom { template: String },
    #[error(
        "machine naming template {template:?} uses {{{{ {variable} }}}}, which is not known here; known are {known}"
    )]
    UnknownVariable { template: String, variable: String, known: String },
    #[error("machine naming template {template:?} has an opening {{{{ without its }}}}")]
    Unclosed { template: String },
}

/// Renders `template` with `variables` (names with their leading dot) and `suffix` for `.random`.
/// A result over 63 characters is cut to 58 and ends in the suffix again.
///
/// # Errors
/// [`NamingError`]; admission refuses such templates, so one here was stored by other means.
pub fn machine_name(template: &str, variables: &[(&str, &str)], suffix: &str) -> Result<String, NamingError> {
    let own = || template.to_owned();
    let rendered = render(template, variables, suffix).map_err(|fault| match fault {
        Fault::Unclosed => NamingError::Unclosed { template: own() },
        Fault::NotKnown { action, .. } => NamingError::UnknownVariable {
            template: own(),
            variable: variable(action).to_owned(),
            known: variables.iter().map(|(v, _)| *v).chain([".random"]).collect::<Vec<_>>().join(", "),
        },
    })?;
    if rendered.is_random { Ok(rendered.name) } else { Err(NamingError::NotRandom { template: own() }) }
}

/// `base-suffix`, with the base cut so that the whole stays within 63 characters.
pub fn with_suffix(base: &str, suffix: &str) -> String {
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len());
    // The suffix is never cut: it alone keeps names apart.
    let base: String = format!("{base}-").chars().take(room).collect();
    base + suffix
}

/// A label value: `name` itself, or a hash when it is longer than a label may be.
/// Source: `util/labels/format/helpers.go` (`MustFormatValue`).
pub fn label_value(name: &str) -> String {
    use base64::Engine as _;
    if name.len() <= NAME_BYTES_MAX {
        return name.to_owned();
    }
    // FNV-1a, 32 bits.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    // A label value begins and ends with a letter or digit, which base64 alone does not promise.
    format!("hash_{}_z", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLES: &[(&str, &str)] = &[(".cluster.name", "prod"), (".machineSet.name", "prod-md-0-x")];

    #[test]
    fn templates_render_as_upstream_does() {
        for (template, expected) in [
            ("{{ .machineSet.name }}-{{ .random }}", "prod-md-0-x-abcde"),
            ("{{.cluster.name}}-w-{{.random}}", "prod-w-abcde"),
        ] {
            assert_eq!(machine_name(template, VARIABLES, "abcde").as_deref(), Ok(expected));
        }
        let long = "a".repeat(70) + "{{ .random }}";
        assert_eq!(machine_name(&long, &[], "abcde"), Ok("a".repeat(58) + "abcde"));
    }

    #[test]
    fn bad_templates_say_what_is_wrong() {
        assert!(matches!(machine_name("fixed", VARIABLES, "abcde"), Err(NamingError::NotRandom { .. })));
        assert!(matches!(machine_name("{{ .random", VARIABLES, "abcde"), Err(NamingError::Unclosed { .. })));
        let error = machine_name("{{ .pool.name }}{{ .random }}", VARIABLES, "abcde").expect_err("unknown");
        assert!(error.to_string().contains(".machineSet.name"), "{error}");
    }

    #[test]
    fn long_label_values_are_hashed() {
        assert_eq!(label_value("short"), "short");
        let hashed = label_value(&"x".repeat(64));
        assert!(hashed.starts_with("hash_") && hashed.ends_with("_z") && hashed.len() <= 63, "{hashed}");
    }
}
