//! The provider end to end over an API server in this process, under paused time.
