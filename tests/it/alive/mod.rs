//! Processes that run out of disk, descriptors, memory or readers of their log: only those who ask
//! for what is missing are refused, and everything else goes on.

mod descriptors;
mod logs;
#[cfg(target_os = "linux")]
mod memory;
mod sockets;
mod stage;
