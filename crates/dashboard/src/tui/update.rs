//! One message → changes to the model and effects. A router: what keys, commands and answers do is
//! in the command table, the screens and the overlays.

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::command::{self, Call, Scope};
use super::cursor::Motion;
use super::effect::{Effect, EffectOutcome};
use super::keymap::{KeyPress, Lookup};
use super::layout::layout;
use super::model::{Model, Tone};
use super::msg::{Msg, Signal};
use super::outside::OutsideEnd;
use super::overlay::many::{ManyBox, Next};
use super::overlay::preview::PreviewBox;
use super::overlay::{Answer, Overlay};
use super::screen::Screen;
use super::screen::chosen::Chosen;
use crate::actions::Proposal;
use crate::fleet::SourceId;
use capi_types::key::ObjectKey;

pub fn update(model: &mut Model, msg: Msg) -> Vec<Effect> {
    model.play();
    let mut effects = changed(model, msg);
    // After every message: any of them may change what is kept and what has to be read.
    effects.extend(model.keep());
    effects.extend(model.ask());
    effects
}

fn changed(model: &mut Model, msg: Msg) -> Vec<Effect> {
    // What a person does and what was asked for is drawn in any case, news of the fleet where they are seen.
    model.needs_frame |= !matches!(msg, Msg::Fleet(_) | Msg::Tick);
    if matches!(msg, Msg::Key(_) | Msg::Mouse(_)) {
        model.touch();
    }
    match msg {
        Msg::Key(event) if event.kind == KeyEventKind::Release => Vec::new(),
        Msg::Key(event) => {
            // The cursor may stand on a row that went since the last frame.
            model.refresh();
            on_key(model, event)
        }
        Msg::Mouse(event) => {
            model.refresh();
            on_mouse(model, event);
            Vec::new()
        }
        Msg::Paste(text) => on_paste(model, &text),
        Msg::Resize { width, height } => {
            model.area.width = width;
            model.area.height = height;
            Vec::new()
        }
        Msg::Fleet(deltas) => {
            // The time first: what comes is judged by it.
            let has_turned = judge_again(model);
            let changes = model.fleet.apply(deltas);
            model.note(&changes);
            let may_have_turned = has_turned || changes.verdicts || changes.overview;
            let effects = if may_have_turned { model.tell_turns() } else { Vec::new() };
            if changes.is_replaced {
                model.say(Tone::Warning, "the server's history was replaced: everything is read again");
            }
            effects
        }
        Msg::Done(outcome) => on_outcome(model, outcome),
        Msg::Login(news) => {
            model.note_login(news);
            Vec::new()
        }
        Msg::Tick => {
            let has_turned = judge_again(model);
            model.tick();
            if has_turned { model.tell_turns() } else { Vec::new() }
        }
        Msg::Signal(signal) => match signal {
            Signal::Terminate(_) | Signal::Hangup => vec![Effect::Quit],
            Signal::Suspend => vec![Effect::Suspend],
            Signal::Continue => vec![Effect::Retake],
            Signal::Resize => vec![Effect::Resize],
        },
    }
}

/// Gives the fleet the time, so that what takes too long turns and what held is shown. Costs what is due.
/// Answers whether a verdict turned.
fn judge_again(model: &mut Model) -> bool {
    if model.now.timestamp() <= i64::from(model.fleet.now_s()) {
        return false;
    }
    let changes = model.fleet.advance(model.now);
    model.note(&changes);
    changes.verdicts
}

fn on_key(model: &mut Model, event: KeyEvent) -> Vec<Effect> {
    let Some(character) = behind_escape(model, event) else { return on_press(model, event) };
    let mut effects = on_press(model, KeyEvent::from(KeyCode::Esc));
    effects.extend(on_press(model, character));
    effects
}

/// The key of an alt-key that is bound to nothing. Terminals send alt as ESC in front, so escape and a key that come together, over
/// a slow link or from quick hands, look the same; ctrl-c behind escape as well. Arrows and their like have sequences of their own
/// for alt, and alt-backspace takes a word away wherever people type.
fn behind_escape(model: &Model, event: KeyEvent) -> Option<KeyEvent> {
    let is_of_one_byte = matches!(event.code, KeyCode::Char(_) | KeyCode::Enter | KeyCode::Tab);
    let is_bound = || {
        let keys = [model.typing.pending.as_slice(), &[KeyPress::from(event)]].concat();
        model.look.keymap.lookup(model.mode(), &keys) != Lookup::Unbound
    };
    let may_be_two = is_of_one_byte && event.modifiers.contains(KeyModifiers::ALT) && !is_bound();
    may_be_two.then(|| KeyEvent::new(event.code, event.modifiers.difference(KeyModifiers::ALT)))
}

fn on_press(model: &mut Model, event: KeyEvent) -> Vec<Effect> {
    // Any key takes a toast away, since the hints stand behind it.
    let had_toast = model.toast.take().is_some();
    if let Some(overlay) = model.overlays.last_mut()
        && let Some(answer) = overlay.on_key(event, &model.typing.history)
    {
        return on_answer(model, answer);
    }
    model.typing.pending.push(KeyPress::from(event));
    match model.look.keymap.lookup(model.mode(), &model.typing.pending) {
        Lookup::Pending(_) => Vec::new(),
        Lookup::Unbound => {
            model.typing.pending.clear();
            Vec::new()
        }
        Lookup::Run(line) => {
            model.typing.pending.clear();
            // What keys would do otherwise is not on the screen.
            if model.wallboard.is_some()
                && model.overlays.is_empty()
                && !["leave", "quit"].contains(&line.as_str())
            {
                return Vec::new();
            }
            // Whoever takes a toast away with escape does not mean to leave the screen.
            let only_closes_toast = had_toast && line == "back" && model.overlays.is_empty();
            if only_closes_toast { Vec::new() } else { run_line(model, &line) }
        }
    }
}

/// Runs a command line; what goes wrong is said on the last line of the screen.
pub fn run_line(model: &mut Model, line: &str) -> Vec<Effect> {
    run_call(model, command::parse(line))
}

fn run_call(model: &mut Model, call: Result<Call<'_>, String>) -> Vec<Effect> {
    let outcome = call.and_then(|call| {
        let (in_dialog, scope) = (!model.overlays.is_empty(), call.command.scope);
        let is_for_dialogs = matches!(scope, Scope::Motion | Scope::Dialog | Scope::Program);
        if in_dialog && !is_for_dialogs && call.command.name != "filter" {
            return Err("not while a dialog is open; esc closes it".to_owned());
        }
        if let Some(why) = command::refusal(model, call.command) {
            return Err(why);
        }
        // The cursor stays on what the command is about, also when the list is put in another
        // order.
        if matches!(scope, Scope::Go | Scope::Object) {
            model.screen_mut().choose();
        }
        call.command.run(model, call.argument)
    });
    outcome.unwrap_or_else(|why| {
        model.say(Tone::Warning, why);
        Vec::new()
    })
}

fn on_answer(model: &mut Model, answer: Answer) -> Vec<Effect> {
    match answer {
        Answer::Handled => {}
        Answer::Filter(text) => model.set_filter(&text),
        Answer::CloseWithFilter(text) => {
            model.set_filter(&text);
            model.overlays.pop();
        }
        Answer::Close => {
            model.overlays.pop();
        }
        Answer::Run(line) => {
            model.overlays.pop();
            if model.typing.history.last() != Some(&line) {
                model.typing.history.push(line.clone());
            }
            // The line may be about a row that went while it was typed.
            model.refresh();
            return run_call(model, command::parse_typed(&line));
        }
        Answer::Move(motion) => model.move_screen(motion),
        Answer::Effects(effects) => return effects,
    }
    command::complete_prompt(model);
    Vec::new()
}

/// Pasted text goes into an open field as one edit, without line ends; elsewhere it is ignored, so
/// that it cannot run commands.
fn on_paste(model: &mut Model, text: &str) -> Vec<Effect> {
    // A line end would run the line, and controls would reach the terminal.
    let text = capstan_base::text::sanitize_line(text);
    match model.overlays.last_mut().and_then(|overlay| overlay.on_paste(&text)) {
        Some(answer) => on_answer(model, answer),
        None => {
            model.say(Tone::Warning, "nothing here takes pasted text");
            Vec::new()
        }
    }
}

fn on_mouse(model: &mut Model, event: MouseEvent) {
    match event.kind {
        MouseEventKind::ScrollDown => model.move_by(Motion::Down),
        MouseEventKind::ScrollUp => model.move_by(Motion::Up),
        MouseEventKind::Down(MouseButton::Left) if model.overlays.is_empty() => {
            let Some(parts) = layout(model.area).map(|parts| model.screen().arrange(parts)) else { return };
            // The first line of the body has the headings.
            let first = parts.body.y + 1;
            if (first..parts.body.bottom()).contains(&event.row) && event.column < parts.body.right() {
                model.on_screen(|screen, context| screen.click(context, usize::from(event.row - first)));
            }
        }
        _ => {}
    }
}

fn on_outcome(model: &mut Model, outcome: EffectOutcome) -> Vec<Effect> {
    match outcome {
        EffectOutcome::Theme(Ok(theme)) => {
            model.say(Tone::Info, format!("theme {}", theme.name));
            model.look.theme = *theme;
        }
        EffectOutcome::Keymap(Ok(mut keymap)) => {
            model.say(Tone::Info, format!("keymap {}", keymap.name));
            model.look.plugins.bind(&mut keymap);
            model.look.keymap = *keymap;
            // A chord that has begun may not be one of the new keymap.
            model.typing.pending.clear();
        }
        EffectOutcome::Reread(read) => model.take_files(read),
        EffectOutcome::Theme(Err(error)) | EffectOutcome::Keymap(Err(error)) => {
            model.notice("The file was not taken", format!("{error}\n\nWhat was loaded before stays."));
        }
        EffectOutcome::Kept(Err(why)) | EffectOutcome::HookFailed(why) => model.say(Tone::Warning, why),
        EffectOutcome::Kept(Ok(())) => {}
        EffectOutcome::Read { subject, reading } => model.take(&subject, reading),
        EffectOutcome::Drafted { ticket, result } => {
            return model.drafted(ticket, result.map(|draft| *draft));
        }
        EffectOutcome::KubeconfigRead { ticket, result } => return model.launch_with(ticket, result),
        EffectOutcome::Outside(OutsideEnd::Command { title, failure }) => model.launch_ended(&title, failure),
        EffectOutcome::Outside(OutsideEnd::Editor { texts, text, failure }) => {
            return model.edited(texts, text, failure);
        }
        EffectOutcome::Previewed { ticket, result } => return answer_preview(model, ticket, result),
        EffectOutcome::Performed { ticket, result } => return answer_perform(model, ticket, result),
    }
    Vec::new()
}

fn answer_preview(model: &mut Model, ticket: u64, result: Result<Proposal, String>) -> Vec<Effect> {
    if let Some(many) = many_of(model, ticket) {
        return many.show(ticket, result);
    }
    let Some(open) = preview_of(model, ticket) else { return Vec::new() };
    match result {
        Ok(preview) => open.show(preview),
        Err(why) => {
            close_preview(model, ticket);
            if !model.refuse_edit(ticket, why.clone()) {
                model.notice("Nothing was changed", why);
            }
        }
    }
    Vec::new()
}

fn preview_of(model: &mut Model, ticket: u64) -> Option<&mut PreviewBox> {
    model.overlays.iter_mut().find_map(|overlay| match overlay {
        Overlay::Preview(open) if open.ticket == ticket => Some(open.as_mut()),
        _ => None,
    })
}

fn answer_perform(model: &mut Model, ticket: u64, result: Result<String, String>) -> Vec<Effect> {
    if let Some(many) = many_of(model, ticket) {
        return match many.performed(ticket, result) {
            Next::Effects(effects) => effects,
            Next::Done(words) => {
                close_preview(model, ticket);
                model.screen_mut().chosen_mut().map(Chosen::clear);
                model.say(Tone::Info, words);
                Vec::new()
            }
            Next::Failed(words) => {
                close_preview(model, ticket);
                model.notice("Not all of them were changed", words);
                Vec::new()
            }
        };
    }
    let changed = preview_of(model, ticket).and_then(|open| open.changed_cluster());
    let changed = changed.map(|(source, cluster)| (source, cluster.clone()));
    close_preview(model, ticket);
    if let Some((source, cluster)) = &changed {
        look_again(model, *source, cluster, result.is_ok());
    }
    match result {
        Ok(words) => {
            model.say(Tone::Info, words);
            return model.edit_is_done(ticket);
        }
        Err(why) if model.refuse_edit(ticket, why.clone()) => {}
        Err(why) if changed.is_some() => model.notice("The change was not carried out", why),
        Err(why) => model.notice("The change was not made", why),
    }
    Vec::new()
}

/// What shows the configuration of this Cluster reads it once more.
fn look_again(model: &mut Model, source: SourceId, cluster: &ObjectKey, is_done: bool) {
    for screen in &mut model.screens {
        if let Screen::Change(change) = screen {
            change.carried_out(source, cluster, is_done);
        }
    }
}

/// The dialog about many objects that this answer is for.
fn many_of(model: &mut Model, ticket: u64) -> Option<&mut ManyBox> {
    model.overlays.iter_mut().find_map(|overlay| match overlay {
        Overlay::Many(many) if many.owns(ticket) => Some(many.as_mut()),
        _ => None,
    })
}

fn close_preview(model: &mut Model, ticket: u64) {
    model.overlays.retain(|overlay| match overlay {
        Overlay::Preview(open) => open.ticket != ticket,
        Overlay::Many(many) => !many.owns(ticket),
        _ => true,
    });
}
