//! Rules one by one, and whole lives of a control plane played in a small world without a runtime.

mod in_place;
mod lowering;
mod members;
mod remediation;
mod rules;
mod sequences;
mod world;
