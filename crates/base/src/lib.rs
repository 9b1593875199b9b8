//! The ground: the only doors to clock, chance, untrusted text, key material, lines for shells, private files, TOML files and addresses
//! of the web. Knows no Kubernetes and nothing of capstan.

pub mod command_line;
pub mod go_duration;
pub mod key_pair;
pub mod private_file;
pub mod rng;
pub mod text;
pub mod time;
pub mod toml_file;
pub mod web_address;
