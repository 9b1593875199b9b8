//! Statements 42-49: every refusal in its words.
