//! Bytes under keys, one global revision, transactions and watches.
//! Owns durability and history; must not know an object type.
