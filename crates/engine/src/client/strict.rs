//! The option by which a server refuses fields that it does not know, for requests whose parameters have no place for it in
//! the client library. Must not know what is written.

/// The same request with `fieldValidation=Strict`.
pub fn strictly(mut request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
    let uri = request.uri().to_string();
    let joint = if uri.contains('?') { '&' } else { '?' };
    if let Ok(uri) = format!("{uri}{joint}fieldValidation=Strict").parse() {
        *request.uri_mut() = uri;
    }
    request
}
