//! How a controller asks the registered extensions about updates in place. Owns the interface and its errors; who is
//! registered and how a call travels says `runtime_sdk`.
//! Source: cluster-api `exp/runtime/client` (`GetAllExtensions`, `CallExtension`), v1.14.2.

use async_trait::async_trait;

use super::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, Hook, UpdateMachineRequest, UpdateMachineResponse,
};

/// The registered extensions.
///
/// An answer that is returned has the status `Success`: every other one is an error, whatever the handler's failure
/// policy. With the policy `Ignore` a call that fails is an empty success: no patches, or an update that is done.
#[async_trait]
pub trait Extensions: Send + Sync {
    /// The handlers of a hook whose namespace selector takes objects of this namespace, by name
    /// (`<handler>.<extension config>`), sorted. Empty: nobody is registered. More than one is more than upstream's controllers accept.
    ///
    /// # Errors
    /// The extensions are not known yet, or the namespace could not be read.
    async fn handlers(&self, hook: Hook, namespace: &str) -> Result<Vec<String>, HookError>;

    /// # Errors
    /// [`HookError`].
    async fn can_update_machine(
        &self,
        handler: &str,
        request: &CanUpdateMachineRequest,
    ) -> Result<CanUpdateMachineResponse, HookError>;

    /// # Errors
    /// [`HookError`].
    async fn can_update_machine_set(
        &self,
        handler: &str,
        request: &CanUpdateMachineSetRequest,
    ) -> Result<CanUpdateMachineSetResponse, HookError>;

    /// One call; the caller asks again after `retry_after_seconds`, until that is 0.
    ///
    /// # Errors
    /// [`HookError`].
    async fn update_machine(
        &self,
        handler: &str,
        request: &UpdateMachineRequest,
    ) -> Result<UpdateMachineResponse, HookError>;
}

/// No extension is registered.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoExtensions;

#[async_trait]
impl Extensions for NoExtensions {
    async fn handlers(&self, _: Hook, _: &str) -> Result<Vec<String>, HookError> {
        Ok(Vec::new())
    }

    async fn can_update_machine(
        &self,
        handler: &str,
        _: &CanUpdateMachineRequest,
    ) -> Result<CanUpdateMachineResponse, HookError> {
        Err(HookError::NotRegistered { handler: handler.to_owned() })
    }

    async fn can_update_machine_set(
        &self,
        handler: &str,
        _: &CanUpdateMachineSetRequest,
    ) -> Result<CanUpdateMachineSetResponse, HookError> {
        Err(HookError::NotRegistered { handler: handler.to_owned() })
    }

    async fn update_machine(
        &self,
        handler: &str,
        _: &UpdateMachineRequest,
    ) -> Result<UpdateMachineResponse, HookError> {
        Err(HookError::NotRegistered { handler: handler.to_owned() })
    }
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// Nothing is known before the ExtensionConfigs that were there at the start are discovered.
    #[error(
        "the registered extensions are not known yet; waiting for the discovery of ExtensionConfigs: {}",
        listed(waiting)
    )]
    NotReady {
        /// Names of those that are not discovered.
        waiting: Vec<String>,
    },
    /// No ExtensionConfig has such a handler.
    #[error(
        "extension handler {handler} is not registered; check the handlers in the status of its ExtensionConfig"
    )]
    NotRegistered {
        /// `HANDLER.EXTENSIONCONFIG`.
        handler: String,
    },
    /// The handler is for something else.
    #[error("extension handler {handler} is registered for {registered}, not for {hook}")]
    OtherHook {
        /// `HANDLER.EXTENSIONCONFIG`.
        handler: String,
        /// The hook that it is registered for.
        registered: String,
        /// The hook that was called.
        hook: &'static str,
    },
    /// The namespace selector of its ExtensionConfig leaves the object out.
    #[error(
        "extension handler {handler} is not registered for namespace {namespace}; check the namespace selector"
    )]
    OtherNamespace {
        /// `HANDLER.EXTENSIONCONFIG`.
        handler: String,
        /// Of the object that the call is about.
        namespace: String,
    },
    /// The labels of the namespace are not known, so that the selector cannot be applied.
    #[error("cannot read namespace {namespace} for the namespace selectors of ExtensionConfigs: {why}")]
    Namespace {
        /// Of the object that the call is about.
        namespace: String,
        /// A sentence of the client.
        why: String,
    },
    /// Nothing usable came back: address, certificate, connection, time, status code, or document.
    #[error("cannot call extension handler {handler}: {why}")]
    Unanswered {
        /// `HANDLER.EXTENSIONCONFIG`.
        handler: String,
        /// A sentence of the client.
        why: String,
    },
    /// The handler answered something other than success.
    #[error("extension handler {handler} answered {status}: {message}")]
    Refused {
        /// `HANDLER.EXTENSIONCONFIG`.
        handler: String,
        /// Usually [`FAILURE`](super::FAILURE).
        status: String,
        /// The extension's own words: text from outside.
        message: String,
    },
}

fn listed(waiting: &[String]) -> String {
    if waiting.is_empty() { "the engine has not begun".to_owned() } else { waiting.join(", ") }
}

/// What the answers of several handlers amount to: the soonest next call, and all messages. Source:
/// `aggregateSuccessfulResponses`.
pub fn aggregate(answers: &[UpdateMachineResponse]) -> UpdateMachineResponse {
    // 0 is done; while one handler is still at work the whole is not.
    let soonest = answers.iter().map(|answer| answer.retry_after_seconds).filter(|after| *after != 0).min();
    let messages: Vec<&str> =
        answers.iter().map(|answer| answer.message.as_str()).filter(|message| !message.is_empty()).collect();
    UpdateMachineResponse {
        retry_after_seconds: soonest.unwrap_or(0),
        message: messages.join(", "),
        ..UpdateMachineResponse::success()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_add_up_to_the_soonest_call_and_all_messages() {
        let answer = |after, message: &str| UpdateMachineResponse {
            retry_after_seconds: after,
            message: message.to_owned(),
            ..UpdateMachineResponse::success()
        };
        let sum = aggregate(&[answer(0, "a"), answer(7, ""), answer(5, "b")]);
        assert_eq!(sum, answer(5, "a, b"));
        assert_eq!(aggregate(&[]), UpdateMachineResponse::success());
    }
}
