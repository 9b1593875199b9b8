//! The composition root: arguments, modes, wiring, one-shot commands, exit codes.
