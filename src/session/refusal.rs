//! What a failure of the store means for a request.

use crate::store::StoreError;
use crate::sys::with_causes;

use super::outcome::Refusal;

/// The refusal for a failure of the store.
pub fn storage(error: &StoreError) -> Refusal {
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
        _ => Refusal::Storage(with_causes(error)),
    }
}
