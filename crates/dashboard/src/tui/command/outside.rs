//! Commands about what is outside the screen: the bell, the mouse, files. Must not write a file itself.

use super::Outcome;
use super::cluster::cluster_meant;
use crate::tui::effect::Effect;
use crate::tui::model::{Model, Tone};
use crate::tui::report;
use crate::tui::screen::Screen;
use crate::tui::screen::about_text::provider_id;
use crate::tui::turns::Turns;

pub fn bell(model: &mut Model, wanted: &str) -> Outcome {
    let on = on_or_off(wanted, model.preferences.bell.is_some())?;
    // What is at fault already is not news.
    model.preferences.bell = on.then(|| Turns::since_now(&model.fleet));
    model.say(Tone::Info, if on { "it rings when a cluster comes to be at fault" } else { "no bell" });
    Ok(Vec::new())
}

/// Without a word: the other of the two.
fn on_or_off(wanted: &str, is_on: bool) -> Result<bool, String> {
    match wanted {
        "" => Ok(!is_on),
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("`{other}` is neither on nor off")),
    }
}

pub fn mouse(model: &mut Model, wanted: &str) -> Outcome {
    model.preferences.mouse = on_or_off(wanted, model.preferences.mouse)?;
    let word = if model.preferences.mouse { "mouse on; hold shift to select text" } else { "mouse off" };
    model.say(Tone::Info, word);
    Ok(vec![Effect::Mouse(model.preferences.mouse)])
}

pub fn links(model: &mut Model, wanted: &str) -> Outcome {
    model.preferences.links = on_or_off(wanted, model.preferences.links)?;
    let word = if model.preferences.links { "addresses are links" } else { "addresses are text" };
    model.say(Tone::Info, word);
    Ok(vec![Effect::Links(model.preferences.links)])
}

/// The address of the runbook about what explains the state of the selected object.
pub fn runbook(model: &mut Model) -> Outcome {
    let id = model.selected_row().ok_or("nothing is selected that has a runbook")?;
    let leaf = model.fleet.causes(id).first().map_or(id, |cause| cause.leaf);
    let runbook = model.fleet.explanation(leaf).map(|words| words.runbook.clone()).filter(|r| !r.is_empty());
    let none = "no runbook is named for its state; `runbook` in explanations/default.toml does that";
    Ok(copied(model, "runbook", runbook.ok_or(none)?))
}

/// The page of the provider's console about the machine of the selected object.
pub fn console(model: &mut Model) -> Outcome {
    let row = model.selected_row().and_then(|id| model.fleet.row(id)).map(AsRef::as_ref);
    let object = if let Screen::Details(open) = model.screen() { open.object() } else { None };
    let id = provider_id(row, object)
        .ok_or("the selected object has no provider id: a Machine gets one with its machine")?;
    let none = || format!("no console is known for {id}; a file of your own names it: docs/links.md");
    let page = model.fleet.console_page(id).ok_or_else(none)?;
    Ok(copied(model, "console", page))
}

fn copied(model: &mut Model, what: &str, address: String) -> Vec<Effect> {
    // Terminals do not answer whether they took it.
    model.say(
        Tone::Info,
        format!("the address of the {what} was sent to the terminal's clipboard: {address}"),
    );
    vec![Effect::Copy(address)]
}

/// Everything that comes from files of the configuration folder, read again.
pub fn reload(model: &Model) -> Outcome {
    let (theme, keymap) = (model.look.theme.name.clone(), model.look.keymap.name.clone());
    Ok(vec![Effect::Reread { theme, keymap }])
}

/// A shell with the kubeconfig of the named cluster, or of the one that the selected object belongs to.
pub fn shell(model: &mut Model, name: &str) -> Outcome {
    let cluster = cluster_meant(model, name)?;
    model.begin_shell(cluster)
}

pub fn screenshot(path: &str) -> Outcome {
    Ok(vec![Effect::Screenshot(path.into())])
}

/// The cluster that the selected object belongs to, as Markdown into a new file.
pub fn report(model: &mut Model, path: &str) -> Outcome {
    let cluster = cluster_meant(model, "")?;
    let text = report::report(&model.fleet, cluster, model.now).ok_or("the cluster is gone")?;
    Ok(vec![Effect::Write { path: path.into(), text }])
}
