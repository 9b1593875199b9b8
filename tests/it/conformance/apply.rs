//! Statements 111-130: server-side apply and managedFields.
