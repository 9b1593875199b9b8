//! Durations, quantities and booleans as text, and when two of them mean the same. Must not know any field.

/// Go's duration text in nanoseconds: `1h30m`, `-1.5s`, `0`.
pub fn duration_ns(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let value: f64 = rest[..end].parse().ok()?;
        let unit_end =
            rest[end..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |n| n + end);
        total += value * unit_ns(&rest[end..unit_end])?;
        rest = &rest[unit_end..];
    }
    #[allow(clippy::cast_possible_truncation)] // far below 2^100
    Some(sign * total.round() as i128)
}

fn unit_ns(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    })
}

/// A Kubernetes quantity in thousandths: `200Mi`, `1.5`, `100m`, `1e3`.
pub fn quantity_milli(text: &str) -> Option<f64> {
    const BINARY: [(&str, i32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
    const DECIMAL: [(&str, i32); 9] =
        [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
    if let Some((body, power)) =
        BINARY.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))
    {
        return Some(number(body)? * 1024_f64.powi(power) * 1000.0);
    }
    if let Some(plain) = number(text) {
        return Some(plain * 1000.0);
    }
    let (body, power) = DECIMAL.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))?;
    Some(number(body)? * 10_f64.powi(power) * 1000.0)
}

/// A boolean as Go's flags take it. Source: `strconv.ParseBool`.
pub fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_as_go_reads_them() {
        for (text, expected) in
            [("T", Some(true)), ("1", Some(true)), ("False", Some(false)), ("0", Some(false))]
        {
            assert_eq!(go_bool(text), expected, "{text}");
        }
        for wrong in ["", "yes", "on", "fAlse", " false", "00"] {
            assert_eq!(go_bool(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_as_go_reads_them() {
        assert_eq!(duration_ns("4m0s"), Some(240_000_000_000));
        assert_eq!(duration_ns("240s"), duration_ns("4m"));
        assert_eq!(duration_ns("1.5h"), duration_ns("1h30m"));
        assert_eq!(duration_ns("0"), duration_ns("0s"));
        assert_eq!(duration_ns("-1s"), Some(-1_000_000_000));
        for wrong in ["", "4", "m", "4x", "1h-", "-"] {
            assert_eq!(duration_ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quantities_as_kubernetes_reads_them() {
        assert_eq!(quantity_milli("1"), quantity_milli("1000m"));
        assert_eq!(quantity_milli("1Gi"), quantity_milli("1024Mi"));
        assert_eq!(quantity_milli("1e3"), quantity_milli("1k"));
        for wrong in ["", "Mi", "x", "1 Gi", "10%"] {
            assert_eq!(quantity_milli(wrong), None, "{wrong}");
        }
    }
}
