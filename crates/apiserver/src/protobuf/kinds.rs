//! Field numbers of the built-in kinds that arrive as protobuf.
//!
//! Source: `generated.proto` of k8s.io/api `core/v1`, `events/v1`, `coordination/v1`,
//! `authorization/v1` and `authentication/v1`, v0.35.

use super::definition::DEFINITION;
use super::metadata::META;
use super::{Field, Fields, Kind};

const NAMESPACE_CONDITION: Fields = &[
    Field(1, "type", Kind::Text),
    Field(2, "status", Kind::Text),
    Field(4, "lastTransitionTime", Kind::Time),
    Field(5, "reason", Kind::Text),
    Field(6, "message", Kind::Text),
];

const NAMESPACE: Fields = &[
    META,
    Field(2, "spec", Kind::Message(&[Field(1, "finalizers", Kind::Texts)])),
    Field(
        3,
        "status",
        Kind::Message(&[
            Field(1, "phase", Kind::Text),
            Field(2, "conditions", Kind::Messages(NAMESPACE_CONDITION)),
        ]),
    ),
];

const CONFIG_MAP: Fields = &[
    META,
    Field(2, "data", Kind::TextMap),
    Field(3, "binaryData", Kind::BytesMap),
    Field(4, "immutable", Kind::OptionalBool),
];

const SECRET: Fields = &[
    META,
    Field(2, "data", Kind::BytesMap),
    Field(3, "type", Kind::Text),
    Field(4, "stringData", Kind::TextMap),
    Field(5, "immutable", Kind::OptionalBool),
];

const REFERENCE: Fields = &[
    Field(1, "kind", Kind::Text),
    Field(2, "namespace", Kind::Text),
    Field(3, "name", Kind::Text),
    Field(4, "uid", Kind::Text),
    Field(5, "apiVersion", Kind::Text),
    Field(6, "resourceVersion", Kind::Text),
    Field(7, "fieldPath", Kind::Text),
];

const EVENT_SOURCE: Fields = &[Field(1, "component", Kind::Text), Field(2, "host", Kind::Text)];
const EVENT_SERIES: Fields =
    &[Field(1, "count", Kind::Integer), Field(2, "lastObservedTime", Kind::MicroTime)];

const CORE_EVENT: Fields = &[
    META,
    Field(2, "involvedObject", Kind::Message(REFERENCE)),
    Field(3, "reason", Kind::Text),
    Field(4, "message", Kind::Text),
    Field(5, "source", Kind::Message(EVENT_SOURCE)),
    Field(6, "firstTimestamp", Kind::Time),
    Field(7, "lastTimestamp", Kind::Time),
    Field(8, "count", Kind::Integer),
    Field(9, "type", Kind::Text),
    Field(10, "eventTime", Kind::MicroTime),
    Field(11, "series", Kind::Message(EVENT_SERIES)),
    Field(12, "action", Kind::Text),
    Field(13, "related", Kind::Message(REFERENCE)),
    Field(14, "reportingComponent", Kind::Text),
    Field(15, "reportingInstance", Kind::Text),
];

const NEW_EVENT: Fields = &[
    META,
    Field(2, "eventTime", Kind::MicroTime),
    Field(3, "series", Kind::Message(EVENT_SERIES)),
    Field(4, "reportingController", Kind::Text),
    Field(5, "reportingInstance", Kind::Text),
    Field(6, "action", Kind::Text),
    Field(7, "reason", Kind::Text),
    Field(8, "regarding", Kind::Message(REFERENCE)),
    Field(9, "related", Kind::Message(REFERENCE)),
    Field(10, "note", Kind::Text),
    Field(11, "type", Kind::Text),
    Field(12, "deprecatedSource", Kind::Message(EVENT_SOURCE)),
    Field(13, "deprecatedFirstTimestamp", Kind::Time),
    Field(14, "deprecatedLastTimestamp", Kind::Time),
    Field(15, "deprecatedCount", Kind::Integer),
];

const LEASE: Fields = &[
    META,
    Field(
        2,
        "spec",
        Kind::Message(&[
            Field(1, "holderIdentity", Kind::OptionalText),
            Field(2, "leaseDurationSeconds", Kind::OptionalInteger),
            Field(3, "acquireTime", Kind::MicroTime),
            Field(4, "renewTime", Kind::MicroTime),
            Field(5, "leaseTransitions", Kind::OptionalInteger),
            Field(6, "strategy", Kind::OptionalText),
            Field(7, "preferredHolder", Kind::OptionalText),
        ]),
    ),
];

const TAINT: Fields = &[
    Field(1, "key", Kind::Text),
    Field(2, "value", Kind::Text),
    Field(3, "effect", Kind::Text),
    Field(4, "timeAdded", Kind::Time),
];

const NODE_CONDITION: Fields = &[
    Field(1, "type", Kind::Text),
    Field(2, "status", Kind::Text),
    Field(3, "lastHeartbeatTime", Kind::Time),
    Field(4, "lastTransitionTime", Kind::Time),
    Field(5, "reason", Kind::Text),
    Field(6, "message", Kind::Text),
];

const NODE_INFO: Fields = &[
    Field(1, "machineID", Kind::Text),
    Field(2, "systemUUID", Kind::Text),
    Field(3, "bootID", Kind::Text),
    Field(4, "kernelVersion", Kind::Text),
    Field(5, "osImage", Kind::Text),
    Field(6, "containerRuntimeVersion", Kind::Text),
    Field(7, "kubeletVersion", Kind::Text),
    Field(8, "kubeProxyVersion", Kind::Text),
    Field(9, "operatingSystem", Kind::Text),
    Field(10, "architecture", Kind::Text),
    Field(11, "swap", Kind::Message(&[Field(1, "capacity", Kind::OptionalInteger)])),
];

const DAEMON_ENDPOINTS: Fields =
    &[Field(1, "kubeletEndpoint", Kind::Message(&[Field(1, "Port", Kind::OptionalInteger)]))];

const RUNTIME_HANDLER: Fields = &[
    // Empty for the default handler, and written all the same.
    Field(1, "name", Kind::OptionalText),
    Field(
        2,
        "features",
        Kind::Message(&[
            Field(1, "recursiveReadOnlyMounts", Kind::OptionalBool),
            Field(2, "userNamespaces", Kind::OptionalBool),
        ]),
    ),
];

const NODE: Fields = &[
    META,
    Field(
        2,
        "spec",
        Kind::Message(&[
            Field(1, "podCIDR", Kind::Text),
            Field(2, "externalID", Kind::Text),
            Field(3, "providerID", Kind::Text),
            Field(4, "unschedulable", Kind::Bool),
            Field(5, "taints", Kind::Messages(TAINT)),
            Field(7, "podCIDRs", Kind::Texts),
        ]),
    ),
    Field(
        3,
        "status",
        Kind::Message(&[
            Field(1, "capacity", Kind::QuantityMap),
            Field(2, "allocatable", Kind::QuantityMap),
            Field(3, "phase", Kind::Text),
            Field(4, "conditions", Kind::Messages(NODE_CONDITION)),
            Field(
                5,
                "addresses",
                Kind::Messages(&[Field(1, "type", Kind::Text), Field(2, "address", Kind::Text)]),
            ),
            Field(6, "daemonEndpoints", Kind::Message(DAEMON_ENDPOINTS)),
            Field(7, "nodeInfo", Kind::Message(NODE_INFO)),
            Field(
                8,
                "images",
                Kind::Messages(&[Field(1, "names", Kind::Texts), Field(2, "sizeBytes", Kind::Integer)]),
            ),
            Field(9, "volumesInUse", Kind::Texts),
            Field(
                10,
                "volumesAttached",
                Kind::Messages(&[Field(1, "name", Kind::Text), Field(2, "devicePath", Kind::Text)]),
            ),
            Field(12, "runtimeHandlers", Kind::Messages(RUNTIME_HANDLER)),
            Field(13, "features", Kind::Message(&[Field(1, "supplementalGroupsPolicy", Kind::OptionalBool)])),
            Field(14, "declaredFeatures", Kind::Texts),
        ]),
    ),
];

const RESOURCE_ATTRIBUTES: Fields = &[
    Field(1, "namespace", Kind::Text),
    Field(2, "verb", Kind::Text),
    Field(3, "group", Kind::Text),
    Field(4, "version", Kind::Text),
    Field(5, "resource", Kind::Text),
    Field(6, "subresource", Kind::Text),
    Field(7, "name", Kind::Text),
    Field(8, "fieldSelector", Kind::Message(SELECTOR)),
    Field(9, "labelSelector", Kind::Message(SELECTOR)),
];

const SELECTOR: Fields = &[
    Field(1, "rawSelector", Kind::Text),
    Field(
        2,
        "requirements",
        Kind::Messages(&[
            Field(1, "key", Kind::Text),
            Field(2, "operator", Kind::Text),
            Field(3, "values", Kind::Texts),
        ]),
    ),
];

const ACCESS_REVIEW: Fields = &[
    META,
    Field(
        2,
        "spec",
        Kind::Message(&[
            Field(1, "resourceAttributes", Kind::Message(RESOURCE_ATTRIBUTES)),
            Field(
                2,
                "nonResourceAttributes",
                Kind::Message(&[Field(1, "path", Kind::Text), Field(2, "verb", Kind::Text)]),
            ),
        ]),
    ),
];

const RULES_REVIEW: Fields = &[META, Field(2, "spec", Kind::Message(&[Field(1, "namespace", Kind::Text)]))];
const SELF_REVIEW: Fields = &[META];

pub(super) const DELETE_OPTIONS: Fields = &[
    Field(1, "gracePeriodSeconds", Kind::OptionalInteger),
    Field(
        2,
        "preconditions",
        Kind::Message(&[
            Field(1, "uid", Kind::OptionalText),
            Field(2, "resourceVersion", Kind::OptionalText),
        ]),
    ),
    Field(3, "orphanDependents", Kind::OptionalBool),
    Field(4, "propagationPolicy", Kind::OptionalText),
    Field(5, "dryRun", Kind::Texts),
    Field(6, "ignoreStoreReadErrorWithClusterBreakingPotential", Kind::OptionalBool),
];

pub(super) const ENVELOPE: Fields = &[
    Field(1, "typeMeta", Kind::Message(&[Field(1, "apiVersion", Kind::Text), Field(2, "kind", Kind::Text)])),
    Field(3, "contentEncoding", Kind::Text),
    Field(4, "contentType", Kind::Text),
];

/// The kinds that are understood, by apiVersion and kind.
pub(super) const KINDS: [(&str, &str, Fields); 11] = [
    ("v1", "Namespace", NAMESPACE),
    ("v1", "ConfigMap", CONFIG_MAP),
    ("v1", "Secret", SECRET),
    ("v1", "Event", CORE_EVENT),
    ("v1", "Node", NODE),
    ("events.k8s.io/v1", "Event", NEW_EVENT),
    ("coordination.k8s.io/v1", "Lease", LEASE),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", DEFINITION),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview", ACCESS_REVIEW),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview", RULES_REVIEW),
    ("authentication.k8s.io/v1", "SelfSubjectReview", SELF_REVIEW),
];
