//! Statements 50-79: creating, updating, deleting, garbage, namespaces.
