//! Statements 157-165: programs that were not written for this server.
