//! Runner and triggers under paused time, with a controller that counts.
