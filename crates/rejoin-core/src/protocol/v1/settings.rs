//! Converts commands, config options and the mode.

use std::borrow::Cow;

use crate::json::{self, Members, remade};
use crate::protocol::UpdateKind;

use super::ConvertedUpdate;
use super::members::{elements, note, without_note};

/// Removes `type` from commands and their input where it is the only one that version 1 knows.
pub(super) fn commands(update: &str) -> ConvertedUpdate<'_> {
    let shown = remade(update, |name, value| match name {
        "availableCommands" => Some(elements(value, command).into()),
        _ => Some(value.into()),
    });
    ConvertedUpdate::exactly(shown)
}

fn command(command: &str) -> Cow<'_, str> {
    let shown = remade(command, |name, value| match (name, value) {
        ("type", "\"command\"") => None,
        ("input", input) if input.starts_with('{') => {
            let input = remade(input, |name, value| {
                let is_kept = (name, value) != ("type", "\"text\"");
                is_kept.then_some(Cow::Borrowed(value))
            });
            Some(input.into())
        }
        _ => Some(value.into()),
    });
    shown.into()
}

/// Converts a `config_option_update`: to one of the mode if it was one in version 1.
pub(super) fn options(update: &str) -> ConvertedUpdate<'_> {
    let mode = note(update).and_then(|note| json::text_member(note, "currentModeId"));
    if let Some(mode) = mode {
        let others = remade(update, |name, value| match name {
            "sessionUpdate" | "configOptions" => None,
            // A `_meta` with nothing but our note is left out.
            "_meta" => without_note(value).map(|_| value.into()),
            _ => Some(value.into()),
        });
        let mode = UpdateKind::CurrentMode.object().raw("currentModeId", mode);
        let mode = Members::of(&mode.end()).overlaid(Members::of(&others));
        return ConvertedUpdate::roughly(mode.text());
    }
    ConvertedUpdate::exactly(remade(update, |name, value| match name {
        "configOptions" => Some(elements(value, option).into()),
        _ => Some(value.into()),
    }))
}

/// An engine's part of an answer with its config options in the form of version 1, whichever form
/// they have.
pub fn answer_of(own: &str) -> String {
    if !own.contains("\"configId\"") {
        return own.to_owned();
    }
    remade(own, |name, value| match name {
        "configOptions" => Some(elements(value, option).into()),
        _ => Some(value.into()),
    })
}

fn option(option: &str) -> Cow<'_, str> {
    let shown = remade(option, |name, value| match name {
        "options" => Some(elements(value, group).into()),
        _ => Some(value.into()),
    });
    Members::of(&shown).renamed("configId", "id").text().into()
}

fn group(group: &str) -> Cow<'_, str> {
    Members::of(group).renamed("groupId", "group").text().into()
}

/// Converts our own kind of a change of the mode.
pub(super) fn mode(update: &str) -> ConvertedUpdate<'_> {
    let kind = json::quoted(UpdateKind::CurrentMode.name());
    ConvertedUpdate::exactly(remade(update, |name, value| {
        Some(if name == "sessionUpdate" {
            Cow::Owned(kind.clone())
        } else {
            value.into()
        })
    }))
}
