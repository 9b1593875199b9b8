//! Statements 1-21: URLs, discovery, OpenAPI.
