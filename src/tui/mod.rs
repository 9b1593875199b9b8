//! The terminal. Elm-shaped: `update` changes the model and returns effects, `view` draws.
//! Must not know a client, the engine, the store or the provider.
