//! Sessions on disk: what survives, what is reported, what is left alone.

mod append;
mod cleaning;
mod crash;
mod cut;
mod damage;
mod flip;
mod folder;
mod fork;
mod formats;
mod header;
mod long;
mod network;
mod reading;
mod recovery;
mod rewind;
mod support;
