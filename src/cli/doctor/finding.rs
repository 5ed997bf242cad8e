//! The findings of the checks.

use std::fmt::Display;

use serde_json::{Value, json};

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Warning,
    Error,
}

/// The finding of a check.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) check: String,
    pub(super) status: Status,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl Finding {
    pub(super) fn new(status: Status, check: impl Display, message: impl Display) -> Self {
        Self {
            check: check.to_string(),
            status,
            message: message.to_string(),
            hint: None,
        }
    }

    pub(super) fn ok(check: impl Display, message: impl Display) -> Self {
        Self::new(Status::Ok, check, message)
    }

    pub(super) fn warning(check: impl Display, message: impl Display, hint: impl Display) -> Self {
        Self::new(Status::Warning, check, message).hint(hint)
    }

    pub(super) fn error(check: impl Display, message: impl Display, hint: impl Display) -> Self {
        Self::new(Status::Error, check, message).hint(hint)
    }

    pub(super) fn hint(self, hint: impl Display) -> Self {
        Self {
            hint: Some(hint.to_string()),
            ..self
        }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "check": self.check,
            "status": match self.status {
                Status::Ok => "ok",
                Status::Warning => "warning",
                Status::Error => "error",
            },
            "message": self.message,
            "hint": self.hint,
        })
    }
}
