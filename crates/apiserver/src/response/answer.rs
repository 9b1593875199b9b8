//! Objects and lists as response bodies, in the form that was asked for. Text is assembled from
//! stored text; nothing is parsed unless the version or the form needs it. Must not know requests.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::object::{self, Record};
use crate::registry::list::{Listing, list_metadata};
use crate::registry::{present, shows_as_stored};
use crate::request::negotiate::Form;
use crate::resource::Resource;
use crate::table::{self, Budget, Include};
use capstan_base::time::Timestamp;

/// Appends the whole object as the resource's version shows it.
fn write_whole(out: &mut Vec<u8>, resource: &Resource, record: &Record, bare: bool) -> Result<(), Failure> {
    if shows_as_stored(resource, record) {
        record.write_json(out, bare);
        return Ok(());
    }
    let mut object = present(resource, record)?;
    // Managed fields are kept beside the object, so its value comes without them.
    if let Some(managed) = record.managed_fields()? {
        object::set(&mut object, "managedFields", managed);
    }
    if let (true, Some(fields)) = (bare, object.as_object_mut()) {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    serde_json::to_writer(out, &object).map_err(Failure::internal)
}

/// Appends one object whole, or its metadata. Tables are [`table_of_one`].
///
/// # Errors
/// 500 when the stored object cannot be read.
pub fn write_object(
    out: &mut Vec<u8>,
    resource: &Resource,
    record: &Record,
    form: Form,
) -> Result<(), Failure> {
    match form {
        Form::Metadata => table::partial_metadata(&whole(resource, record)?, out),
        Form::Object | Form::Table(_) => write_whole(out, resource, record, false),
    }
}

fn whole(resource: &Resource, record: &Record) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::with_capacity(record.bytes_max());
    write_whole(&mut text, resource, record, false)?;
    Ok(text)
}

/// One object in the form that was asked for.
///
/// # Errors
/// 500 when the stored object cannot be read.
pub fn one(resource: &Resource, record: &Record, form: Form, now: Timestamp) -> Result<Bytes, Failure> {
    if let Form::Table(include) = form {
        return table_of_one(resource, record, include, true, now);
    }
    let mut out = Vec::with_capacity(record.bytes_max());
    write_object(&mut out, resource, record, form)?;
    Ok(out.into())
}

/// A table with the row of one object; a watch names the columns only once.
///
/// # Errors
/// 500 when the stored object cannot be read.
pub fn table_of_one(
    resource: &Resource,
    record: &Record,
    include: Include,
    with_columns: bool,
    now: Timestamp,
) -> Result<Bytes, Failure> {
    let mut row = Vec::new();
    resource.columns.row(&whole(resource, record)?, include, now, &mut Budget::default(), &mut row)?;
    let metadata = json!({ "resourceVersion": record.revision.to_string() }).to_string();
    Ok(table::document(with_columns.then_some(&resource.columns), &metadata, &row).into())
}

/// The answer to a write: the object as the resource's version shows it.
///
/// # Errors
/// 500 when the object is not one.
pub fn written(
    resource: &Resource,
    object: &Value,
    managed: &[u8],
    form: Form,
    now: Timestamp,
) -> Result<Bytes, Failure> {
    // The way over the stored form gives the text that a read gives later, managed fields included.
    let revision = object::text(object, "resourceVersion").parse().unwrap_or(0);
    let record = object::encode(object, managed, 0).map(|bytes| Record::decode(&bytes, revision))?;
    let mut text = Vec::new();
    record.ok_or_else(|| Failure::internal("a written object cannot be read"))?.write_json(&mut text, false);
    text_in_form(resource, text, form, now)
}

/// An object that is a value already: the answer to a write.
///
/// # Errors
/// 500 when the object is not one.
pub fn value(resource: &Resource, object: &Value, form: Form, now: Timestamp) -> Result<Bytes, Failure> {
    let text = serde_json::to_vec(object).map_err(Failure::internal)?;
    // A Status is never shown as anything else.
    if object["kind"] == "Status" { Ok(text.into()) } else { text_in_form(resource, text, form, now) }
}

fn text_in_form(resource: &Resource, text: Vec<u8>, form: Form, now: Timestamp) -> Result<Bytes, Failure> {
    match form {
        Form::Object => Ok(text.into()),
        Form::Metadata => {
            let mut out = Vec::new();
            table::partial_metadata(&text, &mut out)?;
            Ok(out.into())
        }
        Form::Table(include) => {
            let mut row = Vec::new();
            resource.columns.row(&text, include, now, &mut Budget::default(), &mut row)?;
            Ok(table::document(Some(&resource.columns), "{}", &row).into())
        }
    }
}

/// A list in the form that was asked for.
///
/// # Errors
/// 500 when a stored object cannot be read.
pub fn list(resource: &Resource, listing: &Listing, form: Form, now: Timestamp) -> Result<Bytes, Failure> {
    let metadata = list_metadata(listing).to_string();
    let (kind, api_version) = match form {
        Form::Object => (resource.list_kind.as_str(), resource.api_version()),
        _ => ("PartialObjectMetadataList", "meta.k8s.io/v1".to_owned()),
    };
    let head = match form {
        Form::Table(_) => table::head(Some(&resource.columns), &metadata),
        _ => format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":["
        ),
    };
    let mut items = head.into_bytes();
    let mut budget = Budget::default();
    for (index, entry) in listing.entries.iter().enumerate() {
        if index > 0 {
            items.push(b',');
        }
        let record = &Record::read(entry)?;
        match form {
            // Upstream encodes the items of built-in lists without their type.
            Form::Object => write_whole(&mut items, resource, record, !resource.is_custom())?,
            Form::Metadata => write_object(&mut items, resource, record, form)?,
            Form::Table(include) => {
                let object = whole(resource, record)?;
                resource.columns.row(&object, include, now, &mut budget, &mut items)?;
            }
        }
    }
    items.extend_from_slice(table::END);
    Ok(items.into())
}

/// The object of a bookmark: nothing but a revision, and the mark that initial events have ended.
pub fn bookmark(resource: &Resource, form: Form, revision: u64, ends_initial: bool) -> Value {
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if ends_initial {
        metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
    }
    let partial = |metadata| json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata });
    match form {
        Form::Object => {
            json!({ "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata })
        }
        Form::Metadata => partial(metadata),
        Form::Table(_) => json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1",
            "metadata": { "resourceVersion": revision.to_string() },
            "columnDefinitions": null,
            "rows": [{ "cells": [], "object": partial(metadata) }],
        }),
    }
}
