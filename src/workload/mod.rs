//! Reaching into a workload cluster: nodes, pods, etcd members, the kubeadm configuration map.
//! Owns the `Workload` trait and connections; must not know who asks.
