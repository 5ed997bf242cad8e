//! Masks keys and tokens in what leaves the machine or is copied.
//!
//! Which texts are some is decided by the patterns of gitleaks, in `gitleaks.json` beside this file, and
//! by those in `kinds.rs`. They are looked for in each string of a payload as it reads, not as it is
//! written in JSON, and nothing else of the payload changes. What is masked already stays as it is. A
//! key that is cut into several payloads is not found.
//!
//! Titles are beginnings of what was said, so a title may end within a key, where no pattern finds it.
//! Its end is compared with the keys that were found in the same payload and in earlier ones.

pub mod command;
mod kinds;
mod rules;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Mutex;

use crate::json::{self, Splice};
use crate::sys::lock;

use rules::{FoundSecret, RULES};

/// The most secrets that are kept to recognise their beginnings in titles.
const KEPT: usize = 64;

/// The shortest beginning of a secret that is masked, in bytes.
const SHORTEST: usize = 8;

/// A secret that was masked.
#[derive(Clone, Debug)]
struct MaskedSecret {
    text: String,
    rule: &'static str,
    /// Whether the string with it may end within it.
    is_cut: bool,
}

/// Masks the payloads of a conversation in their order, and counts what it masks.
#[derive(Debug, Default)]
pub struct Redactor(Mutex<SeenSecrets>);

/// The secrets that a redactor has seen.
#[derive(Debug, Default)]
struct SeenSecrets {
    /// The hashes of the secrets that were masked, with the rule that found each.
    masked: BTreeMap<u64, &'static str>,
    /// The first secrets of the conversation, whose beginnings its titles may have.
    first: Vec<MaskedSecret>,
}

impl Redactor {
    /// Masks the keys and tokens in the strings of a JSON text, which is borrowed if there are none.
    pub fn payload<'a>(&self, payload: &'a str) -> Cow<'a, str> {
        let mut seen = lock(&self.0);
        let (masked, found) = mask(payload, &seen.first);
        for secret in &found {
            let is_beginning = |other: &MaskedSecret| {
                other.text.len() > secret.text.len() && other.text.starts_with(&secret.text)
            };
            if secret.is_cut && found.iter().chain(&seen.first).any(is_beginning) {
                continue;
            }
            let mut hasher = DefaultHasher::new();
            secret.text.hash(&mut hasher);
            seen.masked.entry(hasher.finish()).or_insert(secret.rule);
        }
        for secret in found {
            seen.keep(secret);
        }
        masked
    }

    /// Takes note of the secrets in a payload that is masked later, or not at all.
    pub fn expect(&self, payload: &str) {
        let mut seen = lock(&self.0);
        let (_, found) = mask(payload, &seen.first);
        for secret in found {
            seen.keep(secret);
        }
    }

    /// Forgets the secrets of a conversation, but not how many there were.
    pub fn next_conversation(&self) {
        lock(&self.0).first.clear();
    }

    /// How many different secrets were masked.
    pub fn masked(&self) -> usize {
        lock(&self.0).masked.len()
    }

    /// How many different secrets of each kind were masked, by the names that masks have.
    pub fn kinds(&self) -> BTreeMap<&'static str, usize> {
        let mut kinds = BTreeMap::new();
        for rule in lock(&self.0).masked.values() {
            *kinds.entry(*rule).or_default() += 1;
        }
        kinds
    }

    /// Counts what another redactor has masked, too: what both have masked counts once.
    pub fn count_of(&self, other: &Self) {
        let masked = lock(&other.0).masked.clone();
        lock(&self.0).masked.extend(masked);
    }
}

impl SeenSecrets {
    fn keep(&mut self, secret: MaskedSecret) {
        let is_kept = |known: &MaskedSecret| known.text == secret.text;
        if self.first.len() < KEPT && !self.first.iter().any(is_kept) {
            self.first.push(secret);
        }
    }
}

/// The kinds of keys and tokens that are looked for, by the names that masks have.
pub fn kinds() -> BTreeSet<&'static str> {
    RULES.ids()
}

/// Masks the keys and tokens in the strings of a JSON text, which is borrowed if there are none.
pub fn payload(payload: &str) -> Cow<'_, str> {
    mask(payload, &[]).0
}

/// Masks the keys and tokens in a text, which is borrowed if there are none.
pub fn text(text: &str) -> Cow<'_, str> {
    let mut splice = Splice::new(text.as_bytes());
    for found in RULES.find(text) {
        splice.replace(found.at.clone(), label(found.rule).into_bytes());
    }
    spliced(text, splice)
}

/// A string that may end within a secret.
struct CutText<'a> {
    body: Range<usize>,
    text: Cow<'a, str>,
    /// Where what was masked in it ends.
    masked: usize,
    is_title: bool,
}

/// A payload with its secrets masked, and these. `earlier` has those of the same conversation.
fn mask<'a>(payload: &'a str, earlier: &[MaskedSecret]) -> (Cow<'a, str>, Vec<MaskedSecret>) {
    let bytes = payload.as_bytes();
    let mut splice = Splice::new(bytes);
    let (mut secrets, mut cuts) = (Vec::new(), Vec::new());
    // The member whose value comes next: its name, and where the value begins.
    let mut member: Option<(Range<usize>, usize)> = None;
    // The value of a member `name`, of which a member `value` behind it is the value.
    let mut named: Option<Range<usize>> = None;
    let mut at = 0;
    while let Some(start) = memchr::memchr(b'"', &bytes[at..]).map(|from| at + from) {
        let Some(end) = json::string_end(bytes, start) else {
            break;
        };
        at = end;
        let body = start + 1..end - 1;
        let next = json::skip_space(bytes, end);
        if bytes.get(next) == Some(&b':') {
            named = named.filter(|_| payload[body.clone()] == *"value");
            member = Some((body, json::skip_space(bytes, next + 1)));
            continue;
        }
        let name = member.take().filter(|(_, value)| *value == start);
        let name = name.map_or("", |(name, _)| &payload[name]);
        let is_title = name == "title";
        let named_here = named.take();
        if name == "name" {
            named = Some(body.clone());
        }
        let name = match named_here {
            Some(named) => json::unescaped(&payload[named]),
            None => json::unescaped(name),
        };
        let text = &payload[body.clone()];
        let value = json::unescaped(text);
        let is_cut = is_title || value.ends_with('…') || value.ends_with("...");
        let found = in_member(&name, &value);
        for found in &found {
            let range = escaped(text, &body, &found.at);
            splice.replace(range, label(found.rule).into_bytes());
            secrets.push(MaskedSecret {
                text: value[found.at.clone()].to_owned(),
                rule: found.rule,
                is_cut,
            });
        }
        if is_cut {
            cuts.push(CutText {
                body,
                masked: found.last().map_or(0, |last| last.at.end),
                text: value,
                is_title,
            });
        }
    }
    for cut in cuts {
        let earlier = if cut.is_title { earlier } else { &[] };
        let beginning = secrets.iter().chain(earlier);
        if let Some((from, rule)) =
            ends_within(&cut.text, beginning).filter(|(at, _)| at.start >= cut.masked)
        {
            let range = escaped(&payload[cut.body.clone()], &cut.body, &from);
            splice.replace(range, label(rule).into_bytes());
        }
    }
    (spliced(payload, splice), secrets)
}

/// Where a part of a string is in the payload; `body` is where its text is there, as it is written.
fn escaped(text: &str, body: &Range<usize>, at: &Range<usize>) -> Range<usize> {
    let ends = json::escaped_positions(text, [at.start, at.end]);
    body.start + ends[0]..body.start + ends[1]
}

/// The end of a text that is the beginning of one of these secrets, and the rule that has found it.
fn ends_within<'a>(
    text: &str,
    secrets: impl Iterator<Item = &'a MaskedSecret>,
) -> Option<(Range<usize>, &'static str)> {
    let text = text.trim_end_matches(['…', '.']);
    let beginnings = secrets.filter_map(|secret| {
        let longest = (secret.text.len() - 1).min(text.len());
        let mut lengths = (SHORTEST..=longest).rev();
        let length = lengths.find(|&length| {
            secret.text.is_char_boundary(length) && text.ends_with(&secret.text[..length])
        })?;
        Some((text.len() - length..text.len(), secret.rule))
    });
    beginnings.min_by_key(|(range, _)| range.start)
}

/// A text with what is masked in it.
fn spliced<'a>(text: &'a str, splice: Splice<'_>) -> Cow<'a, str> {
    if splice.is_empty() {
        return Cow::Borrowed(text);
    }
    String::from_utf8(splice.into_bytes()).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// How a mask begins.
const MASK: &str = "[redacted ";

/// The text that is written instead of a secret.
fn label(rule: &str) -> String {
    format!("{MASK}{rule}]")
}

/// The parts of a text before, between and behind its masks.
pub fn around_masks(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(start) = text[at..].find(MASK).map(|found| at + found) {
        at = start + MASK.len();
        let rule = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let rest = text[at..].trim_start_matches(rule);
        if let Some(rest) = rest.strip_prefix(']') {
            parts.push(&text[from..start]);
            at = text.len() - rest.len();
            from = at;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// The secrets in the value of a member. Its name may say that the value is one.
fn in_member(name: &str, value: &str) -> Vec<FoundSecret> {
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
