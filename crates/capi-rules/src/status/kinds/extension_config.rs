//! What is true of an ExtensionConfig: what its server offers, or why that is not known. Must not know how it was asked.
//! Source: cluster-api `core/reconcilers/extensionconfig`, v1.14.2.

use crate::status::conditions::setter::{Draft, condition, not_paused, paused};
use capi_types::condition::Status;
use capi_types::extension_config::{ExtensionConfig, ExtensionConfigStatus, ExtensionHandler};
use capstan_base::time::Timestamp;

/// Of a message: what a server says of itself may be long, and a stored one has at most 32768.
const MESSAGE_CHARS_MAX: usize = 4096;

/// What came of a look at an ExtensionConfig.
#[derive(Clone, Debug, PartialEq)]
pub enum Discovery {
    /// It is not looked at.
    Paused,
    /// The handlers that its server has.
    Discovered(Vec<ExtensionHandler>),
    /// Why that is not known; the handlers of before stay.
    Failed(String),
}

/// Handlers as discovery found them, and conditions about it.
pub fn status(config: &ExtensionConfig, observed: &Discovery, now: Timestamp) -> ExtensionConfigStatus {
    let mut status = config.status.clone().unwrap_or_default();
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), config.metadata.generation, now);
    match observed {
        Discovery::Paused => draft.set(paused("ExtensionConfig", false, true)),
        Discovery::Discovered(handlers) => {
            status.handlers.clone_from(handlers);
            draft.set(not_paused());
            draft.set(condition("Discovered", Status::True, "Discovered", ""));
        }
        Discovery::Failed(why) => {
            draft.set(not_paused());
            let message = format!("Error in discovery: {}", shortened(why));
            draft.set(condition("Discovered", Status::False, "NotDiscovered", message));
        }
    }
    status.conditions = draft.finish();
    status
}

fn shortened(why: &str) -> String {
    let mut chars = why.chars();
    let start: String = chars.by_ref().take(MESSAGE_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{start}...") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::condition::{Condition, find};

    // The status reference does not cover this kind, so these are not among the reasons that are counted.
    #[track_caller]
    fn expect(conditions: &[Condition], type_: &str, expected: (&str, &str, &str)) {
        let got = find(conditions, type_).expect(type_);
        assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
    }

    fn handler(name: &str) -> ExtensionHandler {
        ExtensionHandler { name: name.to_owned(), ..ExtensionHandler::default() }
    }

    #[test]
    fn discovery_is_told_and_a_failure_keeps_the_handlers() {
        let mut config = ExtensionConfig::default();
        let now = Timestamp::UNIX_EPOCH;
        let mut after = |observed: Discovery| {
            let status = status(&config, &observed, now);
            config.status = Some(status.clone());
            status
        };
        let found = after(Discovery::Discovered(vec![handler("a.e")]));
        expect(&found.conditions, "Discovered", ("True", "Discovered", ""));
        expect(&found.conditions, "Paused", ("False", "NotPaused", ""));
        assert_eq!(found.handlers, [handler("a.e")]);

        let failed = after(Discovery::Failed("no route".to_owned()));
        let said = ("False", "NotDiscovered", "Error in discovery: no route");
        expect(&failed.conditions, "Discovered", said);
        assert_eq!(failed.handlers, [handler("a.e")]);

        let held = after(Discovery::Paused);
        let said = ("True", "Paused", "ExtensionConfig has the cluster.x-k8s.io/paused annotation");
        expect(&held.conditions, "Paused", said);
        expect(&held.conditions, "Discovered", ("False", "NotDiscovered", "Error in discovery: no route"));
        assert_eq!(after(Discovery::Discovered(Vec::new())).handlers, []);
    }

    #[test]
    fn a_long_reason_is_cut() {
        let told = status(
            &ExtensionConfig::default(),
            &Discovery::Failed("x".repeat(99_999)),
            Timestamp::UNIX_EPOCH,
        );
        assert!(told.conditions[0].message.len() < 5000);
    }
}
