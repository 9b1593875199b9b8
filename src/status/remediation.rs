//! The note that a control plane leaves on itself and on a replacement while it remediates. Owns its
//! JSON form; must not decide when to remediate.
//! Source: KCP `remediation.go` (`RemediationData`), v1.14.0.

use serde_json::{Value, json};

use crate::time::{Timestamp, parse_rfc3339, rfc3339};

/// Value of `controlplane.cluster.x-k8s.io/remediation-in-progress` and `…/remediation-for`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemediationData {
    /// The Machine that was replaced.
    pub machine: String,
    pub timestamp: Timestamp,
    /// 0 for a first attempt.
    pub retry_count: i32,
}

impl RemediationData {
    /// `None` when the text is not such a note.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            machine: value.get("machine")?.as_str()?.to_owned(),
            timestamp: parse_rfc3339(value.get("timestamp")?.as_str()?)?,
            retry_count: i32::try_from(value.get("retryCount")?.as_i64()?).ok()?,
        })
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        json!({
            "machine": self.machine,
            "timestamp": rfc3339(self.timestamp),
            "retryCount": self.retry_count,
        })
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_survives_a_round_trip() {
        let note = RemediationData {
            machine: "m1".into(),
            timestamp: parse_rfc3339("2026-11-20T10:00:00Z").unwrap(),
            retry_count: 2,
        };
        assert_eq!(RemediationData::parse(&note.to_json()), Some(note));
        assert_eq!(RemediationData::parse("{}"), None);
        assert_eq!(RemediationData::parse("nonsense"), None);
    }
}
