//! The one test binary.

#[cfg(test)]
mod support;
#[cfg(test)]
mod transcripts;
#[cfg(test)]
mod pipe;
#[cfg(test)]
mod wrap;
#[cfg(all(test, unix))]
mod agent;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod mcp_server;
#[cfg(test)]
mod tidy;
#[cfg(test)]
mod local_engine;
#[cfg(test)]
mod store;
#[cfg(test)]
#[cfg(all(unix, feature = "store-postgres"))]
mod postgres;
#[cfg(test)]
mod model;
#[cfg(test)]
mod scripted;
#[cfg(all(test, unix))]
mod keep;
#[cfg(all(test, unix))]
mod alive;
#[cfg(test)]
mod kill;
#[cfg(test)]
#[cfg(unix)]
mod live;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod sources;
#[cfg(test)]
mod unread;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod notify;
#[cfg(test)]
mod setup;
