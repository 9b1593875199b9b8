//! Labels of Kubernetes itself. Must not know those of Cluster API.

/// On a Node, as label and as taint.
pub const NODE_ROLE_CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";
