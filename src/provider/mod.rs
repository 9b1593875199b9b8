//! Simulated infrastructure: hosts, nodes, pods and etcd members of workload clusters.
//! Reproduces what machines do; shares no rule with `plan` or `status`.
