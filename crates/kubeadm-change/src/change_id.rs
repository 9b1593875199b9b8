//! The id of a plan, and of the change that it becomes. Owns its form, so that it can stand in paths and names of files;
//! must not know what it is made from.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many hexadecimal digits an id has.
const DIGITS: usize = 12;

/// Twelve hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ChangeId(String);

/// A text that is not the id of a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id is {0:?}, expected {DIGITS} hexadecimal digits: capstan did not write it")]
pub struct ChangeIdError(String);

impl ChangeId {
    /// The beginning of a hash.
    pub fn of_hash(hash: &[u8]) -> Self {
        Self(hash.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect())
    }

    /// The twelve digits, in lower case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ChangeId {
    type Error = ChangeIdError;

    fn try_from(text: String) -> Result<Self, ChangeIdError> {
        // Ids are compared as texts: capitals would make a second id of the same digits.
        let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if text.len() == DIGITS && text.chars().all(is_digit) {
            Ok(Self(text))
        } else {
            Err(ChangeIdError(text))
        }
    }
}

impl From<ChangeId> for String {
    fn from(id: ChangeId) -> Self {
        id.0
    }
}

impl fmt::Display for ChangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_twelve_digits_are_an_id() {
        assert_eq!(ChangeId::of_hash(&[0; 32]).as_str(), "000000000000");
        assert!(ChangeId::try_from("0a1b2c3d4e5f".to_owned()).is_ok());
        for wrong in
            ["", "0a1b2c3d4e5", "0a1b2c3d4e5f0", "0A1B2C3D4E5F", "../../../etc", "x; touch a;", "０a1b2c3d4"]
        {
            let error = ChangeId::try_from(wrong.to_owned()).expect_err(wrong).to_string();
            assert!(error.ends_with("expected 12 hexadecimal digits: capstan did not write it"), "{error}");
        }
    }
}
