//! The config options of a session: first the one that chooses the agent, then those of the agent.
//!
//! Clients that know config options ignore modes and models, and learn of new ones only as options. So
//! the modes and models of an agent that has no options for them become options, too.

use std::sync::{Mutex, MutexGuard};

use serde_json::{Value, json};

use crate::engine::known::FoundAgent;
use crate::engine::outlet::BlockEntry;
use crate::engine::{AttachOutcome, Block, EngineEvent, EventFilter};
use crate::json::{
    self, Members, Object, quoted, string_member, text_elements, text_member, with_members,
};
use crate::protocol::meta::{MODE_CONFIG_ID, MODEL_CONFIG_ID};
use crate::protocol::{UpdateKind, method};
use crate::record::Kind;
use crate::sys::lock;

/// The id of the option that chooses the agent.
const AGENT: &str = "rejoin_agent";
/// Its name; an option of an agent with this name gets the agent's name behind it.
const NAME: &str = "Agent";

/// The options of one session with one agent.
#[derive(Debug)]
pub(super) struct Options(Mutex<OptionsState>);

#[derive(Clone, Debug)]
struct OptionsState {
    /// The agents to choose from.
    choices: Vec<Value>,
    /// The id of the chosen one.
    chosen: String,
    /// The name of the current one for people.
    name: String,
    /// The agent's own options, as JSON text.
    options: Option<String>,
    /// Its modes and models.
    modes: Value,
    models: Value,
    /// The last update of the options in the log.
    logged: Option<String>,
    /// Whether the agent has said which commands it has.
    has_commands: bool,
    /// Whether the session has another agent by now.
    is_over: bool,
}

/// The target of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionTarget {
    /// The agent.
    Agent,
    /// A setting of the agent with a method of its own: the method's name, and that of its
    /// parameter.
    Own(&'static str, &'static str),
    /// An option of the agent.
    Option,
}

impl Options {
    /// The options of a session with the agent `current`. `logged` is the last update of the
    /// options in the log.
    pub(super) fn new(found: &[FoundAgent], current: &FoundAgent, logged: Option<String>) -> Self {
        Self(Mutex::new(OptionsState {
            choices: found.iter().map(FoundAgent::choice).collect(),
            chosen: current.id.clone(),
            name: current.name.clone(),
            options: None,
            modes: Value::Null,
            models: Value::Null,
            logged,
            has_commands: false,
            is_over: false,
        }))
    }

    /// A result of `session/options` of the agent, with the choice of the agent, and with the present modes
    /// and models unless it has some.
    pub(super) fn offered(&self, result: &str) -> String {
        let mut state = self.lock().clone();
        state.take(result);
        // Modes and models are options here.
        with_members(
            result,
            &["modes", "models"],
            &[("configOptions", &state.merged())],
        )
    }

    /// The agent that the values for the options of a request choose.
    pub(super) fn chosen_with(params: &str) -> Option<String> {
        let mut given = text_elements(text_member(params, "configOptions")?);
        let ours =
            given.find(|given| string_member(given, "configId").as_deref() == Some(AGENT))?;
        string_member(ours, "value")
    }

    /// The target of the option with this id.
    pub(super) fn target(id: &str) -> OptionTarget {
        match id {
            AGENT => OptionTarget::Agent,
            MODE_CONFIG_ID => OptionTarget::Own(method::SESSION_SET_MODE, "modeId"),
            MODEL_CONFIG_ID => OptionTarget::Own(method::SESSION_SET_MODEL, "modelId"),
            _ => OptionTarget::Option,
        }
    }

    /// The agent that a log has chosen, by the last update of the options in it.
    pub(super) fn chosen_in(update: &str) -> Option<String> {
        let mut options = text_elements(text_member(update_in(update), "configOptions")?);
        let ours = options.find(|option| has_id(option, AGENT))?;
        string_member(ours, "currentValue")
    }

    /// The chosen agent's id.
    pub(super) fn chosen(&self) -> String {
        self.lock().chosen.clone()
    }

    /// Another agent is chosen, of those that can be started now.
    pub(super) fn choose(&self, id: &str, found: &[FoundAgent]) {
        let mut state = self.lock();
        id.clone_into(&mut state.chosen);
        state.choices = found.iter().map(FoundAgent::choice).collect();
    }

    /// The session has another agent: nothing of this one is recorded any longer.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
    }

    /// Whether the agent has said which commands it has.
    pub(super) fn has_commands(&self) -> bool {
        self.lock().has_commands
    }

    /// The result of a request that sets an option.
    pub(super) fn result(&self) -> String {
        Object::new()
            .raw("configOptions", &self.lock().merged())
            .end()
    }

    /// The update with all options, which is logged and sent.
    pub(super) fn update(&self) -> String {
        let mut state = self.lock();
        let update = state.update();
        state.logged = Some(update.clone());
        update
    }

    /// The agent's result of a request that sets an option, with all options.
    pub(super) fn with_all(&self, result: &str) -> String {
        let mut state = self.lock();
        state.take(result);
        state.with_all(result)
    }

    /// Adds all options to the agent's answer when it opened the session, and to what is logged. Its
    /// snapshots have no options: a replay ends with those in the log, and the answer has the current ones.
    pub(super) fn attached(&self, mut attached: AttachOutcome) -> AttachOutcome {
        let mut state = self.lock();
        let answer = attached.answer.as_deref().unwrap_or("{}");
        state.take(answer);
        attached.answer = Some(state.with_all(answer));
        attached.info = state.block(&attached.info);
        let options = UpdateKind::ConfigOptions;
        if attached.info.is_empty() {
            attached.gone.retain(|name| *name != options.name());
        }
        let mut snapshots = Block::default();
        for entry in attached.snapshots.iter() {
            if UpdateKind::of(update_in(entry.payload).as_bytes()) != options {
                snapshots.push_entry(entry);
            }
        }
        attached.snapshots = snapshots;
        attached
    }

    /// The update with all options if the log has others.
    pub(super) fn change(&self) -> Option<String> {
        let logged = self.lock().logged.clone()?;
        Some(self.update()).filter(|update| *update != logged)
    }

    /// A block of the agent, with all options.
    pub(super) fn block(&self, block: &Block) -> Block {
        self.lock().block(block)
    }

    fn lock(&self) -> MutexGuard<'_, OptionsState> {
        lock(&self.0)
    }
}

impl EventFilter for Options {
    fn filter(&self, event: EngineEvent) -> Option<EngineEvent> {
        let mut state = self.lock();
        if state.is_over {
            return None;
        }
        Some(match event {
            EngineEvent::Block(block) if block.iter().any(|entry| entry.kind == Kind::Info) => {
                EngineEvent::Block(state.block(&block))
            }
            event => event,
        })
    }
}

impl OptionsState {
    /// Takes the settings out of a result of the agent.
    fn take(&mut self, result: &str) {
        if let Some(options) = text_member(result, "configOptions") {
            self.options = Some(options.to_owned());
        }
        for (name, own) in [("modes", &mut self.modes), ("models", &mut self.models)] {
            if let Some(value) = text_member(result, name).and_then(json::tree) {
                *own = value;
            }
        }
    }

    fn with_all(&self, result: &str) -> String {
        with_members(result, &[], &[("configOptions", &self.merged())])
    }

    fn block(&mut self, block: &Block) -> Block {
        let mut out = Block::default();
        for entry in block.iter() {
            if entry.kind != Kind::Info {
                out.push_entry(entry);
                continue;
            }
            let update = update_in(entry.payload);
            let kind = UpdateKind::of(update.as_bytes());
            let is_option = match kind {
                UpdateKind::ConfigOptions => {
                    self.take(update);
                    true
                }
                UpdateKind::CurrentMode => {
                    let mode = text_member(update, "currentModeId").and_then(json::tree);
                    set(&mut self.modes, "currentModeId", mode)
                }
                UpdateKind::AvailableCommands => {
                    self.has_commands = true;
                    false
                }
                UpdateKind::Other => {
                    let model = text_member(update, "modelId").and_then(json::tree);
                    set(&mut self.models, "currentModelId", model)
                }
                _ => false,
            };
            if kind != UpdateKind::ConfigOptions {
                out.push_entry(entry);
            }
            if is_option {
                let update = self.update();
                out.push_entry(BlockEntry {
                    known: self.logged.as_deref() == Some(&*update),
                    ..BlockEntry::new(Kind::Info, None, &update)
                });
                self.logged = Some(update);
            }
        }
        out
    }

    fn update(&self) -> String {
        let update = UpdateKind::ConfigOptions.object();
        update.raw("configOptions", &self.merged()).end()
    }

    /// All options, as JSON text.
    fn merged(&self) -> String {
        let own = text_elements(self.options.as_deref().unwrap_or("[]"));
        let own = own.filter(|option| {
            ![AGENT, MODE_CONFIG_ID, MODEL_CONFIG_ID]
                .iter()
                .any(|id| has_id(option, id))
        });
        let own: Vec<&str> = own.collect();
        let has = |category: &str| {
            let mut own = own.iter();
            own.any(|option| string_member(option, "category").as_deref() == Some(category))
        };
        let mut all = vec![self.agent_option().to_string()];
        let modes = || option(MODE_CONFIG_ID, "Mode", &self.modes, "Mode", "id");
        let models = || option(MODEL_CONFIG_ID, "Model", &self.models, "Model", "modelId");
        all.extend((!has("mode")).then(modes).flatten());
        all.extend((!has("model")).then(models).flatten());
        all.extend(own.iter().map(|option| self.renamed(option)));
        format!("[{}]", all.join(","))
    }

    fn agent_option(&self) -> Value {
        json!({
            "id": AGENT,
            "name": NAME,
            "description": "Who answers the next prompts. Another agent is given the conversation.",
            "category": "_agent",
            "type": "select",
            "currentValue": self.chosen,
            "options": self.choices,
        })
    }

    /// An option of the agent, with a name that ours does not have.
    fn renamed(&self, option: &str) -> String {
        if string_member(option, "name").as_deref() != Some(NAME) {
            return option.to_owned();
        }
        let name = quoted(&format!("{NAME} ({})", self.name));
        Members::of(option).with("name", name).text()
    }
}

/// Sets the current value of modes or models, if the agent has any. Returns whether it has.
fn set(settings: &mut Value, member: &str, value: Option<Value>) -> bool {
    let Some(value) = value.filter(|_| settings.is_object()) else {
        return false;
    };
    settings[member] = value;
    true
}

/// The option that is the modes or models of an agent, if it has any.
fn option(id: &str, name: &str, settings: &Value, kind: &str, key: &str) -> Option<String> {
    let current = settings[format!("current{kind}Id")].as_str()?;
    let listed = settings[format!("available{kind}s")].as_array()?;
    let choice = |entry: &Value| {
        let value = entry[key].as_str()?;
        let mut choice = json!({ "value": value, "name": entry["name"].as_str().unwrap_or(value) });
        if let Some(description) = entry["description"].as_str() {
            choice["description"] = description.into();
        }
        Some(choice)
    };
    let choices: Vec<Value> = listed.iter().filter_map(choice).collect();
    let option = json!({
        "id": id,
        "name": name,
        "category": name.to_ascii_lowercase(),
        "type": "select",
        "currentValue": current,
        "options": choices,
    });
    Some(option.to_string())
}

fn has_id(option: &str, id: &str) -> bool {
    string_member(option, "id").as_deref() == Some(id)
}

/// The update of a record, in any form of it.
fn update_in(payload: &str) -> &str {
    text_member(payload, "update").unwrap_or(payload)
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
