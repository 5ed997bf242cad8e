//! Stores in PostgreSQL. Without a server on this machine, the tests say so and pass, unless
//! `REJOIN_TEST_POSTGRES` is `required`.

pub(crate) mod cluster;
mod crowds;
mod cuts;
mod failover;
mod hangs;
mod joins;
mod kills;
mod links;
mod lists;
mod logs;
mod outages;
mod pooler;
mod processes;
mod proxy;
mod rights;
mod secrets;
mod takeovers;
mod transcripts;
mod versions;
mod zombies;
