//! How a Host is reached, from what it and its pool say. Owns which of the two counts and what is refused; must not know how ssh is
//! called. Admission refuses the same words, but not every server has it.

use capi_types::host::{Host, HostConnection, HostJump, HostPool};
use capstan_remote::destination::{Destination, DestinationError, user_of};

/// Where ssh goes to, and through what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshReach {
    /// With user and port, where they are said.
    pub to: Destination,
    /// In their order.
    pub jump: Vec<Destination>,
    /// Public keys, type and base64, that alone are trusted. None: those that the operator's ssh knows.
    pub host_keys: Vec<String>,
    /// The user is not root and may use sudo.
    pub sudo: bool,
}

/// The way to a Host. Of the pool counts what the Host does not say itself.
///
/// # Errors
/// A word that ssh or a shell could read otherwise.
pub fn reach_of(host: &Host, pool: Option<&HostPool>) -> Result<SshReach, DestinationError> {
    let none = HostConnection::default();
    let own = host.spec.connection.as_ref().unwrap_or(&none);
    let of_pool = pool.and_then(|pool| pool.spec.connection.as_ref()).unwrap_or(&none);
    let jump = if own.jump.is_empty() { &of_pool.jump } else { &own.jump };
    let (user, port) = (own.user.as_ref().or(of_pool.user.as_ref()), own.port.or(of_pool.port));
    Ok(SshReach {
        to: destination(&host.spec.address, user, port)?,
        jump: jump.iter().map(of_jump).collect::<Result<_, _>>()?,
        host_keys: host.spec.host_keys.clone(),
        sudo: privilege(host) == Some("Sudo"),
    })
}

/// As the last look found it.
fn privilege(host: &Host) -> Option<&str> {
    host.status.as_ref()?.facts.as_ref()?.privilege.as_deref()
}

fn of_jump(jump: &HostJump) -> Result<Destination, DestinationError> {
    destination(&jump.address, jump.user.as_ref(), jump.port)
}

fn destination(
    address: &str,
    user: Option<&String>,
    port: Option<i32>,
) -> Result<Destination, DestinationError> {
    let named = |port: i32| {
        let valid = u16::try_from(port).ok().filter(|port| *port > 0);
        valid.ok_or_else(|| DestinationError::Port(port.to_string()))
    };
    Ok(Destination {
        user: user.map(|user| user_of(user)).transpose()?,
        port: port.map(named).transpose()?,
        ..Destination::host(address)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::host::{HostPoolSpec, HostSpec};

    fn host(address: &str, connection: Option<HostConnection>) -> Host {
        Host::new("h", HostSpec { address: address.to_owned(), connection, ..HostSpec::default() })
    }

    #[test]
    fn a_host_overrides_its_pool_field_by_field() {
        let jump = vec![HostJump {
            address: "bastion".to_owned(),
            user: Some("admin".to_owned()),
            port: Some(2222),
        }];
        let common = HostConnection { user: Some("ops".to_owned()), port: Some(22), jump };
        let pool = HostPool::new("p", HostPoolSpec { connection: Some(common), ..HostPoolSpec::default() });
        let own = HostConnection { port: Some(2022), ..HostConnection::default() };
        let reach = reach_of(&host("10.0.0.1", Some(own)), Some(&pool)).expect("a way");
        assert_eq!(reach.to.to_string(), "ops@10.0.0.1:2022");
        assert_eq!(reach.jump.iter().map(ToString::to_string).collect::<Vec<_>>(), ["admin@bastion:2222"]);
        assert_eq!(reach_of(&host("h1", None), None).expect("a way").to.to_string(), "h1");
    }

    #[test]
    fn what_could_be_an_option_is_refused() {
        let user = |user: &str| HostConnection { user: Some(user.to_owned()), ..HostConnection::default() };
        let port = |port: i32| HostConnection { port: Some(port), ..HostConnection::default() };
        for (address, connection) in [
            ("-oProxyCommand=id", None),
            ("h1 id", None),
            ("h1", Some(user("-l"))),
            ("h1", Some(user("a b"))),
            ("h1", Some(port(0))),
            ("h1", Some(port(65_536))),
        ] {
            let error = reach_of(&host(address, connection.clone()), None).expect_err(address).to_string();
            assert!(error.contains("expected"), "{address} {connection:?}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_word_of_a_reach_is_an_option(address in "[-@:a-z0-9.%;$ ]{0,16}|\\PC{0,20}", user in "[-a-z0-9 ;]{0,8}|\\PC{0,8}") {
            let connection = HostConnection { user: Some(user), ..HostConnection::default() };
            if let Ok(reach) = reach_of(&host(&address, Some(connection)), None) {
                for word in [Some(reach.to.host), reach.to.user].into_iter().flatten() {
                    proptest::prop_assert!(!word.starts_with('-') && !word.is_empty());
                    proptest::prop_assert!(!word.contains(char::is_whitespace) && !word.contains(';'));
                }
            }
        }
    }
}
