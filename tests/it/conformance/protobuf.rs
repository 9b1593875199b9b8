//! Request bodies as Go's protobuf encoder writes them: every plain field, zero or not.

/// A field that holds a number.
pub fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

/// A field that holds text, bytes or a message.
pub fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(content.as_ref().len() as u64, &mut out);
    out.extend_from_slice(content.as_ref());
    out
}

/// An entry of a map from text to text or bytes.
pub fn entry(field: u64, key: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    bytes(field, [bytes(1, key), bytes(2, value)].concat())
}

/// `metadata` of an object, with the zero values that Go writes.
pub fn metadata(name: &str, version: &str) -> Vec<u8> {
    let parts = [
        bytes(1, name),
        bytes(2, ""),
        bytes(3, ""),
        bytes(4, ""),
        bytes(5, ""),
        bytes(6, version),
        number(7, 0),
        bytes(8, ""),
    ];
    bytes(1, parts.concat())
}

/// A whole body.
pub fn body(api_version: &str, kind: &str, fields: &[Vec<u8>]) -> Vec<u8> {
    let type_ = [bytes(1, api_version), bytes(2, kind)].concat();
    let parts = [bytes(1, type_), bytes(2, fields.concat()), bytes(3, ""), bytes(4, "")];
    [b"k8s\0".to_vec(), parts.concat()].concat()
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
