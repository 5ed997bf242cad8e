//! The versions of the protocol, and those of MCP.

/// The versions of MCP that begin with `initialize`, newest first.
pub const MCP_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// A prompt is answered at the end of its turn, and there is one prompt at a time.
    #[default]
    V1,
    /// A prompt is answered when it is logged, and updates report what happens to it. Prompts that
    /// come during a turn are held until it ends.
    V2,
}

impl ProtocolVersion {
    /// Its number.
    pub fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}
