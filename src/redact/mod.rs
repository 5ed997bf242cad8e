//! Masks keys and tokens in what leaves the machine or is copied.
//!
//! The patterns are those of gitleaks, in `gitleaks.json` beside this file. They are looked for in
//! each string of a payload as it reads, not as it is written in JSON, and nothing else of the payload
//! changes. What is masked already stays as it is. A key that is cut into several payloads is not
//! found.

mod rules;

use std::borrow::Cow;
use std::ops::Range;

use crate::json::{self, Splice};

use rules::{Found, RULES};

/// The same JSON text with the keys and tokens in its strings masked. Borrowed if there are none.
pub fn payload(payload: &str) -> Cow<'_, str> {
    let bytes = payload.as_bytes();
    let mut splice = Splice::new(bytes);
    // The member whose value comes next: its name, and where the value begins.
    let mut member: Option<(Range<usize>, usize)> = None;
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'"', &bytes[at..]).map(|from| at + from) {
        let Some(end) = json::string_end(bytes, start) else {
            break;
        };
        at = end;
        let body = start + 1..end - 1;
        let next = json::skip_space(bytes, end);
        if bytes.get(next) == Some(&b':') {
            member = Some((body, json::skip_space(bytes, next + 1)));
            continue;
        }
        let name = member.take().filter(|(_, value)| *value == start);
        let name = name.map_or(Cow::Borrowed(""), |(name, _)| {
            json::unescaped(&payload[name])
        });
        let text = &payload[body.clone()];
        for found in in_member(&name, &json::unescaped(text)) {
            let ends = json::escaped_positions(text, [found.at.start, found.at.end]);
            let range = body.start + ends[0]..body.start + ends[1];
            splice.replace(range, mask(&found).into_bytes());
        }
    }
    spliced(payload, splice)
}

/// The same text with its keys and tokens masked. Borrowed if there are none.
pub fn text(text: &str) -> Cow<'_, str> {
    let mut splice = Splice::new(text.as_bytes());
    for found in RULES.find(text) {
        splice.replace(found.at.clone(), mask(&found).into_bytes());
    }
    spliced(text, splice)
}

/// A text with what is masked in it.
fn spliced<'a>(text: &'a str, splice: Splice<'_>) -> Cow<'a, str> {
    if splice.is_empty() {
        return Cow::Borrowed(text);
    }
    String::from_utf8(splice.into_bytes()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// What is written instead of a secret.
fn mask(found: &Found) -> String {
    format!("[redacted {}]", found.rule)
}

/// The secrets in the value of a member. Its name may say that the value is one.
fn in_member(name: &str, value: &str) -> Vec<Found> {
    if !RULES.has_keyword(name) {
        return RULES.find(value);
    }
    let head = format!("{name}=\"");
    let mut found = RULES.find(&format!("{head}{value}\""));
    let end = head.len() + value.len();
    found.retain(|found| head.len() <= found.at.start && found.at.end <= end);
    for found in &mut found {
        found.at = found.at.start - head.len()..found.at.end - head.len();
    }
    found
}

#[cfg(test)]
mod tests;
