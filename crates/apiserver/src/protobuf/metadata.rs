//! Field numbers of the metadata that every kind has.
//!
//! Source: `generated.proto` of apimachinery `pkg/apis/meta/v1`, v0.35.

use super::{Field, Fields, Kind};

const OWNER: Fields = &[
    Field(1, "kind", Kind::Text),
    Field(3, "name", Kind::Text),
    Field(4, "uid", Kind::Text),
    Field(5, "apiVersion", Kind::Text),
    Field(6, "controller", Kind::OptionalBool),
    Field(7, "blockOwnerDeletion", Kind::OptionalBool),
];

const MANAGED: Fields = &[
    Field(1, "manager", Kind::Text),
    Field(2, "operation", Kind::Text),
    Field(3, "apiVersion", Kind::Text),
    Field(4, "time", Kind::Time),
    Field(6, "fieldsType", Kind::Text),
    Field(7, "fieldsV1", Kind::Raw),
    Field(8, "subresource", Kind::Text),
];

const METADATA: Fields = &[
    Field(1, "name", Kind::Text),
    Field(2, "generateName", Kind::Text),
    Field(3, "namespace", Kind::Text),
    Field(5, "uid", Kind::Text),
    Field(6, "resourceVersion", Kind::Text),
    Field(7, "generation", Kind::Integer),
    Field(8, "creationTimestamp", Kind::Time),
    Field(9, "deletionTimestamp", Kind::Time),
    Field(10, "deletionGracePeriodSeconds", Kind::OptionalInteger),
    Field(11, "labels", Kind::TextMap),
    Field(12, "annotations", Kind::TextMap),
    Field(13, "ownerReferences", Kind::Messages(OWNER)),
    Field(14, "finalizers", Kind::Texts),
    Field(17, "managedFields", Kind::Messages(MANAGED)),
];

pub(super) const META: Field = Field(1, "metadata", Kind::Message(METADATA));
