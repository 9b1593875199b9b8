//! Commands about what is outside the screen: the bell, the mouse, files. Must not write a file itself.

use super::Outcome;
use super::cluster::cluster_meant;
use crate::tui::effect::Effect;
use crate::tui::model::{Model, Tone};
use crate::tui::report;
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
