//! One turn: does the steps of a prompt one after the other, and answers it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::flood;
use crate::harm;
use crate::link::{self, Begun, Refusal};
use crate::memory::Session;
use crate::message::{blocks, chunk, quoted, text_block};
use crate::script::{Step, steps};
use crate::serve::{Agent, By, Cancel};
use crate::version_2;

/// A turn under way.
pub(crate) struct Turn<'a> {
    agent: &'a Agent,
    session: &'a str,
    cancel: &'a Cancel,
    prompt: String,
    /// The message that text belongs to, if messages have ids.
    message: Option<String>,
    /// The tool calls that were shown.
    calls: HashSet<String>,
    begun: Option<Begun>,
    /// Updates for after the end.
    after: Vec<String>,
    /// All updates, for a later load.
    shown: Vec<String>,
}

/// How a turn ends.
enum Ending {
    Result(String),
    Error(Refusal),
}

impl<'a> Turn<'a> {
    pub(crate) fn new(agent: &'a Agent, session: &'a str, cancel: &'a Cancel) -> Self {
        let mut turn = Self {
            agent,
            session,
            cancel,
            prompt: String::new(),
            message: None,
            calls: HashSet::new(),
            begun: None,
            after: Vec::new(),
            shown: Vec::new(),
        };
        turn.next_message();
        turn
    }

    /// Answers a prompt, given as its request's id and its array of blocks.
    pub(crate) fn run(mut self, id: &str, prompt: &str) {
        prompt.clone_into(&mut self.prompt);
        let steps = steps(prompt);
        if self.agent.is_native() {
            // It does not take a prompt that begins like this, after reports of its state and other
            // updates. Other steps follow its refusal.
            let is_report = |step: &&Step| matches!(step.verb.as_str(), "state" | "update");
            let reports = steps.iter().take_while(is_report).count();
            let (reports, others) = steps.split_at(reports);
            if let Some((first, rest)) = others.split_first()
                && first.verb == "fail"
            {
                let (code, message) = first.rest.split_once(' ').unwrap_or_default();
                reports.iter().find_map(|step| self.step(step));
                self.agent.link.refuse(id, &failure(code, message));
                rest.iter().find_map(|step| self.step(step));
                return;
            }
            self.accept(id);
        } else {
            self.hear();
        }
        let ending = steps.iter().find_map(|step| self.step(step));
        let ending = ending.unwrap_or_else(|| match self.cancel.asked() {
            None => Ending::Result(r#"{"stopReason":"end_turn"}"#.to_owned()),
            Some(By::Session) => Ending::Result(r#"{"stopReason":"cancelled"}"#.to_owned()),
            Some(By::Request) => Ending::Error(Refusal::new(-32800, "Request cancelled")),
        });
        self.keep();
        self.cancel.turn_ends();
        match ending {
            ending if self.agent.is_native() => {
                self.rest(&ending);
                if self.agent.options.answer_late {
                    self.agent.link.answer(id, r#"{"messageId":"m-late"}"#);
                }
            }
            Ending::Result(result) => self.agent.link.answer(id, &result),
            Ending::Error(refusal) => self.agent.link.refuse(id, &refusal),
        }
        for update in &self.after {
            self.agent.link.update(self.session, update);
        }
    }

    /// Takes a prompt in version 2.
    fn accept(&mut self, id: &str) {
        let message = format!("m-{}", Uuid::now_v7().simple());
        let heard = version_2::user_message(&message, &self.prompt);
        let running = version_2::state("running", "");
        let (link, session) = (&self.agent.link, self.session);
        if !self.agent.options.answer_late {
            link.update(session, &heard);
            link.answer(id, &format!(r#"{{"messageId":"{message}"}}"#));
        }
        link.update(session, &running);
        self.shown.push(heard);
        self.keep();
        self.agent
            .set(self.session, |session| session.prompts += 1)
            .ok();
        self.next_message();
    }

    /// Reports the end of a turn in version 2.
    fn rest(&self, ending: &Ending) {
        let members = match ending {
            Ending::Result(result) => {
                let members = result.trim().strip_prefix('{');
                let members = members.and_then(|members| members.strip_suffix('}'));
                members.unwrap_or_default().to_owned()
            }
            Ending::Error(refusal) => {
                let (code, message) = (refusal.code, quoted(&refusal.message));
                format!(r#""stopReason":"error","error":{{"code":{code},"message":{message}}}"#)
            }
        };
        let idle = version_2::state("idle", &members);
        self.agent.link.update(self.session, &idle);
    }

    /// Takes note of what the user said, and shows it if the agent is of those that do.
    fn hear(&mut self) {
        let prompt = self.prompt.clone();
        let message = self.message.clone();
        for (block, _) in blocks(&prompt) {
            let update = chunk("user_message_chunk", message.as_deref(), block);
            if self.agent.options.echo_user {
                self.agent.link.update(self.session, &update);
            }
            self.shown.push(update);
        }
        let texts: Vec<_> = blocks(&prompt)
            .into_iter()
            .filter_map(|(_, text)| text)
            .collect();
        if self.agent.options.echo_joined {
            let all = text_block(&texts.join("\n\n"));
            let update = chunk("user_message_chunk", message.as_deref(), &all);
            self.agent.link.update(self.session, &update);
        }
        self.keep();
        if self.agent.options.title_of_prompt {
            self.name_after(&texts.concat());
        }
        self.agent
            .set(self.session, |session| session.prompts += 1)
            .ok();
        self.next_message();
    }

    /// Names a session that has no title after its first prompt, and says how it is called.
    fn name_after(&mut self, prompt: &str) {
        let title = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = match title.char_indices().nth(60) {
            Some((end, _)) => format!("{}…", &title[..end]),
            None => title,
        };
        let named = self.agent.set(self.session, |session| {
            session.title.get_or_insert(title);
        });
        if let Ok(title) = named.map(|session| session.title.unwrap_or_default()) {
            let title = quoted(&title);
            let update = format!(r#"{{"sessionUpdate":"session_info_update","title":{title}}}"#);
            self.agent.link.update(self.session, &update);
        }
    }

    /// Adds to the session what was shown since the last time.
    fn keep(&mut self) {
        let shown = std::mem::take(&mut self.shown);
        self.agent
            .set(self.session, |session| session.updates.extend(shown))
            .ok();
    }

    /// All texts of the prompt as one JSON string, without its quotes.
    fn prompt_text(&self) -> String {
        let texts = blocks(&self.prompt)
            .into_iter()
            .filter_map(|(_, text)| text);
        let quoted = quoted(&texts.collect::<Vec<_>>().join("\n\n"));
        quoted.trim_matches('"').to_owned()
    }

    fn next_message(&mut self) {
        let ids = self.agent.options.message_ids || self.agent.is_native();
        self.message = ids.then(|| format!("m-{}", Uuid::now_v7().simple()));
    }

    /// Sends an `update` object.
    fn show(&mut self, update: &str) {
        self.agent.link.update(self.session, update);
        self.shown.push(update.to_owned());
    }

    fn say(&mut self, text: &str) {
        let update = chunk(
            "agent_message_chunk",
            self.message.as_deref(),
            &text_block(text),
        );
        self.show(&update);
    }

    /// Does one step.
    fn step(&mut self, step: &Step) -> Option<Ending> {
        let (agent, session) = (self.agent, self.session);
        let link = &agent.link;
        let rest = step.rest.replace("$S", session);
        let rest = if rest.contains("$P") {
            rest.replace("$P", &self.prompt_text())
        } else {
            rest
        };
        let rest = rest.as_str();
        let (word, behind) = rest.split_once(' ').unwrap_or((rest, ""));
        match step.verb.as_str() {
            "say" => self.say(rest),
            "think" => {
                let message = self.message.as_deref();
                let update = chunk("agent_thought_chunk", message, &text_block(rest));
                self.show(&update);
            }
            "update" => self.show(rest),
            "params" => link.notify("session/update", &format!(r#"{{"sessionId":"{session}",{rest}}}"#)),
            "line" => link.line(rest),
            "tool" => self.tool(rest),
            "ask" => {
                let answer = self.ask(rest);
                self.say(&format!("permission: {answer}"));
            }
            "ask-quietly" => drop(self.ask(rest)),
            "read" => {
                let params = format!(r#"{{"sessionId":"{session}","path":{}}}"#, quoted(rest));
                let answer = link.ask("fs/read_text_file", &params);
                self.say(&format!("read: {answer}"));
            }
            "write" => {
                let (path, text) = (quoted(word), quoted(behind));
                let params = format!(r#"{{"sessionId":"{session}","path":{path},"content":{text}}}"#);
                let answer = link.ask("fs/write_text_file", &params);
                self.say(&format!("write: {answer}"));
            }
            "terminal" => self.terminal(rest),
            "request" => {
                let answer = link.ask(word, or_object(behind));
                self.say(&format!("{word}: {answer}"));
            }
            "begin" => self.begun = Some(link.begin(word, or_object(behind))),
            "begin-many" => {
                let (method, params) = behind.split_once(' ').unwrap_or((behind, "{}"));
                let begun: Vec<_> = (0..number(word)).map(|_| link.begin(method, params)).collect();
                let answer = begun.into_iter().next_back().map(Begun::wait);
                self.say(&format!("the last of them: {}", answer.unwrap_or_default()));
            }
            "cancel-begun" => {
                if let Some(begun) = &self.begun {
                    link.notify("$/cancel_request", &format!(r#"{{"requestId":{}}}"#, begun.id));
                }
            }
            "end-begun" => {
                let answer = self.begun.take().map(Begun::wait);
                self.say(&format!("begun: {}", answer.unwrap_or_default()));
            }
            "notify" => link.notify(word, or_object(behind)),
            "junk" => harm::junk(link, rest),
            "flood" => {
                let size = behind.parse().unwrap_or(64);
                let message = self.message.as_deref();
                flood::flood(link, session, message, number(word), size);
            }
            "ticks" => {
                let rest = Duration::from_micros(number(behind) as u64);
                flood::ticks(link, session, number(word), rest);
            }
            "usage" => self.show(&format!(
                r#"{{"sessionUpdate":"usage_update","used":{},"size":1000}}"#,
                number(rest)
            )),
            "commands" => self.show(&agent.commands()),
            "state" => {
                let members = behind.strip_prefix('{').and_then(|behind| behind.strip_suffix('}'));
                link.update(session, &version_2::state(word, members.unwrap_or_default()));
            }
            "mode" => self.show(&format!(
                r#"{{"sessionUpdate":"current_mode_update","currentModeId":{}}}"#,
                quoted(rest)
            )),
            "set-mode" => {
                agent.set(session, |session| session.mode = Some(rest.to_owned())).ok();
            }
            "set-config" => {
                let (name, value) = (word.to_owned(), behind.to_owned());
                agent.set(session, |session| drop(session.config.insert(name, value))).ok();
            }
            "config" => {
                let options = agent.set(session, |_| {});
                if let Ok(options) = options.map(|session| agent.config(&session)) {
                    self.show(&format!(
                        r#"{{"sessionUpdate":"config_option_update","configOptions":{options}}}"#
                    ));
                }
            }
            "title" => self.show(&format!(
                r#"{{"sessionUpdate":"session_info_update","title":{}}}"#,
                quoted(rest)
            )),
            "notice" => self.show(&format!(
                r#"{{"sessionUpdate":"notice","severity":"info","title":{}}}"#,
                quoted(rest)
            )),
            "plan" if agent.is_native() => self.show(&version_2::plan(rest)),
            "plan" => self.show(&format!(
                r#"{{"sessionUpdate":"plan","entries":[{{"content":{},"priority":"medium","status":"pending"}}]}}"#,
                quoted(rest)
            )),
            "stop" => return Some(Ending::Result(format!(r#"{{"stopReason":{}}}"#, quoted(rest)))),
            "result" => return Some(Ending::Result(rest.to_owned())),
            "fail" => return Some(Ending::Error(failure(word, behind))),
            "hang" => self.cancel.wait(),
            "hang-hard" => loop {
                std::thread::park();
            },
            "exit" => agent.exit(i32::try_from(number(rest)).unwrap_or(1)),
            "kill" => std::process::abort(),
            "close-stdin" => {
                let deaf = chunk("agent_message_chunk", self.message.as_deref(), &text_block("deaf"));
                harm::close_stdin(&link::update_line(session, &deaf));
            }
            "close-stdout" => harm::close_stdout(),
            "stderr" => eprintln!("{rest}"),
            "stderr-flood" => harm::stderr_flood(number(rest)),
            "sleep" => std::thread::sleep(Duration::from_millis(number(rest) as u64)),
            "after" => {
                let message = self.message.as_deref();
                self.after.push(chunk("agent_message_chunk", message, &text_block(rest)));
            }
            "after-update" => self.after.push(rest.to_owned()),
            "context" => self.say(&self.prompt.clone()),
            "history" => {
                let count = agent.set(session, |_| {}).map_or(0, |session| session.prompts);
                self.say(&format!("{count} prompts with this one"));
            }
            // A title that only the list has.
            "list-title" => {
                let title = Some(rest.to_owned());
                agent.set(session, |session| session.title = title).ok();
            }
            "another-session" => {
                if let Ok(this) = agent.set(session, |_| {}) {
                    let title = Some(rest.to_owned());
                    agent.memory().add(Session { title, ..Session::new(&this.cwd) });
                }
            }
            "fail-starts" => {
                let mut memory = agent.memory();
                memory.fail_starts = number(rest);
                memory.save();
            }
            other => self.say(&format!("{other} is no step")),
        }
        None
    }

    /// A tool call's id, status and perhaps further members, as an object.
    fn tool(&mut self, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (id, status, more) = (word(), word(), word());
        let first = self.calls.insert(id.clone());
        let kind = if first && !self.agent.is_native() {
            "tool_call"
        } else {
            "tool_call_update"
        };
        let title = if first {
            format!(r#""title":{},"#, quoted(&format!("Tool {id}")))
        } else {
            String::new()
        };
        let more = more.trim();
        let more = more
            .strip_prefix('{')
            .and_then(|more| more.strip_suffix('}'))
            .unwrap_or(more);
        let comma = if more.is_empty() { "" } else { "," };
        self.show(&format!(
            r#"{{"sessionUpdate":"{kind}","toolCallId":{},{title}"status":{}{comma}{more}}}"#,
            quoted(&id),
            quoted(&status)
        ));
    }

    /// Asks for permission, and returns what was answered. Options behind ` with ` are offered
    /// beside yes and no.
    fn ask(&mut self, call: &str) -> String {
        let (call, more) = call.split_once(" with ").unwrap_or((call, ""));
        let call = match call {
            "" => r#"{"toolCallId":"asked","title":"Shall I?"}"#,
            call => call,
        };
        let comma = if more.is_empty() { "" } else { "," };
        let options = format!(
            r#"[{{"optionId":"yes","name":"Yes","kind":"allow_once"}}{comma}{more},{}]"#,
            r#"{"optionId":"no","name":"No","kind":"reject_once"}"#
        );
        let session = self.session;
        let params = if self.agent.is_native() {
            let permission = version_2::permission(session, call);
            format!(r#"{{{permission},"options":{options}}}"#)
        } else {
            format!(r#"{{"sessionId":"{session}","toolCall":{call},"options":{options}}}"#)
        };
        self.agent.link.ask("session/request_permission", &params)
    }

    /// Runs a command in a terminal of the client, shown in a tool call.
    fn terminal(&mut self, command: &str) {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let session = self.session;
        let link = &self.agent.link;
        let params = format!(
            r#"{{"sessionId":"{session}","command":"sh","args":["-c",{}]}}"#,
            quoted(command)
        );
        let created = link.ask("terminal/create", &params);
        let created: Value = serde_json::from_str(&created).unwrap_or_default();
        let Some(terminal) = created["terminalId"].as_str() else {
            return self.say(&format!("terminal: {created}"));
        };
        let terminal = quoted(terminal);
        let call = format!("run-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        self.show(&format!(
            r#"{{"sessionUpdate":"tool_call","toolCallId":"{call}","title":{},"kind":"execute","status":"in_progress","content":[{{"type":"terminal","terminalId":{terminal}}}]}}"#,
            quoted(command)
        ));
        let params = format!(r#"{{"sessionId":"{session}","terminalId":{terminal}}}"#);
        link.ask("terminal/wait_for_exit", &params);
        let output = link.ask("terminal/output", &params);
        self.show(&format!(
            r#"{{"sessionUpdate":"tool_call_update","toolCallId":"{call}","status":"completed"}}"#
        ));
        link.ask("terminal/release", &params);
        self.say(&format!("output: {output}"));
    }
}

/// The error of `fail CODE MESSAGE {data}`.
fn failure(code: &str, rest: &str) -> Refusal {
    let (message, data) = match rest.find(" {") {
        Some(at) => (&rest[..at], Some(rest[at + 1..].to_owned())),
        None => (rest, None),
    };
    Refusal {
        data,
        ..Refusal::new(code.parse().unwrap_or(-32603), message)
    }
}

fn or_object(text: &str) -> &str {
    if text.is_empty() { "{}" } else { text }
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_default()
}
