//! What machines, evictions and members of etcd do by themselves, whoever asks: under forecasts and under simulated
//! infrastructure alike. Pure; must not know a plan nor a status, so that a mistake of theirs shows against it.

pub mod boot;
pub mod etcd;
pub mod eviction;
