//! Statements 80-82: the scale subresource.
