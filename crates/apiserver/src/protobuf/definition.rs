//! Field numbers of CustomResourceDefinitions, whose schemas contain schemas.
//!
//! Source: `generated.proto` of k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/v1`, v0.35.

use super::metadata::META;
use super::{Field, Fields, Kind};

pub(super) const DEFINITION: Fields =
    &[META, Field(2, "spec", Kind::Message(SPEC)), Field(3, "status", Kind::Message(STATUS))];

const NAMES: Fields = &[
    Field(1, "plural", Kind::Text),
    Field(2, "singular", Kind::Text),
    Field(3, "shortNames", Kind::Texts),
    Field(4, "kind", Kind::Text),
    Field(5, "listKind", Kind::Text),
    Field(6, "categories", Kind::Texts),
];

const SERVICE: Fields = &[
    Field(1, "namespace", Kind::Text),
    Field(2, "name", Kind::Text),
    Field(3, "path", Kind::OptionalText),
    Field(4, "port", Kind::OptionalInteger),
];

const CLIENT: Fields = &[
    Field(1, "service", Kind::Message(SERVICE)),
    Field(2, "caBundle", Kind::Bytes),
    Field(3, "url", Kind::OptionalText),
];

const CONVERSION: Fields = &[
    Field(1, "strategy", Kind::Text),
    Field(
        2,
        "webhook",
        Kind::Message(&[
            Field(2, "clientConfig", Kind::Message(CLIENT)),
            Field(3, "conversionReviewVersions", Kind::Texts),
        ]),
    ),
];

const SPEC: Fields = &[
    Field(1, "group", Kind::Text),
    Field(3, "names", Kind::Message(NAMES)),
    Field(4, "scope", Kind::Text),
    Field(7, "versions", Kind::Messages(VERSION)),
    Field(9, "conversion", Kind::Message(CONVERSION)),
    Field(10, "preserveUnknownFields", Kind::Bool),
];

const STATUS: Fields = &[
    Field(1, "conditions", Kind::Messages(CONDITION)),
    Field(2, "acceptedNames", Kind::Message(NAMES)),
    Field(3, "storedVersions", Kind::Texts),
    Field(4, "observedGeneration", Kind::Integer),
];

const CONDITION: Fields = &[
    Field(1, "type", Kind::Text),
    Field(2, "status", Kind::Text),
    Field(3, "lastTransitionTime", Kind::Time),
    Field(4, "reason", Kind::Text),
    Field(5, "message", Kind::Text),
    Field(6, "observedGeneration", Kind::Integer),
];

const VERSION: Fields = &[
    Field(1, "name", Kind::Text),
    // These two are written in JSON even when false.
    Field(2, "served", Kind::OptionalBool),
    Field(3, "storage", Kind::OptionalBool),
    Field(4, "schema", Kind::Message(&[Field(1, "openAPIV3Schema", Kind::Present(&SCHEMA))])),
    Field(5, "subresources", Kind::Message(SUBRESOURCES)),
    Field(6, "additionalPrinterColumns", Kind::Messages(COLUMN)),
    Field(7, "deprecated", Kind::Bool),
    Field(8, "deprecationWarning", Kind::OptionalText),
    Field(9, "selectableFields", Kind::Messages(&[Field(1, "jsonPath", Kind::Text)])),
];

const SUBRESOURCES: Fields = &[
    Field(1, "status", Kind::Present(&[])),
    Field(
        2,
        "scale",
        Kind::Message(&[
            Field(1, "specReplicasPath", Kind::Text),
            Field(2, "statusReplicasPath", Kind::Text),
            Field(3, "labelSelectorPath", Kind::OptionalText),
        ]),
    ),
];

const COLUMN: Fields = &[
    Field(1, "name", Kind::Text),
    Field(2, "type", Kind::Text),
    Field(3, "format", Kind::Text),
    Field(4, "description", Kind::Text),
    Field(5, "priority", Kind::Integer),
    Field(6, "jsonPath", Kind::Text),
];

const RULE: Fields = &[
    Field(1, "rule", Kind::Text),
    Field(2, "message", Kind::Text),
    Field(3, "messageExpression", Kind::Text),
    Field(4, "reason", Kind::OptionalText),
    Field(5, "fieldPath", Kind::Text),
    Field(6, "optionalOldSelf", Kind::OptionalBool),
];

/// `JSONSchemaProps`. A static, because it contains itself.
static SCHEMA: [Field; 44] = [
    Field(1, "id", Kind::Text),
    Field(2, "$schema", Kind::Text),
    Field(3, "$ref", Kind::OptionalText),
    Field(4, "description", Kind::Text),
    Field(5, "type", Kind::Text),
    Field(6, "format", Kind::Text),
    Field(7, "title", Kind::Text),
    Field(8, "default", Kind::Raw),
    Field(9, "maximum", Kind::OptionalDouble),
    Field(10, "exclusiveMaximum", Kind::Bool),
    Field(11, "minimum", Kind::OptionalDouble),
    Field(12, "exclusiveMinimum", Kind::Bool),
    Field(13, "maxLength", Kind::OptionalInteger),
    Field(14, "minLength", Kind::OptionalInteger),
    Field(15, "pattern", Kind::Text),
    Field(16, "maxItems", Kind::OptionalInteger),
    Field(17, "minItems", Kind::OptionalInteger),
    Field(18, "uniqueItems", Kind::Bool),
    Field(19, "multipleOf", Kind::OptionalDouble),
    Field(20, "enum", Kind::Raws),
    Field(21, "maxProperties", Kind::OptionalInteger),
    Field(22, "minProperties", Kind::OptionalInteger),
    Field(23, "required", Kind::Texts),
    Field(24, "items", Kind::Either(&ONE_OR_LIST)),
    Field(25, "allOf", Kind::Messages(&SCHEMA)),
    Field(26, "oneOf", Kind::Messages(&SCHEMA)),
    Field(27, "anyOf", Kind::Messages(&SCHEMA)),
    Field(28, "not", Kind::Present(&SCHEMA)),
    Field(29, "properties", Kind::MessageMap(&SCHEMA)),
    Field(30, "additionalProperties", Kind::Either(&BOOL_OR_ONE)),
    Field(31, "patternProperties", Kind::MessageMap(&SCHEMA)),
    Field(32, "dependencies", Kind::EitherMap(&ONE_OR_TEXTS)),
    Field(33, "additionalItems", Kind::Either(&BOOL_OR_ONE)),
    Field(34, "definitions", Kind::MessageMap(&SCHEMA)),
    Field(
        35,
        "externalDocs",
        Kind::Message(&[Field(1, "description", Kind::Text), Field(2, "url", Kind::Text)]),
    ),
    Field(36, "example", Kind::Raw),
    Field(37, "nullable", Kind::Bool),
    Field(38, "x-kubernetes-preserve-unknown-fields", Kind::OptionalBool),
    Field(39, "x-kubernetes-embedded-resource", Kind::Bool),
    Field(40, "x-kubernetes-int-or-string", Kind::Bool),
    Field(41, "x-kubernetes-list-map-keys", Kind::Texts),
    Field(42, "x-kubernetes-list-type", Kind::OptionalText),
    Field(43, "x-kubernetes-map-type", Kind::OptionalText),
    Field(44, "x-kubernetes-validations", Kind::Messages(RULE)),
];

// In JSON each of these is one of its fields, without the message around it: the last one that is set,
// which is how their order here decides.
static ONE_OR_LIST: [Field; 2] =
    [Field(1, "schema", Kind::Present(&SCHEMA)), Field(2, "jSONSchemas", Kind::Messages(&SCHEMA))];
static BOOL_OR_ONE: [Field; 2] =
    [Field(1, "allows", Kind::OptionalBool), Field(2, "schema", Kind::Present(&SCHEMA))];
static ONE_OR_TEXTS: [Field; 2] =
    [Field(1, "schema", Kind::Present(&SCHEMA)), Field(2, "property", Kind::Texts)];
