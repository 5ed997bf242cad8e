//! Converts commands: version 2 gives each command, and its input, a type.

use crate::json::{self, Splice};

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

fn add_type(text: &[u8], at: usize, member: &[u8], splice: &mut Splice<'_>) {
    if json::members(text, at).is_some() && json::member(text, at, "type").is_none() {
        splice.member(at, member);
    }
}
