//! Changes of flags in the forms in which objects keep them: a map (kubeadm v1beta3), a list of names and values (kubeadm
//! v1beta4), the words of a container. What is not changed stays where it is, flags that stand twice among it. Must not
//! know why a flag is changed.

use serde_json::{Map, Value, json};

use super::command_line::{CommandLine, GivenFlag};
use super::manager_kind::ManagerKind;
use super::manifest::first_flag;

/// What becomes of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagChange<'a> {
    /// It has this value afterwards, whatever it had before.
    Set(&'a str, &'a str),
    /// It does not stand there any more, however often it did.
    Remove(&'a str),
}

/// How an object of some version keeps flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagForm {
    /// `name: value`.
    Map,
    /// `{name, value}`, in their order.
    Pairs,
}

fn is(name: &str, flag: &str) -> bool {
    name == flag || name.replace('_', "-") == flag
}

/// The value that counts, of flags in either form.
pub fn value_in<'a>(flags: &'a Value, flag: &str) -> Option<&'a str> {
    match flags {
        Value::Object(map) => {
            map.iter().find(|(name, _)| is(name, flag)).and_then(|(_, value)| value.as_str())
        }
        Value::Array(pairs) => {
            let found = pairs.iter().rev().find(|pair| is(pair["name"].as_str().unwrap_or_default(), flag));
            found.and_then(|pair| pair["value"].as_str())
        }
        _ => None,
    }
}

/// Changes a list of flags, which is made where there is none.
///
/// # Errors
/// What is there is not of this form.
pub fn change(flags: &mut Value, form: FlagForm, changes: &[FlagChange<'_>]) -> Result<(), String> {
    match (form, &mut *flags) {
        (FlagForm::Map, Value::Object(map)) => changes.iter().for_each(|change| in_map(map, *change)),
        (FlagForm::Pairs, Value::Array(pairs)) => changes.iter().for_each(|change| in_pairs(pairs, *change)),
        (FlagForm::Map, Value::Null) => {
            *flags = json!({});
            return self::change(flags, form, changes);
        }
        (FlagForm::Pairs, Value::Null) => {
            *flags = json!([]);
            return self::change(flags, form, changes);
        }
        (FlagForm::Map, _) => return Err("expected a map of flags, as this version has it".to_owned()),
        (FlagForm::Pairs, _) => {
            return Err("expected a list of names and values, as this version has it".to_owned());
        }
    }
    Ok(())
}

fn in_map(map: &mut Map<String, Value>, change: FlagChange<'_>) {
    match change {
        FlagChange::Remove(flag) => map.retain(|name, _| !is(name, flag)),
        FlagChange::Set(flag, value) => {
            // A name that is spelled with `_` stays as it is, and no second spelling is added beside it.
            let there: Vec<String> = map.keys().filter(|name| is(name, flag)).cloned().collect();
            let names = if there.is_empty() { vec![flag.to_owned()] } else { there };
            map.extend(names.into_iter().map(|name| (name, Value::from(value))));
        }
    }
}

/// Of a flag that stands twice the last one counts.
fn in_pairs(pairs: &mut Vec<Value>, change: FlagChange<'_>) {
    let is_it = |pair: &Value, flag: &str| is(pair["name"].as_str().unwrap_or_default(), flag);
    match change {
        FlagChange::Remove(flag) => pairs.retain(|pair| !is_it(pair, flag)),
        FlagChange::Set(flag, value) => match pairs.iter_mut().rev().find(|pair| is_it(pair, flag)) {
            Some(pair) => pair["value"] = Value::from(value),
            None => pairs.push(json!({"name": flag, "value": value})),
        },
    }
}

/// Changes the flags of a container, where they stand: in `args`, else in `command`.
///
/// # Errors
/// The flags do not stand there as words of their own.
pub fn change_container(
    manager: ManagerKind,
    container: &mut Value,
    changes: &[FlagChange<'_>],
) -> Result<(), String> {
    // A flag may begin in `command` and have its value in `args`: they are one line.
    let (mut words, mut arguments) = (words(&container["command"])?, words(&container["args"])?);
    let mut commands = words.len();
    words.append(&mut arguments);
    // A line of a shell cannot be changed word by word.
    let from = first_flag(manager, &words).ok_or("its flags stand in a line of a shell")?;
    for change in changes {
        commands = in_words(manager, &mut words, from, commands, *change);
    }
    let has_arguments = words.len() > commands;
    for (key, part, is_there) in [
        ("command", &words[..commands], commands > 0),
        ("args", &words[commands..], has_arguments || container["args"].is_array()),
    ] {
        if is_there {
            container[key] = json!(part);
        }
    }
    Ok(())
}

fn words(list: &Value) -> Result<Vec<String>, String> {
    match list {
        Value::Null => Ok(Vec::new()),
        Value::Array(words) => {
            let texts = words.iter().map(|word| word.as_str().map(str::to_owned));
            texts.collect::<Option<_>>().ok_or_else(|| "a word of its command is not a text".to_owned())
        }
        _ => Err("its command is not a list".to_owned()),
    }
}

/// How many of the words are `command` afterwards; before, `commands` are.
fn in_words(
    manager: ManagerKind,
    words: &mut Vec<String>,
    from: usize,
    commands: usize,
    change: FlagChange<'_>,
) -> usize {
    let given = CommandLine::read(manager, &words[from..]).given;
    let places = |flag: &str| {
        let found = given.iter().filter(|given| given.name == flag);
        found.map(|GivenFlag { words, .. }| words.start + from..words.end + from).collect::<Vec<_>>()
    };
    let mut commands = commands;
    match change {
        FlagChange::Remove(flag) => {
            // From the end, so that the places before stay right.
            for place in places(flag).into_iter().rev() {
                commands -= place.clone().filter(|at| *at < commands).count();
                words.drain(place);
            }
        }
        FlagChange::Set(flag, value) => {
            let word = format!("--{flag}={value}");
            match places(flag).pop() {
                Some(place) => {
                    // The new word takes one place: of a flag and its value in two words the second
                    // is gone.
                    commands -= place.clone().skip(1).filter(|at| *at < commands).count();
                    words.splice(place, [word]);
                }
                None => {
                    // Without `args` the flags stand in `command`, and so does the new one.
                    let is_command = words.len() == commands && commands > 0;
                    words.push(word);
                    commands += usize::from(is_command);
                }
            }
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    use FlagChange::{Remove, Set};

    const ALL: [FlagChange<'static>; 3] = [Set("b", "2"), Remove("gone"), Set("cloud-provider", "external")];

    #[test]
    fn a_map_keeps_what_is_not_changed() {
        let mut flags = json!({"a": "1", "cloud_provider": "gce", "gone": "x"});
        change(&mut flags, FlagForm::Map, &ALL).expect("a map");
        assert_eq!(flags, json!({"a": "1", "b": "2", "cloud_provider": "external"}));
        assert!(change(&mut json!([]), FlagForm::Map, &ALL).is_err());
    }

    #[test]
    fn a_list_keeps_order_and_what_stands_twice() {
        let pair = |name: &str, value: &str| json!({"name": name, "value": value});
        let mut flags = json!([
            pair("gone", "x"),
            pair("z", "1"),
            pair("cloud-provider", "aws"),
            pair("z", "1"),
            pair("cloud-provider", "gce"),
            pair("gone", "y"),
            pair("a", "1"),
        ]);
        change(&mut flags, FlagForm::Pairs, &ALL).expect("a list");
        let expected = json!([
            pair("z", "1"),
            pair("cloud-provider", "aws"),
            pair("z", "1"),
            pair("cloud-provider", "external"),
            pair("a", "1"),
            pair("b", "2"),
        ]);
        assert_eq!(flags, expected);
        assert_eq!(value_in(&flags, "cloud-provider"), Some("external"));
        assert!(change(&mut json!({}), FlagForm::Pairs, &ALL).is_err());
    }

    #[test]
    fn the_words_of_a_container_keep_their_lists() {
        let changed = |container: Value| {
            let mut container = container;
            change_container(ManagerKind::KubeControllerManager, &mut container, &ALL).map(|()| container)
        };
        let program = "kube-controller-manager";
        assert_eq!(
            changed(
                json!({"command": [program, "--v", "2", "--cloud-provider", "gce", "--gone=1", "--a=x", "--a=x"]})
            ),
            Ok(
                json!({"command": [program, "--v", "2", "--cloud-provider=external", "--a=x", "--a=x", "--b=2"]})
            )
        );
        assert_eq!(
            changed(json!({"command": [program, "--gone=1"], "args": ["--cloud-provider=gce", "--a=x"]})),
            Ok(json!({"command": [program], "args": ["--cloud-provider=external", "--a=x", "--b=2"]}))
        );
        assert_eq!(
            changed(json!({"image": program, "args": ["--gone=1"]})),
            Ok(json!({"image": program, "args": ["--b=2", "--cloud-provider=external"]}))
        );
        // A program that starts the one that is meant has flags of its own.
        assert_eq!(
            changed(
                json!({"image": program, "command": ["/go-runner", "--gone=1", "/bin/kube-controller-manager", "--gone=2"]})
            ),
            Ok(
                json!({"image": program, "command": ["/go-runner", "--gone=1", "/bin/kube-controller-manager", "--b=2",
                "--cloud-provider=external"]})
            )
        );
        let shell =
            json!({"image": program, "command": ["/bin/sh", "-c", "exec kube-controller-manager --gone=1"]});
        assert_eq!(changed(shell), Err("its flags stand in a line of a shell".to_owned()));
        assert!(changed(json!({"command": [program, 5]})).is_err());
    }
}
