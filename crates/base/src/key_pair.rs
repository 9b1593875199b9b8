//! Private keys: makes them from the system's entropy, and reads them in each form that programs of Kubernetes write.
//! Owns the PEM forms; must not know what a key is for.
//! Source: cluster-api `util/certs`, `util/secret/certificates.go`, v1.14.2; client-go `util/keyutil`.

use rcgen::KeyPair;
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// DER of `AlgorithmIdentifier`: rsaEncryption.
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// DER of the object identifier ecPublicKey.
const EC: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// DER of the object identifiers of curves: P-256, P-384.
const CURVES: [&[u8]; 2] = [
    &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
    &[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22],
];

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("no key could be made: {0}; check the system's source of randomness")]
    Generate(String),
    #[error(
        "this is not a private key (RSA PRIVATE KEY, EC PRIVATE KEY or PRIVATE KEY with RSA, P-256 or P-384): {0}"
    )]
    Read(String),
}

/// A key that was just made.
pub struct NewKey {
    pub pair: KeyPair,
    /// PKCS#1 for RSA, PKCS#8 for others.
    pub pem: String,
}

/// Does a key of this algorithm take a tenth of a second or more?
pub fn is_slow(algorithm: &str) -> bool {
    algorithm.starts_with("RSA-")
}

/// A key of `RSA-2048`, `RSA-3072`, `RSA-4096`, `ECDSA-P256` or `ECDSA-P384`; of P-256 when none is asked for.
///
/// # Errors
/// The system gives no entropy.
pub fn generate(algorithm: &str) -> Result<NewKey, KeyError> {
    let bits = algorithm.strip_prefix("RSA-").map(|bits| bits.parse().unwrap_or(2048));
    if let Some(bits) = bits {
        return generate_rsa(bits);
    }
    let algorithm = match algorithm {
        "ECDSA-P384" => &rcgen::PKCS_ECDSA_P384_SHA384,
        _ => &rcgen::PKCS_ECDSA_P256_SHA256,
    };
    let pair = KeyPair::generate_for(algorithm).map_err(|error| KeyError::Generate(error.to_string()))?;
    Ok(NewKey { pem: pair.serialize_pem(), pair })
}

fn generate_rsa(bits: usize) -> Result<NewKey, KeyError> {
    let failed = |error: &dyn std::fmt::Display| KeyError::Generate(error.to_string());
    let key = rsa::PrivateKey::new(&mut getrandom::SysRng, bits).map_err(|e| failed(&e))?;
    // Cluster API writes RSA keys as PKCS#1, and the signer reads PKCS#8 only.
    let pem = key.to_pkcs1_pem(LineEnding::LF).map_err(|e| failed(&e))?.to_string();
    let der = key.to_pkcs8_der().map_err(|e| failed(&e))?;
    Ok(NewKey { pair: signer(der.as_bytes().to_vec())?, pem })
}

/// A key to sign with.
///
/// # Errors
/// A text that holds no private key, or one of another kind.
pub fn read(pem: &str) -> Result<KeyPair, KeyError> {
    match PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeyError::Read(error.to_string()))? {
        PrivateKeyDer::Pkcs8(key) => signer(key.secret_pkcs8_der().to_vec()),
        PrivateKeyDer::Pkcs1(key) => signer(pkcs8(RSA, key.secret_pkcs1_der())),
        PrivateKeyDer::Sec1(key) => {
            let inner = key.secret_sec1_der();
            // The parameters are an optional part of the key, so the identifier is looked for as
            // bytes.
            let curve =
                CURVES.into_iter().find(|curve| inner.windows(curve.len()).any(|part| part == *curve));
            let curve = curve.ok_or_else(|| KeyError::Read("its curve is another".to_owned()))?;
            signer(pkcs8(&tagged(0x30, &[EC, curve].concat()), inner))
        }
        _ => Err(KeyError::Read("its form is another".to_owned())),
    }
}

fn signer(pkcs8: Vec<u8>) -> Result<KeyPair, KeyError> {
    KeyPair::try_from(&PrivatePkcs8KeyDer::from(pkcs8)).map_err(|error| KeyError::Read(error.to_string()))
}

/// The form that the crypto library reads.
fn pkcs8(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    tagged(0x30, &[&[0x02, 0x01, 0x00], algorithm, &tagged(0x04, key)].concat())
}

/// One DER value.
fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant =
        // DER writes the length of empty content in one byte, too.
        length.iter().position(|byte| *byte != 0).map_or(&length[7..], |first| &length[first..]);
    let mut der = vec![tag];
    if content.len() > 0x7f {
        der.push(0x80 | u8::try_from(significant.len()).unwrap_or(0));
    }
    der.extend_from_slice(significant);
    der.extend_from_slice(content);
    der
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// What openssl makes of `input`; `None`, with a word, where it is not installed.
    fn openssl(args: &[&str], input: &str) -> Option<String> {
        let started = Command::new("openssl")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            println!("skipped: no openssl");
            return None;
        };
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn rsa_is_rsa_of_the_size_asked_for() {
        for (algorithm, bits) in [("RSA-2048", "2048 bit"), ("RSA-3072", "3072 bit")] {
            let key = generate(algorithm).expect("a key");
            assert!(key.pem.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
            assert_eq!(read(&key.pem).expect("read").public_key_raw(), key.pair.public_key_raw());
            if let Some(said) = openssl(&["rsa", "-check", "-noout", "-text"], &key.pem) {
                assert!(said.contains("RSA key ok") && said.contains(bits), "{said}");
            }
        }
    }

    #[test]
    fn every_form_that_openssl_writes_is_read() {
        let forms: [&[&str]; 4] = [
            &["genrsa", "-traditional", "2048"],
            &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
            &["ecparam", "-name", "prime256v1", "-genkey", "-noout"],
            &["ecparam", "-name", "secp384r1", "-genkey", "-noout"],
        ];
        for args in forms {
            let Some(pem) = openssl(args, "") else { return };
            let public = openssl(&["pkey", "-pubout"], &pem).expect("openssl");
            assert_eq!(read(&pem).expect("read").public_key_pem().trim(), public.trim(), "{args:?}");
        }
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for text in ["", "x", "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"] {
            assert!(matches!(read(text), Err(KeyError::Read(_))), "{text}");
        }
        let other = "-----BEGIN EC PRIVATE KEY-----\nMAMCAQE=\n-----END EC PRIVATE KEY-----\n";
        assert!(read(other).is_err_and(|error| error.to_string().contains("curve")));
    }

    #[test]
    fn lengths_are_as_short_as_der_demands() {
        assert_eq!(tagged(4, &[])[..], [4, 0]);
        assert_eq!(tagged(4, &[7; 127])[..2], [4, 127]);
        assert_eq!(tagged(4, &[7; 128])[..3], [4, 0x81, 128]);
        assert_eq!(tagged(4, &[7; 300])[..4], [4, 0x82, 1, 44]);
    }
}
