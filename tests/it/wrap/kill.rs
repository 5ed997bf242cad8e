//! Random conversations with a wrapped agent that ends, fails and prints junk, in a process that is
//! killed again and again: all that its client had received comes back, in order and to the byte.
//!
//! `KILL_SEED` and `KILL_CASES` are those of all such tests, see [`crate::kill`].

use std::collections::BTreeMap;

use crate::kill::after;
use crate::kill::process::{Kill, Modes, Process};
use crate::support::sessions::client::Client;
use crate::support::sessions::logged::survivors;
use crate::support::sessions::random::Random;
use crate::support::sessions::seen::Asked;
use crate::support::systems;
use crate::support::wrapped::Wrapped;

/// How often the program is killed on one store.
const KILLS: usize = 3;
/// The most that is asked for before that.
const STEPS: usize = 25;
/// The most sessions that are worked on.
const SESSIONS: usize = 3;

/// What the agent does in a turn. No call that has ended goes on: what was seen of it is the end.
const STEPS_OF_A_TURN: [&str; 24] = [
    "say one",
    "say two \u{2028} \u{1f469}\u{200d}\u{1f680}",
    "think hm",
    "tool a pending {\"rawInput\":{\"n\":1e300}}",
    "tool a in_progress",
    "tool b pending",
    "tool c completed",
    "tool d failed",
    "plan first",
    "update {\"sessionUpdate\": \"toast\", \"n\":[ 1.0 ]}",
    "update {\"sessionUpdate\":\"agent_message_chunk\",\"messageId\":\"own\",\"content\":{\"type\":\"text\",\"text\":\"x\"}}",
    "usage 7",
    "title news",
    "mode code",
    "commands",
    "junk text",
    "junk utf8",
    "junk json",
    "junk nobody",
    "junk long 300000",
    "stderr words",
    "flood 300 40",
    "flood 20 3000",
    "sleep 1",
];

/// How a turn ends. The first are the usual ones.
const ENDS: [&str; 12] = [
    "",
    "",
    "",
    "",
    "stop refusal",
    "fail -32001 no",
    "fail -32603 {\"k\":1}",
    "hang",
    "exit 3",
    "kill",
    "close-stdout",
    "fail-starts 1\nexit 1",
];

/// What an agent can do.
const KINDS: [&[&str]; 6] = [
    &["--resume"],
    &["--load", "--message-ids"],
    &["--load", "--load-after"],
    &["--load", "--resume", "--resume-lies", "--modes", "--config"],
    &["--modes"],
    &["--resume", "--forgetful", "--stderr-flood", "100000"],
];

#[test]
fn kill_loses_no_update_of_an_agent() {
    if !systems::can_run("kill_loses_no_update_of_an_agent") {
        return;
    }
    crate::kill::all(3, &case);
}

/// Several lives on one store, each but the last ended by a kill.
fn case(seed: u64) {
    let mut random = Random::of(seed);
    let folder = tempfile::tempdir().expect("a folder for the store");
    let store = folder.path().join("store");
    let flags = random.one_of(&KINDS).iter();
    let flags: Vec<String> = flags.map(|flag| (*flag).to_owned()).collect();
    let wrapped = Wrapped::new(folder.path(), &flags);
    let agent = &wrapped.arguments()[1..];
    let mut sessions = BTreeMap::new();
    for _ in 0..KILLS {
        let kill = Kill::any(&mut random);
        let mut process = Process::wrapping(&store, Modes::any(&mut random), agent);
        after::look(&mut process, &store, &mut sessions, &mut random);
        process.kill_after(&kill);
        for at in 0..STEPS {
            if step(&mut process.client, &mut random).is_none() || kill.is_due(at) {
                break;
            }
        }
        sessions = process.kill();
        survivors(&after::store(&store), &mut sessions);
        after::verify(&store);
    }
    let mut process = Process::wrapping(&store, Modes::any(&mut random), agent);
    after::look(&mut process, &store, &mut sessions, &mut random);
    process.leave();
    after::verify(&store);
    wrapped.gone().expect("nothing is left running");
}

/// Does one thing. Nothing if the connection has ended.
fn step(client: &mut Client, random: &mut Random) -> Option<()> {
    let sessions = client.seen.iter();
    let sessions = sessions.filter(|(_, s)| !s.is_deleted() && !s.is_asked(&Asked::Delete));
    let sessions: Vec<String> = sessions.map(|(id, _)| id.clone()).collect();
    if sessions.is_empty() || sessions.len() < SESSIONS && random.once_in(6) {
        // An agent that does not start this time starts the next.
        client.new_session()?.ok();
        return Some(());
    }
    let session = &sessions[random.below(sessions.len())];
    match random.below(20) {
        // Overlapping turns cannot be distinguished in what was seen.
        0..=7 if client.seen[session].is_prompted() => Some(()),
        0..=7 => client.begin(session, Asked::text(&turn(random))).map(drop),
        8..=11 => {
            // A turn that hangs ends no other way.
            for session in &sessions {
                client.cancel(session);
            }
            client.wait_for_all()
        }
        12..=14 => {
            for _ in 0..random.below(30) {
                if !client.is_waiting() {
                    break;
                }
                for session in &sessions {
                    client.cancel(session);
                }
                client.take()?;
            }
            Some(())
        }
        15 => {
            client.cancel(session);
            Some(())
        }
        16..=17 => client.begin(session, Asked::Load).map(drop),
        18 => client.begin(session, Asked::Resume).map(drop),
        _ => client.begin(session, Asked::Close).map(drop),
    }
}

/// A script for the agent.
fn turn(random: &mut Random) -> String {
    let mut steps = vec!["say so"];
    for _ in 0..random.below(10) {
        let step = random.one_of(&STEPS_OF_A_TURN);
        // Repeated text could not be distinguished after a replay in the middle of it.
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    // What a turn leaves open that ends well is the agent's affair.
    let end = random.one_of(&ENDS);
    if end.is_empty() || end.starts_with("stop") {
        for call in ["a", "b"] {
            let begun = format!("tool {call}");
            if steps.iter().any(|step| step.starts_with(&begun)) {
                steps.push(if call == "a" {
                    "tool a completed"
                } else {
                    "tool b failed"
                });
            }
        }
    }
    steps.push(end);
    steps.join("\n")
}
