//! Commands by which a person quietens what is wrong: seen, or put aside for a while. They write nothing but marks of
//! our own.

use super::Outcome;
use crate::fleet::RowId;
use crate::tui::model::{Model, Tone};
use capstan_base::time::parse_duration;

/// What is wrong with the selected object was seen; once more: not any longer.
pub fn acknowledge(model: &mut Model) -> Outcome {
    let id = selected(model)?;
    if model.fleet.unmark(id) {
        return done(model, "it is not quiet any longer");
    }
    if let Some(mark) = model.fleet.mark(id) {
        return Err(format!("it is quiet because {} is: take that back there", mark.object));
    }
    model.fleet.acknowledge(id)?;
    done(model, "seen: quiet until it is well, worse or different, for a day at most")
}

/// Puts what is wrong with the selected object aside: `8h the disk is being replaced`, or `off`.
pub fn shelve(model: &mut Model, argument: &str) -> Outcome {
    let id = selected(model)?;
    let (first, reason) = argument.trim().split_once(char::is_whitespace).unwrap_or((argument.trim(), ""));
    if first == "off" {
        if model.fleet.unmark(id) {
            return done(model, "it is not quiet any longer");
        }
        return Err("it is not shelved".to_owned());
    }
    let for_s = parse_duration(first).and_then(|time| u32::try_from(time.as_secs()).ok());
    let for_s = for_s.ok_or_else(|| {
        format!("`{first}` is not a duration: `shelve 8h the disk is being replaced`, or `shelve off`")
    })?;
    model.fleet.shelve(id, for_s, reason)?;
    done(model, format!("shelved for {first}: it comes back then, or when it is worse or different"))
}

fn selected(model: &Model) -> Result<RowId, String> {
    model.selected_row().ok_or_else(|| "no object is selected".to_owned())
}

fn done(model: &mut Model, words: impl Into<String>) -> Outcome {
    model.resort();
    model.say(Tone::Info, words);
    Ok(Vec::new())
}
