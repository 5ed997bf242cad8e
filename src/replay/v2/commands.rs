//! Shows commands: version 2 says of each, and of its input, which sort it is.

use crate::record::json;

use super::splice::Splice;

/// Adds the sorts that version 1 knows, its only ones, to the commands of the update at `at`.
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
