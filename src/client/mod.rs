//! The one door to an API server: connecting, watching, writing, and asking for access.
//! Owns `kube::Client` set-up; must not know what the objects mean.
