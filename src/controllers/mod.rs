//! Observe and wire, per kind: reads objects, asks `plan` and `status`, performs the steps.
//! Must not decide anything itself.
