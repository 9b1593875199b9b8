//! What should happen next, why, and why not yet: pure functions from `Observed` and `now` to a plan.
//! Owns decisions; must not know a client, a runtime, a clock, or chance.
