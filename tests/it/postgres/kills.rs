//! The real program on a store in a database, killed at random moments. Each time another process
//! goes on with all that its client had received.

use super::cluster;
use crate::kill;
use crate::support::env;

#[test]
fn kill_minus_nine_loses_nothing_that_was_received() {
    if cluster::shared().is_none() {
        return;
    }
    kill::all(if env::slow() { 50 } else { 2 }, &|seed| {
        kill::case(seed, &cluster::store().unwrap());
    });
}
