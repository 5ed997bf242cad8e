//! Converts commands, config options and the mode.

use std::borrow::Cow;

use crate::json;
use crate::protocol::UpdateKind;

use super::ConvertedUpdate;
use super::members::{elements, note, remade, without_note};

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
        let kind = json::quoted(UpdateKind::CurrentMode.name());
        return ConvertedUpdate::roughly(json::object(
            [
                ("sessionUpdate".to_owned(), kind.as_str()),
                ("currentModeId".to_owned(), mode),
            ]
            .into_iter()
            .chain(others_of(update)),
        ));
    }
    ConvertedUpdate::exactly(remade(update, |name, value| match name {
        "configOptions" => Some(elements(value, option).into()),
        _ => Some(value.into()),
    }))
}

/// The other members of an update of the mode. Of its `_meta`, only our note is removed.
fn others_of(update: &str) -> impl Iterator<Item = (String, &str)> {
    json::text_members(update)
        .into_iter()
        .filter(|(name, value)| match name.as_str() {
            "sessionUpdate" | "configOptions" => false,
            "_meta" => without_note(value).is_some(),
            _ => true,
        })
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
    let shown = json::text_members(option).into_iter().map(|(name, value)| {
        let value = match name.as_str() {
            "options" => Cow::Owned(elements(value, group)),
            _ => Cow::Borrowed(value),
        };
        (renamed(name, "configId", "id"), value)
    });
    object(shown)
}

fn group(group: &str) -> Cow<'_, str> {
    let shown = json::text_members(group).into_iter();
    object(shown.map(|(name, value)| (renamed(name, "groupId", "group"), value.into())))
}

fn renamed(name: String, from: &str, to: &str) -> String {
    if name == from { to.to_owned() } else { name }
}

fn object<'a>(members: impl Iterator<Item = (String, Cow<'a, str>)>) -> Cow<'a, str> {
    let members: Vec<_> = members.collect();
    let members = members.iter();
    json::object(members.map(|(name, value)| (name.clone(), &**value))).into()
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
