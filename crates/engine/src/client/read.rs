//! Single reads and short lists of any kind as JSON, past every cache. Owns the requests; must not
//! know what the objects mean.

use kube::core::Request;
use kube::core::params::{GetParams, ListParams};
use serde_json::Value;

use super::write::{collection_path, value_path};
use capi_types::key::{Gvk, ObjectRef};

/// Objects asked for at once.
const PAGE: u32 = 500;
/// What kubectl accepts when it prints a table.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// The object as the server has it. `None` when it does not exist.
///
/// # Errors
/// Every error of the server or the connection, except 404.
pub async fn get_value(client: &kube::Client, target: &ObjectRef) -> Result<Option<Value>, kube::Error> {
    let request = Request::new(value_path(target))
        .get(&target.key.name, &GetParams::default())
        .map_err(kube::Error::BuildRequest)?;
    match client.request(request).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// What the server publishes of the fields of a kind, as its OpenAPI schema. `None` where it publishes nothing of the kind.
///
/// # Errors
/// Every error of the server or the connection.
pub async fn schema_of(client: &kube::Client, gvk: &Gvk) -> Result<Option<Value>, kube::Error> {
    let path = format!("/openapi/v3/apis/{}", gvk.api_version());
    let request = http::Request::get(path).body(Vec::new());
    let request = request.map_err(kube::Error::HttpError)?;
    let document: Value = client.request(request).await?;
    let is_it = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|all| all.iter().any(|one| one["group"] == gvk.group && one["kind"] == gvk.kind))
    };
    let schemas = document["components"]["schemas"].as_object();
    Ok(schemas.and_then(|all| all.values().find(is_it)).cloned())
}

/// Every object of a kind in `namespace` (all when empty) that `selector` chooses (all when empty),
/// read in pages.
///
/// # Errors
/// Every error of the server or the connection.
pub async fn list_values(
    client: &kube::Client,
    gvk: &Gvk,
    namespace: &str,
    selector: &str,
) -> Result<Vec<Value>, kube::Error> {
    let mut found = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    loop {
        let request =
            Request::new(collection_path(gvk, namespace)).list(&params).map_err(kube::Error::BuildRequest)?;
        let mut page: Value = client.request(request).await?;
        if let Some(items) = page.get_mut("items").and_then(Value::as_array_mut) {
            found.append(items);
        }
        match page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token.to_owned()),
            None => return Ok(found),
        }
    }
}

/// The first objects of a kind in `namespace` (all when empty) that `selector` chooses, as the table of the server's print columns, `most` of them at
/// most. Where there are more, the table's metadata has a token, and the number of those that are left where the server counts.
///
/// # Errors
/// Every error of the server or the connection.
pub async fn read_first_rows(
    client: &kube::Client,
    gvk: &Gvk,
    namespace: &str,
    selector: &str,
    most: u32,
    are_whole: bool,
) -> Result<Value, kube::Error> {
    let mut params = ListParams::default().limit(most);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    let request = Request::new(collection_path(gvk, namespace)).list(&params);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    if are_whole {
        // A table has the metadata of its objects otherwise.
        let uri = format!("{}&includeObject=Object", request.uri()).parse().map_err(http::Error::from);
        *request.uri_mut() = uri.map_err(kube::Error::HttpError)?;
    }
    request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(TABLE));
    client.request(request).await
}

/// One object (`name`) or all that `selector` chooses in `namespace` (all when empty), as the table of
/// the server's print columns; one page after the other, rows together.
///
/// # Errors
/// Every error of the server or the connection, 404 included.
pub async fn read_table(
    client: &kube::Client,
    gvk: &Gvk,
    namespace: &str,
    name: Option<&str>,
    selector: &str,
) -> Result<Value, kube::Error> {
    let path = collection_path(gvk, namespace);
    let mut params = ListParams::default().limit(PAGE);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    let mut whole: Option<Value> = None;
    loop {
        let request = match name {
            Some(name) => Request::new(path.clone()).get(name, &GetParams::default()),
            None => Request::new(path.clone()).list(&params),
        };
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        // With JSON as a second choice, for servers without tables.
        request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(TABLE));
        let mut page: Value = client.request(request).await?;
        let token = page["metadata"]["continue"].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
        match whole.as_mut().and_then(|w| w["rows"].as_array_mut()) {
            // The columns are the same on every page.
            Some(rows) => rows.append(page["rows"].as_array_mut().unwrap_or(&mut Vec::new())),
            None => whole = Some(page),
        }
        match token {
            Some(token) if name.is_none() => params.continue_token = Some(token),
            _ => return Ok(whole.unwrap_or_default()),
        }
    }
}
