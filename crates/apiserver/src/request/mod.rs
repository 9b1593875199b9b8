//! From bytes to a typed request: the URL and its options, the body, what may be answered with, and who
//! asks. Must not know what becomes of a request.

pub mod auth;
pub mod content;
pub mod fence;
pub mod grants;
pub mod negotiate;
pub mod options;
pub mod routes;
