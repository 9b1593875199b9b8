//! Which CoreDNS versions can be migrated to which. Must not know a kind.
//!
//! Source: coredns/corefile-migration `migration/versions.go` and `migrate.go` (`ValidUpMigration`),
//! v1.0.34. The list has to be carried forward with that library.

/// In order of migration: each one goes to the next.
const VERSIONS: [&str; 54] = [
    "1.1.3", "1.1.4", "1.2.0", "1.2.1", "1.2.2", "1.2.3", "1.2.4", "1.2.5", "1.2.6", "1.3.0", "1.3.1",
    "1.4.0", "1.5.0", "1.5.1", "1.5.2", "1.6.0", "1.6.1", "1.6.2", "1.6.3", "1.6.4", "1.6.5", "1.6.6",
    "1.6.7", "1.6.9", "1.7.0", "1.7.1", "1.8.0", "1.8.3", "1.8.4", "1.8.5", "1.8.6", "1.8.7", "1.9.0",
    "1.9.1", "1.9.2", "1.9.3", "1.9.4", "1.10.0", "1.10.1", "1.11.0", "1.11.1", "1.11.3", "1.11.4", "1.12.0",
    "1.12.1", "1.12.2", "1.12.3", "1.12.4", "1.13.0", "1.13.1", "1.13.2", "1.14.0", "1.14.1", "1.14.2",
];

/// # Errors
/// Why there is no way up from `from` to `to`, both as `major.minor.patch`.
pub fn check_migration(from: &str, to: &str) -> Result<(), String> {
    let place = |version: &str| VERSIONS.iter().position(|known| *known == version);
    let Some(start) = place(from) else {
        return Err(format!("start version '{from}' not supported"));
    };
    if from == to || place(to).is_some_and(|end| end > start) {
        return Ok(());
    }
    Err(format!("cannot migrate up to '{to}' from '{from}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_go_up_along_known_versions() {
        for (from, to, expected) in [
            ("1.9.3", "1.11.1", Ok(())),
            ("1.1.3", VERSIONS[VERSIONS.len() - 1], Ok(())),
            ("1.11.1", "1.11.1", Ok(())),
            ("1.11.1", "1.9.3", Err("cannot migrate up to '1.9.3' from '1.11.1'")),
            ("1.11.1", "9.9.9", Err("cannot migrate up to '9.9.9' from '1.11.1'")),
            ("1.11.2", "1.11.3", Err("start version '1.11.2' not supported")),
        ] {
            assert_eq!(check_migration(from, to), expected.map_err(str::to_owned), "{from} to {to}");
        }
    }
}
