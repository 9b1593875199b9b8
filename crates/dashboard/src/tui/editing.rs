//! Editing an object: from the key over the editor to the preview of the change, and back to the editor when something speaks against
//! it. Owns this round; the text is `actions`' affair, the program the runner's.

use super::effect::Effect;
use super::model::{Model, Tone};
use super::outside::{OpenDraft, OutsideProgram, Texts};
use super::overlay::Overlay;
use super::overlay::notice::Notice;
use crate::actions::{Action, Draft, Order, Request};
use crate::fleet::SourceId;
use capi_types::key::ObjectRef;

const CHANGED_NOTHING: &str = "nothing changed";

impl Model {
    /// Reads the selected object for the editor, or goes on with the text of it that is not done with.
    ///
    /// # Errors
    /// No object, or several.
    pub fn begin_edit(&mut self) -> Result<Vec<Effect>, String> {
        let about = self.acted_on();
        let [id] = about.as_slice() else {
            return Err(match about.len() {
                0 => "no object is selected that can be changed".to_owned(),
                count => format!("{count} objects are marked; one is edited at a time"),
            });
        };
        let row = self.fleet.row(*id).ok_or("the object does not exist any more")?;
        Ok(vec![self.read_draft(row.source, row.object_ref())])
    }

    /// Opens the editor again after a refusal.
    pub fn edit_again(&mut self) -> Vec<Effect> {
        let open = self.draft.as_ref().map(|open| (open.source, open.draft.target.clone()));
        open.map(|(source, target)| self.read_draft(source, target)).into_iter().collect()
    }

    fn read_draft(&mut self, source: SourceId, target: ObjectRef) -> Effect {
        let ticket = self.next_ticket();
        let is_same = |open: &&OpenDraft| open.source == source && open.draft.target.uid == target.uid;
        let begun = self.draft.as_ref().filter(is_same).map(|open| {
            let why = format!("{}\nYour text before is kept in {}", open.why, open.place());
            Box::new((open.draft.clone(), why))
        });
        let notice = Notice::reading(format!("edit {target}"));
        self.overlays.push(Overlay::Draft { ticket, source, notice, is_refused: false });
        Effect::Draft { ticket, source, target, begun }
    }

    /// The object was read: the editor is opened, if the person still waits for it.
    pub fn drafted(&mut self, ticket: u64, result: Result<Draft, String>) -> Vec<Effect> {
        let is_it = |overlay: &Overlay| matches!(overlay, Overlay::Draft { ticket: of, .. } if *of == ticket);
        let Some(at) = self.overlays.iter().position(is_it) else { return Vec::new() };
        let Overlay::Draft { source, .. } = self.overlays.remove(at) else { return Vec::new() };
        let draft = match result {
            Ok(draft) => draft,
            Err(why) => {
                self.notice("Nothing was changed", why);
                return Vec::new();
            }
        };
        // A text of another object stays in its file.
        let before = self.draft.take().filter(|open| open.draft.target.uid == draft.target.uid);
        let texts = before.map(|open| open.texts).unwrap_or_default();
        let why = "You left it before it was done.".to_owned();
        self.draft = Some(OpenDraft { source, draft: draft.clone(), texts: texts.clone(), ticket, why });
        vec![Effect::Outside(OutsideProgram::Editor { draft: Box::new(draft), texts })]
    }

    /// The editor has ended: what the person changed is shown before anything is written.
    pub fn edited(&mut self, texts: Texts, text: Option<String>, failure: Option<String>) -> Vec<Effect> {
        let ticket = self.next_ticket();
        let Some(open) = &mut self.draft else { return Vec::new() };
        open.texts = texts;
        open.ticket = ticket;
        if let Some(text) = text {
            open.draft.text = text;
        }
        if let Some(why) = failure {
            self.refuse_edit(ticket, why);
            return Vec::new();
        }
        match open.draft.change() {
            Ok(None) => {
                self.say(Tone::Info, CHANGED_NOTHING);
                self.drop_draft()
            }
            Err(why) => {
                self.refuse_edit(ticket, why);
                Vec::new()
            }
            Ok(Some(change)) => {
                let request = Request::new(open.draft.target.clone(), Action::Edit(Box::new(change)));
                let source = open.source;
                let effect = self.open_preview(source, Order::Action(request));
                let ticket = self.last_ticket();
                self.draft.iter_mut().for_each(|open| open.ticket = ticket);
                vec![effect]
            }
        }
    }

    /// Shows why the change of a text was not done, and offers the editor again. False: the ticket is of something else.
    pub fn refuse_edit(&mut self, ticket: u64, why: String) -> bool {
        let Some(open) = self.draft.as_mut().filter(|open| open.ticket == ticket) else { return false };
        let text = format!("{why}\n\nYour text is kept in {}", open.place());
        open.why = why;
        let source = open.source;
        let keys = [("enter", "edit it again"), ("esc", "leave it")];
        let notice = Notice::new("Nothing was changed", text).with_keys(keys);
        self.overlays.push(Overlay::Draft { ticket, source, notice, is_refused: true });
        true
    }

    /// The person closed a dialog about a text.
    pub fn leave_edit(&mut self, ticket: u64) {
        let Some(open) = self.draft.as_ref().filter(|open| open.ticket == ticket) else { return };
        let place = open.place();
        self.say(Tone::Info, format!("nothing was changed; :edit goes on with your text in {place}"));
    }

    /// The change of a text was made.
    pub fn edit_is_done(&mut self, ticket: u64) -> Vec<Effect> {
        let is_it = self.draft.as_ref().is_some_and(|open| open.ticket == ticket);
        if is_it { self.drop_draft() } else { Vec::new() }
    }

    fn drop_draft(&mut self) -> Vec<Effect> {
        let folder = self.draft.take().and_then(|open| open.texts.folder);
        folder.map(Effect::DropTexts).into_iter().collect()
    }
}
