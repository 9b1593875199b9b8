//! The model people look at: rows, relations, order, history. Synchronous; only `watch` is async.
//! Must not know the terminal nor the engine.
