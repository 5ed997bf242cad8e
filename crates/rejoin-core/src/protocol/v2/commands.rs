//! Converts commands: version 2 gives each command, and its input, a type.

use crate::json::{self, Object, Splice};

/// Adds the types to the commands of the update at `at`. Version 1 has one type of each only.
pub(super) fn change(text: &[u8], at: usize) -> Option<Splice<'_>> {
    let mut splice = Splice::new(text);
    let mut commands = json::member_elements(text, at, "availableCommands")?;
    while let Some(command) = commands.element() {
        add_type(text, command.start, b"\"type\":\"command\"", &mut splice);
        if let Some(input) = json::member(text, command.start, "input") {
            add_type(text, input.start, b"\"type\":\"text\"", &mut splice);
        }
    }
    (!splice.is_empty()).then_some(splice)
}

/// The `availableCommands` of version 2: `commands` is the array of version 1.
pub(super) fn available_commands(commands: &str) -> String {
    let update = Object::new().raw("availableCommands", commands).end();
    let shown = change(update.as_bytes(), 0).map(Splice::into_bytes);
    let shown = shown.and_then(|shown| String::from_utf8(shown).ok());
    let shown = shown.as_deref().unwrap_or(&update);
    json::text_member(shown, "availableCommands")
        .unwrap_or(commands)
        .to_owned()
}

fn add_type(text: &[u8], at: usize, member: &[u8], splice: &mut Splice<'_>) {
    if json::members(text, at).is_some() && json::member(text, at, "type").is_none() {
        splice.member(at, member);
    }
}
