//! What the agent says before it has answered, and of subagents.

use std::path::MAIN_SEPARATOR;
use std::sync::Arc;

use crate::memory::FOLDER;
use crate::message::quoted;
use crate::serve::Agent;

impl Agent {
    /// Speaks of a new session, then answers the request that made it.
    pub(crate) fn speak_early(
        self: &Arc<Self>,
        id: &str,
        session: String,
        mut members: Vec<String>,
    ) {
        let (agent, id) = (self.clone(), id.to_owned());
        std::thread::spawn(move || {
            let chunk = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"early"}}"#;
            agent.link.update(&session, chunk);
            let about = format!(r#"{{"sessionId":"{session}"}}"#);
            agent.link.notify("_early", &about);
            let asked = agent.options.early_subagent.then(|| {
                agent.subagent(&session, "early, too");
                let call = r#"{"sessionId":"child","toolCall":{"toolCallId":"t","title":"Write"},"options":[]}"#;
                agent.link.begin("session/request_permission", call)
            });
            let path = quoted(&format!("{FOLDER}{MAIN_SEPARATOR}AGENT.md"));
            let wanted = format!(r#"{{"sessionId":"{session}","path":{path}}}"#);
            let file = agent.link.ask("fs/read_text_file", &wanted);
            members.push(format!(r#""_meta":{{"file":{file}}}"#));
            agent
                .link
                .answer(&id, &format!("{{{}}}", members.join(",")));
            agent.link.notify("_late", &about);
            if let Some(asked) = asked {
                let answer = asked.wait();
                agent
                    .link
                    .notify("_answered", &format!(r#"{{"answer":{answer}}}"#));
            }
        });
    }

    /// Announces a subagent, which says something.
    pub(crate) fn subagent(&self, session: &str, text: &str) {
        let about = r#"{"sessionUpdate":"subagent_update","sessionId":"child","capabilities":{}}"#;
        self.link.update(session, about);
        let said = format!(
            r#"{{"sessionUpdate":"agent_message_chunk","messageId":"c","content":{{"type":"text","text":"{text}"}}}}"#
        );
        self.link.update("child", &said);
    }
}
