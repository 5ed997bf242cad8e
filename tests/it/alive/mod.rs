//! Processes that run out of disk, descriptors, memory or readers of their log: only those who ask
//! for what is missing are told, and everything else goes on.

mod logs;
mod stage;
