//! What keeps an object until its simulated host is gone. Must not know which kinds there are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// `name` is among the finalizers, and `former`, which earlier versions wrote, is not.
pub fn hold(metadata: &mut ObjectMeta, name: &str, former: &str) {
    let finalizers = metadata.finalizers.get_or_insert_default();
    finalizers.retain(|held| held != former);
    if !finalizers.iter().any(|held| held == name) {
        finalizers.push(name.to_owned());
    }
}

/// None of `names` is among the finalizers.
pub fn release(metadata: &mut ObjectMeta, names: [&str; 2]) {
    metadata.finalizers.get_or_insert_default().retain(|held| !names.contains(&held.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_had_names_that_upstreams_provider_never_removes() {
        let mut metadata =
            ObjectMeta { finalizers: Some(vec!["other".into(), "old".into()]), ..ObjectMeta::default() };
        hold(&mut metadata, "new", "old");
        assert_eq!(metadata.finalizers.as_deref(), Some(&["other".to_owned(), "new".to_owned()][..]));
        release(&mut metadata, ["new", "old"]);
        assert_eq!(metadata.finalizers.as_deref(), Some(&["other".to_owned()][..]));
    }
}
