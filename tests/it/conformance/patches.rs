//! Statements 106-110: patches other than apply.
