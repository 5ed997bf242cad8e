//! Parts of conversations.
