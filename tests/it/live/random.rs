//! Clients that come, prompt, cancel, answer, leave and are killed at random: each is shown what the
//! log has, and nobody waits for ever.
//!
//! A case is a function of its seed, but for the order in which the processes run. `LIVE_SEED`
//! repeats one, `LIVE_CASES` sets how many there are.

use serde_json::json;

use super::peer::Peer;
use crate::support::env;
use crate::support::sessions::random::Random;

/// The most clients at a time.
const MOST: usize = 5;

/// How many things happen in a case.
const STEPS: usize = 24;

#[test]
fn each_client_is_shown_what_the_log_has() {
    if let Some(seed) = env::number("LIVE_SEED") {
        return case(seed);
    }
    let cases = env::number("LIVE_CASES").unwrap_or(if env::slow() { 200 } else { 4 });
    for seed in 0..cases {
        eprintln!("LIVE_SEED={seed}");
        case(seed);
    }
}

fn case(seed: u64) {
    let mut random = Random::of(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut first = Peer::start(folder.path(), 1);
    let made = first.call("session/new", Peer::place(None)).unwrap();
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let id = first.prompt(&session, "/echo first");
    first.wait(|peer| !peer.waiting.contains(&id));
    let mut peers = vec![first];
    for step in 0..STEPS {
        match random.below(12) {
            0..=2 if peers.len() < MOST => {
                let mut peer = Peer::start(folder.path(), random.one_of(&[1, 2]));
                peer.load(&session).unwrap();
                peers.push(peer);
            }
            3 if peers.len() > 1 => {
                let gone = random.below(peers.len());
                peers.remove(gone).kill();
            }
            4 if peers.len() > 1 => {
                let gone = random.below(peers.len());
                peers.remove(gone).leave();
            }
            5 => {
                let one = random.below(peers.len());
                let cancelled = json!({ "sessionId": session });
                peers[one].notify("session/cancel", cancelled);
            }
            6..=7 => {
                let one = random.below(peers.len());
                answer(&mut peers[one], &mut random);
            }
            _ => {
                let one = random.below(peers.len());
                let slow = format!("/echo {step}");
                let text = random.one_of(&["/slow 1", "/run true", "/tool read", slow.as_str()]);
                peers[one].prompt(&session, text);
            }
        }
        for peer in &mut peers {
            peer.look();
        }
    }
    // The last word is said when nothing else is being answered.
    let mut last = Peer::start(folder.path(), 1);
    last.load(&session).unwrap();
    peers.push(last);
    while !speaks(&mut peers, &session) {}
    for one in 0..peers.len() {
        settle(&mut peers, one);
    }
    let mut reader = Peer::start(folder.path(), 2);
    reader.load(&session).unwrap();
    for peer in &mut peers {
        let expected = reader.shown.clone();
        peer.wait_until_shown(&expected);
        assert!(peer.asked.is_empty(), "{:?}", peer.asked);
    }
}

/// Cancels what is being answered, and has the last client prompt. Whether it is answered.
fn speaks(peers: &mut [Peer], session: &str) -> bool {
    let last = peers.len() - 1;
    peers[last].notify("session/cancel", json!({ "sessionId": session }));
    reject(peers);
    peers[last].forget_answers();
    let id = peers[last].prompt(session, "/echo last");
    settle(peers, last);
    let answers = peers[last].forget_answers();
    let answer = answers.iter().find(|answer| answer["id"] == id);
    answer.is_some_and(|answer| answer["result"]["stopReason"] == "end_turn")
}

/// Waits until one client has all its answers.
fn settle(peers: &mut [Peer], one: usize) {
    while !peers[one].waiting.is_empty() {
        reject(peers);
        let waiting = peers[one].waiting.clone();
        let came = |peer: &Peer| peer.waiting != waiting || !peer.asked.is_empty();
        peers[one].wait(|peer| peer.waiting.is_empty() || came(peer));
    }
}

/// Rejects what the clients are asked.
fn reject(peers: &mut [Peer]) {
    for peer in peers {
        peer.look();
        while let Some(request) = peer.asked.pop() {
            peer.answer(&request, "reject_once");
        }
    }
}

fn answer(peer: &mut Peer, random: &mut Random) {
    if let Some(request) = peer.asked.pop() {
        let option = random.one_of(&["allow_once", "reject_once"]);
        peer.answer(&request, option);
    }
}
