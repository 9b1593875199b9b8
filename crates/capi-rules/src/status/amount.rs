//! A number, or a percentage of another number. Owns how it is read and rounded; must not know what is
//! counted.
//! Source: apimachinery `util/intstr/intstr.go` (`GetScaledValueFromIntOrPercent`), v0.35.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which whole number a share becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next whole number that is not smaller.
    Up,
    /// To the next whole number that is not larger.
    Down,
}

/// The number itself, or the share of `total`. `None` when the text is not a percentage.
pub fn scaled(value: &IntOrString, total: i32, round: Round) -> Option<i32> {
    let text = match value {
        IntOrString::Int(n) => return Some(*n),
        IntOrString::String(text) => text,
    };
    let percent: i32 = text.strip_suffix('%')?.parse().ok()?;
    // In 64 bits: a percentage is not bounded, and 32 bits would turn negative.
    let product = i64::from(percent) * i64::from(total);
    let whole = match round {
        Round::Up => product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0),
        Round::Down => product.div_euclid(100),
    };
    Some(i32::try_from(whole).unwrap_or(i32::MAX))
}

/// As the spec has it: `2`, `40%`.
pub fn literal(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(n) => n.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_rounded_either_way() {
        let of = |text: &str, total, round| {
            let value = text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int);
            assert_eq!(literal(&value), text);
            scaled(&value, total, round)
        };
        for (text, total, up, down) in [
            ("3", 10, Some(3), Some(3)),
            ("40%", 3, Some(2), Some(1)),
            ("100%", 3, Some(3), Some(3)),
            ("0%", 3, Some(0), Some(0)),
            ("half", 3, None, None),
            ("x%", 3, None, None),
            ("2147483647%", i32::MAX, Some(i32::MAX), Some(i32::MAX)),
        ] {
            assert_eq!((of(text, total, Round::Up), of(text, total, Round::Down)), (up, down), "{text}");
        }
    }
}
