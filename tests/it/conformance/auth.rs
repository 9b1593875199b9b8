//! Statements 147-150: who may do what, and how the server knows.
