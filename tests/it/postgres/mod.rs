//! Stores in PostgreSQL. Without a server on this machine, the tests say so and pass, unless
//! `REJOIN_TEST_POSTGRES` is `required`.

pub(crate) mod cluster;
mod cuts;
mod failover;
mod joins;
mod kills;
mod lists;
mod logs;
mod outages;
mod pooler;
mod processes;
mod proxy;
mod rights;
mod transcripts;
mod zombies;
