//! What a failure of the store means for a request.

use crate::store::StoreError;

use super::outcome::Refusal;

/// The refusal for a failure of the store.
pub(super) fn storage(error: &StoreError) -> Refusal {
    match error {
        StoreError::NotFound { .. } => Refusal::NotFound,
        StoreError::InUse { holder, .. } => Refusal::InUse {
            message: error.to_string(),
            holder: holder.clone(),
        },
        StoreError::Newer { .. } => Refusal::Newer(error.to_string()),
        StoreError::Headerless { .. } | StoreError::WrongId { .. } => {
            Refusal::Damaged(error.to_string())
        }
        _ => Refusal::Storage(chain(error)),
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
