//! A searchable text of a conversation: what it is, and where it is.

use crate::protocol::Role;

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// A prompt, with the names of attached files.
    Prompt,
    /// A message of the agent.
    Answer,
    /// A thought of the agent.
    Thought,
    /// A title that the session was given.
    Title,
    /// The title of a tool call, and the files that it works on.
    Tool,
    /// The input of a tool call.
    ToolInput,
    /// The output of a tool call.
    ToolOutput,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Prompt,
        Self::Answer,
        Self::Thought,
        Self::Title,
        Self::Tool,
        Self::ToolInput,
        Self::ToolOutput,
    ];

    /// The names of those who say something.
    pub const ROLES: [&str; 3] = ["user", "assistant", "tool"];

    /// The name that clients know.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Thought => "thought",
            Self::Title => "title",
            Self::Tool => "tool",
            Self::ToolInput => "toolInput",
            Self::ToolOutput => "toolOutput",
        }
    }

    /// The field with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// The kind of what this author says.
    pub(super) const fn said_by(author: Role) -> Self {
        match author {
            Role::User => Self::Prompt,
            Role::Agent => Self::Answer,
            Role::Thought => Self::Thought,
        }
    }

    /// The name of who says it.
    pub const fn role(self) -> &'static str {
        match self {
            Self::Prompt => "user",
            Self::Answer | Self::Thought | Self::Title => "assistant",
            Self::Tool | Self::ToolInput | Self::ToolOutput => "tool",
        }
    }
}

/// A message, or one field of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The kind of text.
    pub field: Field,
    /// The byte offset in the log of the record with which it begins.
    pub offset: u64,
    /// The time of that record.
    pub at: String,
    /// The id of the message or of the tool call, if it has one.
    pub id: Option<String>,
    /// The kind of the tool call, if the record says it.
    pub tool_kind: Option<String>,
    /// The text.
    pub text: String,
}
