//! The export as JSON, which `docs/export.md` describes.

use crate::store::{LogReader, StoreError};

use super::conversation::{ConversationEvent, Options, Range, about, read};

/// The version of this form. It changes when a reader of the previous one would misread it.
const VERSION: u32 = 1;

pub(super) fn write<E: From<StoreError>>(
    reader: &mut LogReader,
    options: Options<'_>,
    put: &mut dyn FnMut(&str) -> Result<(), E>,
) -> Result<(), E> {
    let scan = reader.scan()?;
    let session = about(reader, &scan, options)?;
    put(&format!(
        "{{\n\"rejoinExport\": {VERSION},\n\"session\": {session},\n\"updates\": ["
    ))?;
    let mut turns = Vec::new();
    let mut separator = "\n";
    let range = Range {
        skipped: options.skipped(&scan),
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
            ConversationEvent::Damage(_) => {}
        }
        Ok::<(), E>(())
    })?;
    put("\n],\n\"turns\": [\n")?;
    put(&turns.join(",\n"))?;
    put("\n]\n}\n")
}
