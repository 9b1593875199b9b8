//! Why bootstrap data is not carried out. Owns the sentences; must not show what the data holds, which are keys and tokens.

use capstan_base::text::sanitize_line;

const SHOWN_CHARS_MAX: usize = 60;

/// Bootstrap data that is refused as a whole, before anything was sent to a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataRefusal {
    #[error(
        "the bootstrap data begins with neither `## template: jinja` nor `#cloud-config`; capstan reads no other kind ({0})"
    )]
    Header(&'static str),
    #[error("the bootstrap data has {bytes} bytes; capstan takes at most {max}")]
    TooLarge { bytes: usize, max: usize },
    #[error("line {line} of the bootstrap data: {what}; capstan fills in variables and `default` only")]
    Template { line: usize, what: String },
    #[error("line {line}, column {column} of the bootstrap data is not YAML")]
    Yaml { line: usize, column: usize },
    #[error("{key}: capstan does not carry this out ({why})")]
    Unsupported { key: String, why: &'static str },
    #[error("{key}: expected {expected}")]
    Value { key: String, expected: &'static str },
}

impl DataRefusal {
    pub(super) fn unknown(key: String) -> Self {
        Self::Unsupported { key: shown(&key), why: "it is not a key of the supported part of cloud-init" }
    }

    pub(super) fn unsupported(key: impl Into<String>, why: &'static str) -> Self {
        Self::Unsupported { key: shown(&key.into()), why }
    }

    pub(super) fn value(key: impl Into<String>, expected: &'static str) -> Self {
        Self::Value { key: shown(&key.into()), expected }
    }
}

/// Names out of the data, which may be anything.
pub(super) fn shown(text: &str) -> String {
    sanitize_line(text).chars().take(SHOWN_CHARS_MAX).collect()
}
