//! The one integration binary. Each module is one kind of test; see docs/testing.md.

mod apiserver;
mod crds;
mod engine;
mod fleet_fixture;
mod schema;
mod screens;
mod tidy;
