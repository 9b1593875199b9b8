//! What people look at and what they may do: the model of the fleet, the actions, the terminal. Must not know the
//! engine's controllers, nor the embedded server.

pub mod actions;
pub mod fleet;
pub mod operations;
pub mod other_words;
pub mod tui;
