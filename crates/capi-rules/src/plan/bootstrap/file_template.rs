//! Files with `contentFormat: Template`: Go templates over what is known of the cluster. Must not know a Machine.
//! Source: cluster-api `bootstrap/kubeadm` (`files`, content format `Template`), v1.14.2.
//!
//! Intended difference: a template that calls templates (`template`, `block`) is refused, as a few lines of it can keep
//! a processor busy for ever.

use std::fmt;

use gotmpl::{Template, tmap};

/// The rendered file.
const BYTES_MAX: usize = 1 << 20;
/// Actions with which a template is called.
const NESTING: [&str; 3] = ["template", "block", "define"];
/// Of all loops of a file together.
const ROUNDS_MAX: u64 = 100_000;

/// # Errors
/// What is wrong with the template, as a sentence.
pub fn render(path: &str, text: &str, control_plane_version: &str) -> Result<String, String> {
    let failed =
        |what: &str, why: &dyn fmt::Display| format!("failed to {what} template of file {path:?}: {why}");
    if let Some(keyword) = nesting(text) {
        return Err(failed("parse", &format!("{keyword} is not rendered here")));
    }
    let template = Template::new(path).max_range_iters(ROUNDS_MAX).parse(text);
    let template = template.map_err(|error| failed("parse", &error))?;
    let data = if control_plane_version.is_empty() {
        tmap! { "controlPlane" => tmap! {} }
    } else {
        tmap! { "controlPlane" => tmap! { "version" => control_plane_version } }
    };
    let mut rendered = Limited::default();
    template.execute_fmt(&mut rendered, &data).map_err(|error| match rendered.is_full {
        // The error of the template says only that writing failed.
        true => failed("render", &"the file is larger than 1 MiB"),
        false => failed("render", &error),
    })?;
    Ok(rendered.text)
}

/// The first action that defines or calls a template.
fn nesting(text: &str) -> Option<&'static str> {
    // An action may begin with `{{-`, which cuts the blanks before it.
    let mut actions = text.split("{{").skip(1).map(|action| action.trim_start_matches('-').trim_start());
    actions.find_map(|action| NESTING.into_iter().find(|keyword| action.starts_with(keyword)))
}

/// A text that does not grow beyond [`BYTES_MAX`].
#[derive(Default)]
struct Limited {
    text: String,
    /// Something did not fit.
    is_full: bool,
}

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.is_full = self.text.len() + text.len() >= BYTES_MAX;
        if self.is_full {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_go_templates() {
        for (text, version, expected) in [
            ("at {{ .controlPlane.version }}", "v1.34.1", "at v1.34.1"),
            ("at {{ .controlPlane.version }}", "", "at <no value>"),
            ("a{{- if eq .controlPlane.version \"v1.34.1\" }} b{{ else }} c{{ end }}", "v1.34.1", "a b"),
            ("{{ with .controlPlane.version }}{{ slice . 1 }}{{ end }}|", "v1.34.1", "1.34.1|"),
            ("{{ with .controlPlane.version }}{{ slice . 1 }}{{ end }}|", "", "|"),
            ("{{ range $i := 3 }}{{ $i }},{{ end }}{{/* no word */}}", "v1", "0,1,2,"),
            ("{{ printf \"%q\" .controlPlane.version }}", "v1", "\"v1\""),
            ("plain", "v1", "plain"),
        ] {
            assert_eq!(render("/f", text, version).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_rendered_says_why() {
        let twice = |name: &str| format!("{{{{template \"{name}\"}}}}").repeat(2);
        let mut endless: String = (0..40)
            .map(|n| format!("{{{{define \"{n}\"}}}}{}{{{{end}}}}", twice(&(n + 1).to_string())))
            .collect();
        endless.push_str(&twice("0"));
        let large = format!("{{{{ range 2000 }}}}{}{{{{ end }}}}", "x".repeat(1000));
        for (text, reason) in [
            ("{{ .controlPlane.version", "failed to parse template of file \"/f\""),
            ("{{ foo }}", "foo"),
            ("{{ slice .x 1 }}", "failed to render template of file \"/f\""),
            (&endless, "define is not rendered here"),
            ("{{- template \"/f\" }}", "template is not rendered here"),
            (&large, "larger than 1 MiB"),
            ("{{ range 1000000000 }}{{ end }}", "failed to render"),
        ] {
            let error = render("/f", text, "v1").expect_err(text);
            assert!(error.contains(reason), "{error}");
        }
    }
}
