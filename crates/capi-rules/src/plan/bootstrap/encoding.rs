//! How documents and keys are written for kubeadm. Must not know what is in them.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::status::bootstrap::Failure;

pub(super) fn yaml(documents: &[Value]) -> Result<String, Failure> {
    let text = |document: &Value| {
        // Long lines are not folded: a certificate or an argument must come out as it went in.
        let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
        serde_saphyr::to_string_with_options(document, options)
    };
    let texts: Result<Vec<String>, _> = documents.iter().map(text).collect();
    texts.map(|texts| texts.join("---\n")).map_err(|error| {
        Failure::Other(format!("the kubeadm configuration cannot be written as YAML: {error}"))
    })
}

/// What kubeadm pins of an authority: SHA-256 of its public key. `None` for what is not a certificate.
pub(super) fn public_key_hash(pem: &str) -> Option<String> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let digest = Sha256::digest(certificate.public_key().raw);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("sha256:{hex}"))
}
