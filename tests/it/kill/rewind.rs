//! Sessions that go back to any earlier message, those that were undone among them, while the program is
//! killed: each is before that or after it, and nothing that was recorded is gone.

use std::collections::BTreeMap;
use std::path::Path;

use rejoin::record::Kind;
use rejoin::store::LogReader;
use rejoin::sys::SessionId;
use serde_json::json;

use super::after;
use super::keys::Client;
use crate::support::place;
use crate::support::sessions::random::Random;

/// How many turns there are at first.
const TURNS: usize = 3;
/// How often a session goes back.
const REWINDS: usize = 6;

#[test]
fn a_session_that_goes_back_when_it_is_killed_is_before_or_after_that() {
    super::all(2, &|seed| {
        let folder = tempfile::tempdir().unwrap();
        case(seed, &folder.path().join("store"));
    });
}

/// One session that goes back several times, each time in a process that may be killed.
pub(crate) fn case(seed: u64, store: &Path) {
    let mut random = Random::of(seed);
    let mut client = Client::start(store, &[], 1).unwrap();
    let session = client.new_session().unwrap();
    let id = SessionId::parse(&session).unwrap();
    // What was said before each prompt, and is said now.
    let (mut before, mut said) = (BTreeMap::new(), Vec::new());
    for number in 0..TURNS {
        add(&mut client, &session, number, &mut before, &mut said);
    }
    for number in TURNS..TURNS + REWINDS {
        let all: Vec<_> = before.keys().cloned().collect();
        let target = &all[random.below(all.len())];
        let params = json!({"sessionId": session, "messageId": target});
        client.send(8, "_rejoin/rewind", &params);
        let is_answered = random.once_in(4);
        if is_answered {
            let answer = client.answer(8).unwrap();
            assert!(answer["error"].is_null(), "{answer}");
        } else {
            let bits = random.below(23);
            for _ in 0..random.below(1 << bits) {
                std::hint::spin_loop();
            }
        }
        client.agent.kill();
        place::at(store).await_idle().unwrap();
        client = Client::start(store, &[], 1).unwrap();
        client.resume(&session).unwrap();
        let now = prompts(after::store(store).read(&id).unwrap());
        if now != said || is_answered {
            assert_eq!(now, before[target]);
            said = now;
        }
        after::verify(store);
        add(&mut client, &session, number, &mut before, &mut said);
    }
    let mut all = prompts(after::store(store).read_all(&id).unwrap());
    all.sort();
    assert!(all.iter().eq(before.keys()), "{all:?}");
    client.agent.end_input();
    client.agent.wait().unwrap();
}

/// Sends a prompt.
fn add(
    client: &mut Client,
    session: &str,
    number: usize,
    before: &mut BTreeMap<String, Vec<String>>,
    said: &mut Vec<String>,
) {
    let params = json!({
        "sessionId": session,
        "prompt": [{"type": "text", "text": format!("/echo {number}")}],
        "_meta": {"rejoin": {"idempotencyKey": number.to_string()}},
    });
    client.ask(9, "session/prompt", &params).unwrap();
    // The answer to a repetition has the id of the message.
    let answer = client.ask(10, "session/prompt", &params).unwrap();
    let id = &answer["result"]["_meta"]["rejoin"]["messageId"];
    let id = id.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    before.insert(id.clone(), said.clone());
    said.push(id);
}

/// The ids of the prompts that a reader finds.
fn prompts(mut log: LogReader) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(entry) = log.next().unwrap() {
        let id = entry
            .record
            .id
            .filter(|_| entry.record.kind == Kind::Prompt);
        found.extend(id.map(str::to_owned));
    }
    found
}
