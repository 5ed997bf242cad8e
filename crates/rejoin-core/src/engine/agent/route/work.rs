//! The work that an agent of version 2 reports: which report ends the turn of a prompt, and which
//! messages repeat the prompt.
//!
//! The response to a prompt says that the agent has accepted it. Its turn ends when the agent is idle
//! after that.

use serde_json::Value;
use tokio::sync::oneshot;

use crate::engine::agent::ids::Echo;
use crate::engine::agent::parse::Payload;
use crate::json::{self, string_member};
use crate::protocol::{Role, UpdateKind};

/// The turn that an agent of version 2 is sent.
#[derive(Debug)]
pub(in crate::engine::agent) struct SentTurn {
    /// The id of the message that is answered.
    pub(in crate::engine::agent) message_id: String,
    /// Gets the report that ends the turn: the parameters of the update.
    pub(in crate::engine::agent) report: oneshot::Sender<String>,
    /// Resolves to whether the turn has ended then.
    pub(in crate::engine::agent) is_end: oneshot::Receiver<bool>,
}

/// The work of an agent in one session.
#[derive(Debug, Default)]
pub(super) struct AgentWork {
    turn: Option<AgentTurn>,
    /// Whether the last reported state was not `idle`.
    pub(super) is_busy: bool,
    /// Whether the agent has refused the last prompt, and reported nothing since. The client is sent
    /// the end of that turn, so a report of being idle is no news.
    has_refused: bool,
}

#[derive(Debug)]
struct AgentTurn {
    sent: SentTurn,
    echo: Echo,
    /// The agent's id of the prompt's message.
    message: Option<String>,
    is_accepted: bool,
    /// Whether the agent has reported since the prompt was sent that it works.
    has_worked: bool,
    /// A report of being idle that came before the response to the prompt. It is kept until it is
    /// known what it is: the end of the turn, if the agent has worked and accepts the prompt; no news,
    /// if it refuses the prompt; or what it was doing before, if anything else comes first.
    early: Option<String>,
}

/// A report of the agent's state.
#[derive(Debug)]
pub(in crate::engine::agent) enum StateReport {
    /// The report ends a turn, and is passed on with the turn's end: the parameters of the update.
    Ends(Box<SentTurn>, String),
    /// Reports that are passed on by themselves: the parameters of the updates.
    States(Vec<String>),
}

impl AgentWork {
    /// A prompt is being sent. `echo` is what the agent may repeat.
    pub(super) fn begins(&mut self, sent: SentTurn, echo: Echo) {
        self.has_refused = false;
        self.turn = Some(AgentTurn {
            sent,
            echo,
            message: None,
            is_accepted: false,
            has_worked: false,
            early: None,
        });
    }

    /// The turn of this message is over, however it has ended.
    pub(super) fn forget(&mut self, message_id: &str) {
        self.turn.take_if(|turn| turn.sent.message_id == message_id);
    }

    /// The agent has responded to the prompt with this result.
    pub(super) fn accepted(&mut self, message_id: &str, result: &str) -> Option<StateReport> {
        let turn = self.turn.as_mut();
        let turn = turn.filter(|turn| turn.sent.message_id == message_id)?;
        turn.is_accepted = true;
        if let Some(message) = string_member(result, "messageId") {
            turn.message = Some(message);
        }
        let early = turn.early.take()?;
        if !turn.has_worked {
            return Some(StateReport::States(vec![early]));
        }
        let turn = self.turn.take()?;
        Some(StateReport::Ends(Box::new(turn.sent), early))
    }

    /// The agent has refused the prompt.
    pub(super) fn refused(&mut self, message_id: &str) {
        self.forget(message_id);
        self.has_refused = true;
    }

    /// The report that is kept and comes before other updates: it is not about the prompt.
    pub(super) fn earlier(&mut self) -> Option<StateReport> {
        let turn = self.turn.as_mut().filter(|turn| !turn.has_worked)?;
        let early = turn.early.take()?;
        Some(StateReport::States(vec![early]))
    }

    /// Takes a report of the agent's state.
    pub(super) fn report(&mut self, payload: &Payload<'_>) -> StateReport {
        let update = payload.update();
        let is_idle = string_member(update, "state").as_deref() == Some("idle");
        self.is_busy = !is_idle;
        let params = payload.params().into_owned();
        let is_known = std::mem::take(&mut self.has_refused) && is_idle;
        let Some(turn) = &mut self.turn else {
            return StateReport::States(Vec::from_iter((!is_known).then_some(params)));
        };
        let early = turn.early.take();
        if !is_idle {
            turn.has_worked = true;
        } else if turn.is_accepted {
            let reason = json::text_member(update, "stopReason");
            let has_reason = reason.is_some_and(|reason| reason != "null");
            if (turn.has_worked || has_reason)
                && let Some(turn) = self.turn.take()
            {
                return StateReport::Ends(Box::new(turn.sent), params);
            }
        } else {
            turn.early = Some(params);
            return StateReport::States(early.into_iter().collect());
        }
        StateReport::States(early.into_iter().chain([params]).collect())
    }

    /// Whether an update repeats the prompt, which the client has been sent already. What was reported
    /// before that was other work.
    pub(super) fn repeats_prompt(&mut self, kind: UpdateKind, update: &str) -> bool {
        if !is_of_user(kind) {
            return false;
        }
        let (Some(turn), Some(id)) = (&mut self.turn, string_member(update, "messageId")) else {
            return false;
        };
        if turn.message.as_ref() != Some(&id) {
            if turn.message.is_some() || !turn.repeats(json::text_member(update, "content")) {
                return false;
            }
            turn.message = Some(id);
            turn.has_worked &= turn.early.is_none();
        }
        true
    }
}

/// Whether an update of this kind has words of the user.
pub(super) fn is_of_user(kind: UpdateKind) -> bool {
    matches!(
        kind,
        UpdateKind::Chunk(Role::User) | UpdateKind::Message(Role::User)
    )
}

impl AgentTurn {
    /// Whether the content of a message, or a block of it, may be that of the prompt.
    fn repeats(&mut self, content: Option<&str>) -> bool {
        let mut is_known =
            |block: &str| self.echo.repeats_context(block) || self.echo.repeats(block);
        match content.and_then(json::tree) {
            // The blocks follow.
            None | Some(Value::Null) => true,
            Some(Value::Array(blocks)) => blocks.iter().all(|block| is_known(&block.to_string())),
            Some(block) => is_known(&block.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    const PROMPT: &str = r#"{"prompt":[{"type":"text","text":"hello"}]}"#;

    fn sent(work: &mut AgentWork) {
        let (report, _) = oneshot::channel();
        let (_, is_end) = oneshot::channel();
        let sent = SentTurn {
            message_id: "msg".to_owned(),
            report,
            is_end,
        };
        work.begins(sent, Echo::new(PROMPT, None));
    }

    fn params(members: &str) -> String {
        format!(r#"{{"update":{{"sessionUpdate":"state_update",{members}}}}}"#)
    }

    fn report(work: &mut AgentWork, members: &str) -> StateReport {
        work.report(&Payload::of_record(Kind::UpdateV2, &params(members)).unwrap())
    }

    /// Whether a report with these members ends the turn.
    fn ends(work: &mut AgentWork, members: &str) -> bool {
        let params = params(members);
        match report(work, members) {
            StateReport::Ends(turn, reported) => turn.message_id == "msg" && reported == params,
            StateReport::States(reported) => {
                assert_eq!(reported, [params]);
                false
            }
        }
    }

    /// The reports that are passed on after one with these members.
    fn passed(work: &mut AgentWork, members: &str) -> Vec<String> {
        match report(work, members) {
            StateReport::Ends(..) => panic!("the turn has ended"),
            StateReport::States(reported) => reported,
        }
    }

    fn repeats(work: &mut AgentWork, name: &str, members: &str) -> bool {
        let update = format!(r#"{{"sessionUpdate":"{name}",{members}}}"#);
        let kind = UpdateKind::of_name(name.as_bytes());
        work.repeats_prompt(kind, &update)
    }

    const RUNNING: &str = r#""state":"running""#;
    const IDLE: &str = r#""state":"idle""#;
    const DONE: &str = r#""state":"idle","stopReason":"end_turn""#;

    #[test]
    fn a_turn_ends_when_the_agent_is_idle_after_it_has_accepted_the_prompt() {
        for (reports, at) in [
            (&[RUNNING, IDLE][..], Some(1)),
            (&[DONE], Some(0)),
            // The agent repeats what it was doing before the prompt.
            (
                &[IDLE, RUNNING, r#""state":"requires_action""#, DONE],
                Some(3),
            ),
            (&[IDLE, r#""state":"idle","stopReason":null"#], None),
        ] {
            let mut work = AgentWork::default();
            sent(&mut work);
            assert!(work.accepted("other", "{}").is_none());
            assert!(work.accepted("msg", r#"{"messageId":"m"}"#).is_none());
            let mut reports = reports.iter();
            assert_eq!(reports.position(|members| ends(&mut work, members)), at);
        }
    }

    #[test]
    fn a_refused_prompt_has_one_end() {
        let mut work = AgentWork::default();
        sent(&mut work);
        assert_eq!(passed(&mut work, RUNNING).len(), 1);
        assert_eq!(passed(&mut work, DONE).len(), 0);
        for reports in [&[(DONE, 0), (DONE, 1)], &[(RUNNING, 1), (DONE, 1)]] {
            work.refused("msg");
            for (members, count) in reports {
                assert_eq!(passed(&mut work, members).len(), *count);
            }
            sent(&mut work);
        }
        assert_eq!(passed(&mut work, IDLE).len(), 0);
        work.refused("msg");
        assert_eq!(passed(&mut work, DONE).len(), 0);
    }

    #[test]
    fn work_of_before_does_not_end_a_turn() {
        let mut work = AgentWork::default();
        assert!(!ends(&mut work, RUNNING));
        assert!(work.is_busy);
        sent(&mut work);
        for is_followed in [false, true] {
            assert_eq!(passed(&mut work, DONE), [] as [&str; 0]);
            assert!(!work.is_busy);
            let report = if is_followed {
                work.earlier()
            } else {
                work.accepted("msg", r#"{"messageId":"m"}"#)
            };
            assert!(
                matches!(report, Some(StateReport::States(reports)) if reports == [params(DONE)])
            );
            assert!(work.earlier().is_none());
            sent(&mut work);
        }
        assert!(work.accepted("msg", r#"{"messageId":"m"}"#).is_none());
        assert!(!ends(&mut work, RUNNING));
        assert!(ends(&mut work, DONE));
    }

    #[test]
    fn work_before_the_message_does_not_end_its_turn() {
        let mut work = AgentWork::default();
        sent(&mut work);
        assert!(!ends(&mut work, RUNNING));
        assert_eq!(passed(&mut work, DONE), [] as [&str; 0]);
        assert!(work.earlier().is_none());
        assert!(repeats(
            &mut work,
            "user_message",
            r#""messageId":"m","content":null"#
        ));
        let report = work.accepted("msg", r#"{"messageId":"m"}"#);
        assert!(matches!(report, Some(StateReport::States(reports)) if reports == [params(DONE)]));
        assert!(!ends(&mut work, RUNNING));
        assert!(ends(&mut work, DONE));
    }

    #[test]
    fn an_agent_may_respond_after_its_work() {
        let mut work = AgentWork::default();
        sent(&mut work);
        assert!(!ends(&mut work, RUNNING));
        assert_eq!(passed(&mut work, DONE), [] as [&str; 0]);
        let report = work.accepted("msg", r#"{"messageId":"m"}"#);
        assert!(matches!(report, Some(StateReport::Ends(_, early)) if early == params(DONE)));
        sent(&mut work);
        work.forget("msg");
        assert!(!ends(&mut work, DONE));
    }

    #[test]
    fn what_comes_after_an_early_report_is_passed_on_after_it() {
        let mut work = AgentWork::default();
        sent(&mut work);
        assert_eq!(passed(&mut work, RUNNING), [params(RUNNING)]);
        assert_eq!(passed(&mut work, DONE), [] as [&str; 0]);
        assert_eq!(passed(&mut work, IDLE), [params(DONE)]);
        assert_eq!(passed(&mut work, RUNNING), [params(IDLE), params(RUNNING)]);
        assert!(work.accepted("msg", "{}").is_none());
        assert!(ends(&mut work, IDLE));
    }

    #[test]
    fn the_prompt_is_known_by_its_content_and_then_by_its_id() {
        let text = |id: &str, text: &str| {
            format!(r#""messageId":"{id}","content":{{"type":"text","text":"{text}"}}"#)
        };
        let chunk = "user_message_chunk";
        let mut work = AgentWork::default();
        assert!(!repeats(&mut work, chunk, &text("m", "hello")));
        sent(&mut work);
        assert!(!repeats(&mut work, chunk, &text("x", "other")));
        assert!(!repeats(
            &mut work,
            "agent_message_chunk",
            &text("x", "hello")
        ));
        assert!(repeats(
            &mut work,
            "user_message",
            r#""messageId":"m","content":[]"#
        ));
        assert!(repeats(&mut work, chunk, &text("m", "anything")));
        assert!(!repeats(&mut work, chunk, &text("x", "hello")));
        let mut work = AgentWork::default();
        sent(&mut work);
        work.accepted("msg", r#"{"messageId":"m"}"#);
        assert!(!repeats(&mut work, chunk, &text("x", "hello")));
        assert!(repeats(&mut work, chunk, &text("m", "with a transcript")));
    }
}
