//! Clients that come, look on, prompt, cancel, answer and leave at random, while processes are killed:
//! theirs, the session's host, the agent. Each client is shown what the log has, nobody waits for
//! ever, and no process is left.
//!
//! A case is a function of its seed, but for the order in which the processes run. `LIVE_SEED`
//! repeats one, `LIVE_CASES` sets how many there are, from that seed on if both are given.

use std::time::Instant;

use serde_json::{Value, json};

use super::peer::Peer;
use super::stage::{Member, Stage};
use crate::support::agent::GUARD;
use crate::support::env;
use crate::support::sessions::random::Random;

/// The most clients at a time.
const MOST: usize = 5;

/// How many things happen in a case.
const ROUNDS: usize = 24;

/// What the built-in engine is asked for.
const PROMPTS: [&str; 4] = ["/slow 1", "/run true", "/tool read", "/echo so"];

/// What the agent is asked for. The last one ends it.
const SCRIPTS: [&str; 8] = [
    "say so",
    "say one ; sleep 1 ; say two",
    "think hm ; tool a pending ; say then ; tool a completed",
    "tool b in_progress ; ask {\"toolCallId\":\"b\"} ; say asked",
    "say before ; hang",
    "flood 60 64",
    "say that ; fail -32603 no",
    "say last words ; exit 3",
];

#[test]
fn each_client_is_shown_what_the_log_has() {
    let seed = env::number("LIVE_SEED");
    let usual = match seed {
        Some(_) => 1,
        None if env::slow() => 420,
        None => 8,
    };
    let first = seed.unwrap_or_default();
    let cases = env::number("LIVE_CASES").unwrap_or(usual);
    for seed in first..first + cases {
        eprintln!("LIVE_SEED={seed}: {ROUNDS} rounds");
        case(seed);
    }
}

fn case(seed: u64) {
    let mut random = Random::of(seed);
    let stage = Stage::of(seed, &mut random);
    let mut first = stage.any_member(&mut random);
    let session = first.peer.new_session();
    first.peer.turn(&session, stage.words("first"));
    let mut members = vec![first];
    for _ in 0..ROUNDS {
        round(&stage, &mut members, &session, &mut random);
        for member in &mut members {
            member.peer.look();
        }
    }
    // The last word is said when nothing else is being answered.
    let mut last = stage.member(1, &mut random);
    last.peer.load(&session).unwrap();
    members.push(last);
    let mut peers: Vec<Peer> = members.into_iter().map(|member| member.peer).collect();
    let begun = Instant::now();
    while let Err(answer) = speaks(&mut peers, &session, &stage) {
        assert!(
            begun.elapsed() < GUARD,
            "a prompt is answered with {answer}"
        );
    }
    for one in 0..peers.len() {
        settle(&mut peers, one);
    }
    // Messages that share an id have one each in version 2.
    let mut readers = [1, 2].map(|version| Peer::start(&stage.store(), version));
    for reader in &mut readers {
        reader.load(&session).unwrap();
    }
    for peer in &mut peers {
        let expected = readers.iter().find(|reader| reader.version == peer.version);
        peer.wait_until_shown(&expected.unwrap().shown);
        assert!(peer.asked.is_empty(), "{:?}", peer.asked);
    }
    for peer in peers.into_iter().chain(readers) {
        peer.leave();
    }
    stage.ends();
}

/// One thing happens.
fn round(stage: &Stage, members: &mut Vec<Member>, session: &str, random: &mut Random) {
    // A host goes on without clients.
    let may_go = members.len() > 1 || stage.keeps && !members.is_empty();
    match random.below(16) {
        step if members.is_empty() || step < 3 && members.len() < MOST => {
            let mut member = stage.any_member(random);
            member.peer.observes = random.once_in(4);
            member.peer.load(session).unwrap();
            members.push(member);
        }
        3..=4 if may_go => {
            let gone = random.below(members.len());
            members.remove(gone).peer.kill();
        }
        5 if may_go => {
            let gone = random.below(members.len());
            members.remove(gone).peer.leave();
        }
        6 => stage.kill_agent(random),
        7 if random.once_in(2) => {
            if stage.kill_host() {
                let kept;
                (kept, *members) = std::mem::take(members)
                    .into_iter()
                    .partition(|member: &Member| member.is_kept);
                for mut member in kept {
                    member.peer.ended().unwrap_err();
                }
            }
        }
        8 => {
            let cancelled = json!({ "sessionId": session });
            one_of(members, random).notify("session/cancel", cancelled);
        }
        9..=11 => {
            let peer = one_of(members, random);
            peer.look();
            if let Some(request) = peer.asked.pop() {
                let option = random.below(2);
                peer.choose(&request, option);
            }
        }
        _ => {
            let last = SCRIPTS.len() - 1;
            let text = match (stage.wraps(), stage.agents_may_end()) {
                (false, _) => random.one_of(&PROMPTS),
                (true, true) => random.one_of(&SCRIPTS),
                (true, false) => random.one_of(&SCRIPTS[..last]),
            };
            one_of(members, random).prompt(session, text);
        }
    }
}

fn one_of<'a>(members: &'a mut [Member], random: &mut Random) -> &'a mut Peer {
    let one = random.below(members.len());
    &mut members[one].peer
}

/// Cancels what is being answered, and has the last client prompt. Fails with the answer, if that is
/// another one than the end of a turn.
fn speaks(peers: &mut [Peer], session: &str, stage: &Stage) -> Result<(), Value> {
    let last = peers.len() - 1;
    peers[last].notify("session/cancel", json!({ "sessionId": session }));
    reject(peers);
    peers[last].forget_answers();
    let id = peers[last].prompt(session, stage.words("last"));
    settle(peers, last);
    let mut answers = peers[last].forget_answers().into_iter();
    let answer = answers.find(|answer| answer["id"] == id).unwrap();
    if answer["result"]["stopReason"] == "end_turn" {
        Ok(())
    } else {
        Err(answer)
    }
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
            peer.choose(&request, usize::MAX);
        }
    }
}
