//! What registers an extension: its ExtensionConfig. Must not know who applies it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use capi_types::names::{RUNTIME_GROUP, VERSION};

/// The ExtensionConfig of an extension at this URL, trusted by this certificate (PEM).
pub fn extension_config(name: &str, url: &str, ca_pem: &str) -> Value {
    json!({
        "apiVersion": format!("{RUNTIME_GROUP}/{VERSION}"),
        "kind": "ExtensionConfig",
        "metadata": { "name": name },
        "spec": { "clientConfig": { "url": url, "caBundle": STANDARD.encode(ca_pem) } },
    })
}
