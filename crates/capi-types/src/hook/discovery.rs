//! Discovery: an extension says which handlers it has. Owns the messages; which answers are acceptable says
//! `runtime_sdk`.

#![allow(missing_docs, reason = "upstream's fields, described there")]

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::message::{HookRequest, HookResponse, nullable, type_meta};
use super::{API_VERSION, Hook};
use crate::extension_config::RequestHook;

/// What is sent: nothing but its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoveryRequest {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
}

impl Default for DiscoveryRequest {
    fn default() -> Self {
        let (api_version, kind) = type_meta("DiscoveryRequest");
        Self { api_version, kind }
    }
}

impl HookRequest for DiscoveryRequest {
    const HOOK: Hook = Hook::Discovery;
    type Response = DiscoveryResponse;

    fn settings_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
        None
    }
}

/// What comes back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveryResponse {
    #[serde(deserialize_with = "nullable")]
    pub api_version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub status: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub handlers: Vec<DiscoveredHandler>,
}

impl HookResponse for DiscoveryResponse {
    fn status(&self) -> &str {
        &self.status
    }

    fn message(&self) -> &str {
        &self.message
    }

    fn ignored() -> Self {
        Self { status: super::SUCCESS.to_owned(), ..Self::default() }
    }
}

/// One handler as its extension names it: `can-update-machine`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveredHandler {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub request_hook: RequestHook,
    pub timeout_seconds: Option<i32>,
    pub failure_policy: Option<String>,
}

impl DiscoveredHandler {
    /// A handler of a hook of our version.
    pub fn of(hook: Hook, name: &str) -> Self {
        let request_hook =
            RequestHook { api_version: API_VERSION.to_owned(), hook: hook.as_str().to_owned() };
        Self { name: name.to_owned(), request_hook, ..Self::default() }
    }
}
