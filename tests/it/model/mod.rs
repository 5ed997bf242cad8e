//! What sessions promise, held against whatever may happen to them.

mod machine;
mod order;
