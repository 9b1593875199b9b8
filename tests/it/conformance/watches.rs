//! Statements 91-105: watches.
