//! What a person may do to the fleet: preflight, preview, perform, journal.
//! Must not know the terminal.
