//! The export as JSON, which `docs/export.md` describes.

use crate::store::{LogReader, StoreError};

use super::conversation::{ConversationEvent, Options, Range, about, read, scan};

/// The version of this form. It changes when a reader of the previous one would misread it.
const VERSION: u32 = 1;

pub(super) fn write<E: From<StoreError>>(
    reader: &mut LogReader,
    options: Options<'_>,
    put: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let (scan, permissions) = scan(reader, options)?;
    let session = about(reader, &scan, options)?;
    put(&format!(
        "{{\n\"rejoinExport\": {VERSION},\n\"session\": {session},\n\"updates\": ["
    ))?;
    let (mut turns, mut asked_for) = (Vec::new(), Vec::new());
    let mut separator = "\n";
    let range = Range {
        skipped: options.skipped(&scan),
        permissions: permissions.all(),
        ..Range::default()
    };
    read(reader, options, range, &mut |event| {
        match event {
            ConversationEvent::Update(params) => {
                put(separator)?;
                separator = ",\n";
                put(params)?;
            }
            ConversationEvent::Turn(turn) => turns.push(turn.to_owned()),
            ConversationEvent::Permission(asked) => asked_for.push(asked.as_json().to_string()),
            ConversationEvent::Damage(_) => {}
        }
        Ok::<(), E>(())
    })?;
    put("\n],\n\"turns\": [\n")?;
    put(&turns.join(",\n"))?;
    put("\n],\n\"permissions\": [\n")?;
    put(&asked_for.join(",\n"))?;
    put("\n]\n}\n")
}
