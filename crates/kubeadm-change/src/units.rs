//! Quantities and booleans as text, and when two of them mean the same. Must not know any field.

/// A Kubernetes quantity in thousandths: `200Mi`, `1.5`, `100m`, `1e3`.
pub fn quantity_milli(text: &str) -> Option<f64> {
    const BINARY: [(&str, i32); 6] = [("Ki", 1), ("Mi", 2), ("Gi", 3), ("Ti", 4), ("Pi", 5), ("Ei", 6)];
    const DECIMAL: [(&str, i32); 9] =
        [("n", -9), ("u", -6), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
    // Rust reads `inf` and `nan` too, which are no quantities.
    let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite());
    if let Some((body, power)) =
        BINARY.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?, *power)))
    {
        return Some(number(body)? * 1024_f64.powi(power) * 1000.0);
    }
    // `E` is an exponent and a unit: a whole number is tried before the units.
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
    fn quantities_as_kubernetes_reads_them() {
        assert_eq!(quantity_milli("1"), quantity_milli("1000m"));
        assert_eq!(quantity_milli("1Gi"), quantity_milli("1024Mi"));
        assert_eq!(quantity_milli("1e3"), quantity_milli("1k"));
        for wrong in ["", "Mi", "x", "1 Gi", "10%"] {
            assert_eq!(quantity_milli(wrong), None, "{wrong}");
        }
    }
}
