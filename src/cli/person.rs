//! Who runs this, and what their terminal can show, as the operating system knows it. Owns the reading of user
//! database and locale.

use std::ffi::CStr;

/// The name of the user that this process belongs to. Not `$USER`, which may be missing or say anything.
pub fn user() -> String {
    let id = rustix::process::getuid().as_raw();
    name_of(id).filter(|name| !name.is_empty()).unwrap_or_else(|| format!("uid {id}"))
}

/// `None`: no user has this id, or the user database could not be read.
fn name_of(id: u32) -> Option<String> {
    let mut buffer = vec![0; 16_384];
    let mut found = std::ptr::null_mut();
    // SAFETY: a zeroed record is valid as a place for an answer; the buffer outlives it, and its length is given.
    #[allow(unsafe_code, reason = "libc has the only access to the user database")]
    unsafe {
        let mut record: libc::passwd = std::mem::zeroed();
        let failed = libc::getpwuid_r(id, &raw mut record, buffer.as_mut_ptr(), buffer.len(), &raw mut found);
        if failed != 0 || found.is_null() || record.pw_name.is_null() {
            return None;
        }
        Some(CStr::from_ptr(record.pw_name).to_string_lossy().into_owned())
    }
}

/// Whether the locale names a charset that is not UTF-8, as `C` does. Without a locale nothing is known, and most
/// terminals show UTF-8. `variable` reads the environment.
pub fn is_locale_plain(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    // The order of POSIX, for which an empty variable is one that is not set.
    let Some(locale) = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set) else { return false };
    let locale = locale.to_ascii_lowercase();
    !locale.contains("utf-8") && !locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_is_asked_of_the_system() {
        assert_eq!(name_of(0).as_deref(), Some("root"));
        assert_eq!(name_of(3_999_999_999), None);
        assert!(!user().is_empty());
    }

    #[test]
    fn the_first_locale_that_is_set_decides() {
        for (set, plain) in [
            (&[][..], false),
            (&[("LANG", "C")], true),
            (&[("LANG", "POSIX")], true),
            (&[("LANG", "en_US.UTF-8")], false),
            (&[("LANG", "de_DE.utf8")], false),
            (&[("LANG", "de_DE.ISO-8859-1")], true),
            (&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], true),
            (&[("LANG", "C"), ("LC_CTYPE", "C.UTF-8"), ("LC_ALL", "")], false),
        ] {
            let variable = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            assert_eq!(is_locale_plain(variable), plain, "{set:?}");
        }
    }
}
