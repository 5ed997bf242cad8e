//! What a client asks for until the program is killed under it.

use serde_json::{Value, json};

use crate::support::sessions::client::Client;
use crate::support::sessions::random::Random;
use crate::support::sessions::seen::Asked;

/// The most sessions that are worked on.
const SESSIONS: usize = 3;

/// Texts that are easily changed on the way.
const ODD: [&str; 8] = [
    "a\r\nb\r\n",
    " \t leading and trailing \t ",
    "\u{2028}\u{2029}\u{85}\u{feff}",
    "\u{1f469}\u{200d}\u{1f680} e\u{301} \u{10ffff}",
    "\u{0}\u{1}\u{1f}\u{7f}",
    "\"quotes\" \\ and / \u{8}\u{c}",
    r#"{"crc":"00000000","seq":7,"kind":"update","payload":{}}"#,
    "\n\n",
];

/// A stream of requests.
pub(super) struct Script<'a> {
    random: &'a mut Random,
}

impl<'a> Script<'a> {
    pub(super) fn new(random: &'a mut Random) -> Self {
        Self { random }
    }

    /// Does one thing. Nothing if the connection has ended.
    pub(super) fn step(&mut self, client: &mut Client) -> Option<()> {
        let sessions: Vec<String> = client
            .seen
            .iter()
            .filter(|(_, seen)| !seen.is_deleted() && !seen.is_asked(&Asked::Delete))
            .map(|(id, _)| id.clone())
            .collect();
        if sessions.is_empty() || sessions.len() < SESSIONS && self.random.once_in(8) {
            if self.random.once_in(4) {
                for _ in 0..self.random.below(30) {
                    client.begin_new()?;
                }
                return Some(());
            }
            let made = client.new_session()?;
            made.expect("a session can be made");
            return Some(());
        }
        let session = &sessions[self.random.below(sessions.len())];
        match self.random.below(24) {
            0..=8 => {
                let prompt = Asked::Prompt(self.prompt());
                client.begin(session, prompt).map(drop)
            }
            9..=12 => client.wait_for_all(),
            13..=15 => {
                for _ in 0..self.random.below(30) {
                    if !client.is_waiting() {
                        break;
                    }
                    client.take()?;
                }
                Some(())
            }
            16..=17 => {
                client.cancel(session);
                Some(())
            }
            18 => {
                let load = client.begin(session, Asked::Load)?;
                client.cancel_request(load);
                Some(())
            }
            19..=20 => client.begin(session, Asked::Load).map(drop),
            21 => client.begin(session, Asked::Resume).map(drop),
            22 => client.begin(session, Asked::Close).map(drop),
            _ if self.random.once_in(4) => client.begin(session, Asked::Delete).map(drop),
            _ => Some(()),
        }
    }

    /// The content of a prompt.
    fn prompt(&mut self) -> Value {
        let odd = self.random.one_of(&ODD);
        let text = match self.random.below(16) {
            0..=2 => format!("plain words, number {}", self.random.below(1000)),
            3 => format!("/flood {} 100", 1 + self.random.below(2000)),
            4 => format!(
                "/flood {} {}",
                1 + self.random.below(30),
                1 + self.random.below(100_000)
            ),
            5 | 6 => "/demo".to_owned(),
            7 => "/slow 0.5".to_owned(),
            8 => "/tool execute slow 5".to_owned(),
            9 => "/tool search fail".to_owned(),
            10 => format!("/echo {odd}"),
            11 => format!("/echo {}", odd.repeat(1 + self.random.below(20_000))),
            12 => "/plan".to_owned(),
            13 => format!(
                "/fail {}",
                self.random.one_of(&["error", "refusal", "max_tokens"])
            ),
            14 => "/recall 1".to_owned(),
            _ => odd.to_owned(),
        };
        let mut blocks = vec![json!({ "type": "text", "text": text })];
        if self.random.once_in(5) {
            let data = "iVBORw0KGgo=".repeat(1 + self.random.below(5_000));
            let image = json!({ "type": "image", "mimeType": "image/png", "data": data });
            blocks.insert(self.random.below(2), image);
        }
        if self.random.once_in(8) {
            let resource = json!({ "uri": "file:///a b", "text": odd, "mimeType": "text/plain" });
            blocks.push(json!({ "type": "resource", "resource": resource }));
        }
        Value::Array(blocks)
    }
}
