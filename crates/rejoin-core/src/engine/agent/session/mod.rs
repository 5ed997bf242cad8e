//! A session in the agent: created or opened there again, prompted, and handed a briefing of what the
//! agent does not know.

pub(super) mod agent_session;
pub(super) mod attach;
pub(super) mod hand_over;
pub(super) mod import;
pub(super) mod listed_title;
pub(super) mod live;
pub(super) mod logged_prompts;
pub(super) mod not_found;
pub(super) mod recall;
pub(super) mod replayed_state;
pub(super) mod restore;
pub(super) mod restored;
