//! Properties of the view of any log.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::fold::{Fold, bare};
use super::table::TABLE;
use super::*;
use crate::conversation::{Transcript, TranscriptEntry};
use crate::record::{Kind, Record};
use crate::replay::properties::any_item;
use crate::replay::tests::{Item, exact, replay, update};
use crate::replay::{FindMessage, Options, live_record_line};

/// Any record of a log, including each kind of update in its full form.
fn item() -> impl Strategy<Value = Item> {
    let full = prop::sample::select(&TABLE[..]).prop_map(|(full, _)| update(full));
    prop_oneof![3 => any_item(), 1 => full]
}

fn shown(lines: &str) -> String {
    let mut out = Vec::new();
    V2View::new().lines(lines.as_bytes(), &mut out);
    String::from_utf8(out).unwrap()
}

/// The lines that a client is sent live, including the blocks of a prompt.
fn live(items: &[Item]) -> String {
    let mut out = Vec::new();
    for (kind, id, payload) in items {
        if *kind == Kind::Prompt {
            let lines = replay(&[(*kind, *id, payload.clone())], exact());
            out.extend(lines.as_bytes());
        } else {
            live_record_line("s", *kind, payload, &mut out);
        }
    }
    String::from_utf8(out).unwrap()
}

fn folded_v1(lines: &str) -> Transcript {
    let mut transcript = Transcript::default();
    lines.lines().for_each(|line| transcript.notification(line));
    transcript
}

/// The lines of the session itself, without those of its subagents.
fn own(lines: &str) -> String {
    let own = |line: &&str| line.contains(r#""sessionId":"s""#);
    lines.split_inclusive('\n').filter(own).collect()
}

fn search(items: &[Item], id: &str) -> bool {
    let mut search = FindMessage::new(id);
    let found = items
        .iter()
        .any(|(kind, own, payload)| search.record(&Record::sample(*kind, *own, payload)));
    found || search.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_view_folds_as_what_it_shows(
        items in prop::collection::vec(item(), 0..24),
        text_limit in 0_usize..40,
    ) {
        let limited = Options { text_limit, ..Options::default() };
        let replays = [Options::default(), exact(), limited].map(|options| replay(&items, options));
        for lines in replays.iter().chain([&live(&items)]) {
            let view = shown(lines);
            for line in view.lines() {
                let read: Result<&RawValue, _> = serde_json::from_str(line);
                prop_assert!(read.is_ok(), "{}", line);
            }
            prop_assert_eq!(bare(Fold::lines(&view)), bare(folded_v1(lines)));
            // How lines are grouped makes no difference.
            let (mut alone, mut out) = (V2View::new(), Vec::new());
            for line in lines.split_inclusive('\n') {
                alone.lines(line.as_bytes(), &mut out);
            }
            prop_assert_eq!(String::from_utf8(out).unwrap(), view);
        }
        // Nor do the ids depend on how the chunks were joined.
        let ids = |lines: &str| -> Vec<_> {
            Fold::lines(&shown(lines)).entries.into_iter().filter_map(|entry| match entry {
                TranscriptEntry::Message { message_id, .. } => Some(message_id),
                _ => None,
            }).collect()
        };
        prop_assert_eq!(ids(&replays[0]), ids(&replays[1]));
    }

    #[test]
    fn what_begins_with_a_message_is_the_rest_of_the_whole(
        items in prop::collection::vec(item(), 0..24),
        at in any::<prop::sample::Index>(),
    ) {
        let lines = replay(&items, Options::default());
        let whole = own(&shown(&lines));
        let ids: Vec<String> = whole.lines().filter_map(|line| {
            let update = &json::tree(line)?["params"]["update"];
            Role::of_chunk(update["sessionUpdate"].as_str()?)?;
            update["messageId"].as_str().map(str::to_owned)
        }).collect();
        prop_assert!(!search(&items, "nobody"));
        if ids.is_empty() {
            return Ok(());
        }
        let id = &ids[at.index(ids.len())];
        let mut out = Vec::new();
        V2View::new().from_message(id).lines(lines.as_bytes(), &mut out);
        // Subagents that began earlier are left out whole.
        let out = own(&String::from_utf8(out).unwrap());
        prop_assert!(whole.ends_with(&out));
        let first = json::tree(out.lines().next().unwrap()).unwrap();
        prop_assert_eq!(first["params"]["update"]["messageId"].as_str(), Some(id.as_str()));
        let before = &whole[..whole.len() - out.len()];
        let own = format!("\"messageId\":\"{id}\"");
        prop_assert!(!before.contains(&own));
        prop_assert!(search(&items, id));
    }

    #[test]
    fn no_bytes_are_a_panic(
        items in prop::collection::vec(item(), 1..12),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        junk in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut lines = replay(&items, Options::default()).into_bytes();
        lines.extend(junk);
        for (at, byte) in cuts {
            let at = at.index(lines.len().max(1));
            if let Some(place) = lines.get_mut(at) {
                *place = byte;
            }
            if byte % 5 == 0 {
                lines.truncate(at);
            }
        }
        let mut out = Vec::new();
        V2View::new().lines(&lines, &mut out);
        let mut out = Vec::new();
        V2View::new().from_message("m").lines(&lines, &mut out);
        let text = String::from_utf8_lossy(&lines);
        permission(&text);
        permission_outcome(&text);
        config_options(Some(&text), Some(&text));
    }
}
