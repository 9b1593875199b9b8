//! `sed` as far as people change manifests with it: `s` and `d` with literal text. Must not know files.

/// The text after one command.
///
/// # Errors
/// A command that is not simulated, in words.
pub(super) fn edited(text: &str, script: &str) -> Result<String, String> {
    let unknown = || format!("`{script}` is not simulated: s/TEXT/TEXT/ or /TEXT/d with plain text");
    if let Some(rest) = script.strip_prefix('/') {
        let wanted = rest.strip_suffix("/d").filter(|wanted| is_plain(wanted)).ok_or_else(unknown)?;
        return Ok(lines(text, |line| (!line.contains(wanted)).then(|| line.to_owned())));
    }
    let mut rest = script.strip_prefix('s').ok_or_else(unknown)?.chars();
    // Any character, as paths are full of slashes.
    let separator = rest.next().ok_or_else(unknown)?;
    let parts: Vec<&str> = rest.as_str().split(separator).collect();
    // A separator that is escaped in the text makes another number of parts, and is refused.
    let &[from, to, "" | "g"] = parts.as_slice() else { return Err(unknown()) };
    if !is_plain(from) || to.contains(['&']) {
        return Err(unknown());
    }
    let to = to.replace("\\n", "\n");
    let times = if parts[2] == "g" { usize::MAX } else { 1 };
    Ok(lines(text, |line| Some(line.replacen(from, &to, times))))
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\\', '[', ']', '^', '$', '*'])
}

fn lines(text: &str, edit: impl Fn(&str) -> Option<String>) -> String {
    text.lines().filter_map(edit).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_changed_and_taken_away() {
        let text = "    - --leader-elect=true\n    - --cloud-provider=gce\n";
        for (script, expected) in [
            ("s/=gce/=external/", "    - --leader-elect=true\n    - --cloud-provider=external\n"),
            ("/leader-elect/d", "    - --cloud-provider=gce\n"),
            (
                "s|    - --cloud|    - --enable=true\\n    - --cloud|",
                "    - --leader-elect=true\n    - --enable=true\n    - --cloud-provider=gce\n",
            ),
        ] {
            assert_eq!(edited(text, script).as_deref(), Ok(expected), "{script}");
        }
        for script in ["p", "s/a.*b/c/", "s/a", "y/a/b/"] {
            assert!(edited(text, script).is_err(), "{script}");
        }
    }
}
