//! What the calls of an engine return: work that is under way.

use std::pin::Pin;

/// Something that is being done.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
