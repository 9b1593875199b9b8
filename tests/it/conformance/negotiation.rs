//! Statements 22-41: media types, tables, compression, transports.
