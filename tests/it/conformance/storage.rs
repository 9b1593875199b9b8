//! Statements 151-156: what is stored stays stored.
