//! Sessions that several clients have open, in processes that come and go.

mod behind;
#[cfg(unix)]
mod found;
mod hung;
mod peer;
mod random;
mod redeploy;
mod rewind;
mod security;
mod stage;
mod stop;
