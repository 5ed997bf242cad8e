//! What sessions promise, held against whatever may happen to them.

mod conversations;
mod machine;
mod order;
