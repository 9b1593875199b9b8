//! How the host of a Node is reached. Owns whose word counts for where a host is; must not know what is run there.

use std::collections::BTreeMap;

/// A host that is not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WayError {
    #[error("Node {0} has no InternalIP that is an address; use --ssh-host name")]
    NoAddress(String),
    #[error("no Machine of the cluster names Node {0}: nothing is run on what a Node says of itself")]
    NoMachine(String),
    #[error(
        "the Machine of Node {0} has no InternalIP that is an address, and what the Node says of itself is not believed; use --ssh-host name"
    )]
    NoMachineAddress(String),
}

/// How nodes are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostWay {
    /// By their names, not their addresses.
    pub by_name: bool,
    /// Of a cluster of a fleet: the hosts of its Machines by the names of their Nodes, each with its address where it has
    /// one. What a Node says of itself is then its tenant's, and is not believed.
    pub machines: Option<BTreeMap<String, Option<String>>>,
}

impl HostWay {
    /// What to connect to for the Node of this name; `claimed` is the address that the Node says it has.
    ///
    /// # Errors
    /// [`WayError`].
    pub fn host(&self, node: &str, claimed: Option<&str>) -> Result<String, WayError> {
        let of_machine = match &self.machines {
            None => None,
            Some(machines) => Some(machines.get(node).ok_or_else(|| WayError::NoMachine(node.to_owned()))?),
        };
        match of_machine {
            _ if self.by_name => Ok(node.to_owned()),
            Some(address) => address.clone().ok_or_else(|| WayError::NoMachineAddress(node.to_owned())),
            None => claimed.map(str::to_owned).ok_or_else(|| WayError::NoAddress(node.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_where_the_machine_is() {
        let reached = |way: &HostWay, node: &str| way.host(node, Some("192.0.2.77"));
        let believed = HostWay::default();
        assert_eq!(
            reached(&believed, "cp-0").ok().as_deref(),
            Some("192.0.2.77"),
            "there is nobody else to ask"
        );
        let machines =
            BTreeMap::from([("cp-0".to_owned(), Some("10.0.0.1".to_owned())), ("cp-1".to_owned(), None)]);
        let mut fleet = HostWay { by_name: false, machines: Some(machines) };
        assert_eq!(reached(&fleet, "cp-0").ok().as_deref(), Some("10.0.0.1"));
        assert!(matches!(reached(&fleet, "cp-1"), Err(WayError::NoMachineAddress(_))));
        assert!(matches!(reached(&fleet, "bastion"), Err(WayError::NoMachine(_))));
        fleet.by_name = true;
        assert_eq!(reached(&fleet, "cp-1").ok().as_deref(), Some("cp-1"));
        assert!(matches!(reached(&fleet, "bastion"), Err(WayError::NoMachine(_))), "nor by a name it chose");
    }
}
