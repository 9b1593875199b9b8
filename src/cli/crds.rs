//! `capstan crds`: the definitions of the kinds, as YAML that `kubectl apply` takes.

use serde_json::Value;

use capi_types::crds;

/// All definitions as one YAML stream. Fails only if the YAML writer does.
pub fn render() -> anyhow::Result<String> {
    let mut stream = String::new();
    for crd in crds::all() {
        let mut document = serde_json::to_value(crd)?;
        whole_numbers(&mut document);
        let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
        stream.push_str("---\n");
        stream.push_str(&serde_saphyr::to_string_with_options(&document, options)?);
    }
    Ok(stream)
}

/// The definition types keep limits as floats; people expect `1`, not `1.0`.
fn whole_numbers(value: &mut Value) {
    // 2^53: above it not every integer has a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            if let Some(float) =
                number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0 && f.abs() < EXACT)
            {
                let whole = float as i64;
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    #[test]
    fn the_stream_reads_back_as_the_definitions() {
        let text = render().unwrap();
        let read: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, crds::all());
        assert!(!text.contains("minimum: 0.0"));
    }
}
