//! Converts config options and modes: in version 2, modes are a config option like any other.

use std::ops::Range;

use crate::json::{self, Splice};
use crate::protocol::meta::MODE_CONFIG_ID;

/// The id of the option that represents the modes.
const MODE: &str = "mode";

/// The `configOptions` of version 2: `options` is the array of version 1, as JSON text, and `modes`
/// the object of a session's modes, which becomes an option unless one of category `mode` exists.
/// `None` if both are missing.
pub fn config_options(options: Option<&str>, modes: Option<&str>) -> Option<String> {
    let options = options.filter(|options| json::elements(options.as_bytes(), 0).is_some());
    let mode = mode_config_id(options, modes);
    let mode = mode.and_then(|id| mode_option(id, modes?, None));
    let mut out = Vec::new();
    match options {
        Some(options) => write(options.as_bytes(), mode.as_deref(), &mut out),
        None => out.extend([b"[", mode?.as_slice(), b"]"].concat()),
    }
    String::from_utf8(out).ok()
}

/// The id of the option that `modes` become in [`config_options`]; `None` if they do not.
pub fn mode_config_id(options: Option<&str>, modes: Option<&str>) -> Option<&'static str> {
    let text = options.unwrap_or_default().as_bytes();
    let mut taken = false;
    if let Some(mut options) = json::elements(text, 0) {
        while let Some(option) = options.element() {
            if is(text, option.start, "category", b"\"mode\"") {
                return None;
            }
            taken |= is(text, option.start, "id", b"\"mode\"");
        }
    }
    let modes = modes?.as_bytes();
    json::member(modes, 0, "currentModeId")?;
    Some(if taken { MODE_CONFIG_ID } else { MODE })
}

fn is(text: &[u8], object: usize, key: &str, value: &[u8]) -> bool {
    json::member(text, object, key).is_some_and(|found| &text[found] == value)
}

/// Writes an array of options, with an optional one appended.
pub(super) fn write(options: &[u8], more: Option<&[u8]>, out: &mut Vec<u8>) {
    let mut splice = Splice::new(options);
    rename(options, 0, &mut splice);
    if let Some(more) = more
        && let Some(mut parts) = json::elements(options, 0)
    {
        let mut comma: &[u8] = b"";
        while parts.element().is_some() {
            comma = b",";
        }
        if let Some(end) = parts.end() {
            splice.replace(end - 1..end - 1, [comma, more].concat());
        }
    }
    splice.write(0..options.len(), out);
}

/// Renames the ids of the options in the array at `at` as version 2 requires.
pub(super) fn rename(text: &[u8], at: usize, splice: &mut Splice<'_>) {
    let Some(mut options) = json::elements(text, at) else {
        return;
    };
    while let Some(option) = options.element() {
        rename_key(text, option.start, "id", "configId", splice);
        let Some(mut values) = json::member_elements(text, option.start, "options") else {
            continue;
        };
        while let Some(value) = values.element() {
            rename_key(text, value.start, "group", "groupId", splice);
        }
    }
}

/// Renames a member of the object at `at`, unless it already has one with the new name.
fn rename_key(text: &[u8], at: usize, from: &str, to: &'static str, splice: &mut Splice<'_>) {
    let mut found: Vec<Range<usize>> = Vec::new();
    if let Some(mut members) = json::members(text, at) {
        while let Some(member) = members.member() {
            match &text[member.key.clone()] {
                key if key == from.as_bytes() => found.push(member.key),
                key if key == to.as_bytes() => return,
                _ => {}
            }
        }
    }
    for key in found {
        splice.replace(key, to.as_bytes());
    }
}

/// The options with another mode, if one of them has category `mode` and this value. Both are JSON
/// of version 1.
pub(super) fn with_mode(options: &str, mode: &str) -> Option<String> {
    let text = options.as_bytes();
    let mut listed = json::elements(text, 0)?;
    while let Some(option) = listed.element() {
        if !is(text, option.start, "category", b"\"mode\"") {
            continue;
        }
        let values = json::member(text, option.start, "options")?;
        let current = json::member(text, option.start, "currentValue")?;
        if !has_value(text, values.start, mode.as_bytes()) {
            return None;
        }
        let mut splice = Splice::new(text);
        splice.replace(current, mode.as_bytes());
        return String::from_utf8(splice.into_bytes()).ok();
    }
    None
}

/// Whether a value is listed at `at`, or in one of the groups listed there.
fn has_value(text: &[u8], at: usize, config: &[u8]) -> bool {
    let Some(mut values) = json::elements(text, at) else {
        return false;
    };
    std::iter::from_fn(|| values.element()).any(|value| {
        let mut group = json::member_elements(text, value.start, "options");
        let mut grouped = std::iter::from_fn(|| group.as_mut()?.element());
        is(text, value.start, "value", config)
            || grouped.any(|value| is(text, value.start, "value", config))
    })
}

/// The option that represents the modes. `current` is the JSON of the current mode, if it differs
/// from the one in `modes`.
pub(super) fn mode_option(id: &str, modes: &str, current: Option<&str>) -> Option<Vec<u8>> {
    let initial = json::text_member(modes, "currentModeId")?;
    let current = current.unwrap_or(initial);
    let text = modes.as_bytes();
    let mut values: Vec<Vec<u8>> = Vec::new();
    let mut known = false;
    if let Some(mut listed) = json::member_elements(text, 0, "availableModes") {
        while let Some(mode) = listed.element() {
            known |= is(text, mode.start, "id", current.as_bytes());
            let mut splice = Splice::new(text);
            rename_key(text, mode.start, "id", "value", &mut splice);
            let mut value = Vec::new();
            splice.write(mode, &mut value);
            values.push(value);
        }
    }
    if !known {
        // The current value of an option has to be one of its values.
        values.push(format!(r#"{{"value":{current},"name":{current}}}"#).into_bytes());
    }
    let mut option = format!(
        r#"{{"configId":"{id}","name":"Mode","category":"mode","type":"select","currentValue":{current},"options":["#
    )
    .into_bytes();
    option.extend(values.join(&b","[..]));
    option.extend(b"]");
    if let Some(meta) = json::text_member(modes, "_meta") {
        option.extend(b",\"_meta\":");
        option.extend(meta.as_bytes());
    }
    option.extend(b"}");
    Some(option)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
