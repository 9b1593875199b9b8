//! Statements 83-90, 101, 102: lists, pages, selectors.
