use super::*;

#[test]
fn names_are_unique_and_helped() {
    let mut names: Vec<&str> =
        TABLE.iter().flat_map(|c| std::iter::once(&c.name).chain(c.aliases)).copied().collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count, "a name is used twice");
    for command in TABLE.iter() {
        assert!(!command.help.is_empty() && command.help.len() <= 72, "{}", command.name);
        assert!(command.help.ends_with('.'), "{}: help is a sentence", command.name);
        assert!(command.name.split(' ').count() <= 2, "{}", command.name);
    }
}

#[test]
fn lines_are_understood() {
    for (line, name, argument) in [
        ("quit", "quit", ""),
        (":q!", "quit", ""),
        ("scale 5", "scale", "5"),
        ("  rollout   restart ", "rollout restart", ""),
        ("rollout after +2h", "rollout after", "+2h"),
        ("filter a b", "filter", "a b"),
        ("filter", "filter", ""),
        ("set-version v1.36.2", "set-version", "v1.36.2"),
    ] {
        let call = parse(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert_eq!((call.command.name, call.argument), (name, argument), "{line}");
    }
}

#[test]
fn what_is_nearly_no_command_may_be_a_kind() {
    for typed in ["secrets", ":awsmachines", "pods kube-system", "nodes", "deployments.apps /web"] {
        let call = parse_typed(typed).unwrap_or_else(|e| panic!("{typed}: {e}"));
        assert_eq!((call.command.name, call.argument), ("get", typed.trim_start_matches(':')));
        assert!(parse(typed).is_err(), "a keymap binds no kinds: {typed}");
    }
    for mistake in ["quti", "upgradeAfter", "scal 3", "exec", "q/", ""] {
        assert!(parse_typed(mistake).is_err(), "{mistake}");
    }
    assert_eq!(parse_typed("machines").map(|call| call.command.name), Ok("machines"));
}

#[test]
fn mistakes_get_a_hint() {
    for (line, part) in [
        ("quti", "did you mean `quit`?"),
        ("rollout restrat", "did you mean `rollout restart`?"),
        ("scal 3", "did you mean `scale`?"),
        ("zzzzzz", "there is no command `zzzzzz`"),
        ("scale", "`scale` needs an argument: scale N"),
        ("quit now", "takes no argument"),
        ("upgradeAfter", "`rollout after` sets it"),
        ("upgrade v1.36.1", "`set-version` changes the version"),
        ("rollout undo", "`undo` puts back"),
        ("", "an empty command"),
    ] {
        let error = parse(line).err().unwrap_or_else(|| panic!("{line} was understood"));
        assert!(error.contains(part), "{line}: {error}");
    }
}
