//! Sessions with kubectl as text: what is typed, and what must be read in the answer. Owns the format
//! and its player; must not know what is played.
//!
//! ```text
//! # why
//! $ get md web -o name          ends well; later lines must occur in the output, in this order
//!   machinedeployment.cluster.x-k8s.io/web
//! ! get md gone                 ends badly
//!   not found
//! $ EDITOR='sed -i s/a/b/' edit md web
//! ```
//!
//! Words are split as a shell splits them, with single quotes only. Output and complaints are one text:
//! which of the two kubectl writes to is its own matter.

use super::Kubectl;

/// Types every line of `text` in `namespace`, which is made first; says where it was when it stops.
pub async fn play(kubectl: &Kubectl, namespace: &str, text: &str) {
    kubectl.ok(&["create", "namespace", namespace]).await;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut next = lines.next();
    while let Some(line) = next {
        let well = line.starts_with("$ ");
        assert!(well || line.starts_with("! "), "{namespace}: not a command: {line}");
        let mut expected = Vec::new();
        next = lines.next();
        while let Some(part) = next.filter(|part| !part.starts_with("$ ") && !part.starts_with("! ")) {
            expected.push(part);
            next = lines.next();
        }
        run(kubectl, namespace, &line[2..], well, &expected).await;
    }
}

async fn run(kubectl: &Kubectl, namespace: &str, line: &str, well: bool, expected: &[&str]) {
    let words = words(line);
    let is_variable = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_upper(name));
    let variables = words.iter().take_while(is_variable).count();
    let mut args = vec!["--namespace", namespace];
    args.extend(words[variables..].iter().map(String::as_str));
    let mut command = kubectl.command("admin", &args);
    command.envs(words[..variables].iter().filter_map(|word| word.split_once('=')));
    let output = super::finished(command).await;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.success(), well, "{namespace}: kubectl {line}\n{said}");
    let mut rest = said.as_str();
    for part in expected {
        let at = rest.find(part);
        let at = at.unwrap_or_else(|| panic!("{namespace}: kubectl {line}\nmisses: {part}\nin: {said}"));
        rest = &rest[at + part.len()..];
    }
}

fn is_upper(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted, mut begun) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            c => {
                word.push(c);
                begun = true;
            }
        }
    }
    assert!(!quoted, "a quote is left open: {line}");
    if begun {
        words.push(word);
    }
    words
}

#[test]
fn lines_split_as_a_shell_splits_them() {
    assert_eq!(words("a  b='c d'  '' e"), ["a", "b=c d", "", "e"]);
}
