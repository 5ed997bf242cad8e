//! The real program on a store in a database, killed at random moments. Each time another process
//! goes on with all that its client had received.

use super::cluster;
use crate::kill;

#[test]
fn kill_minus_nine_loses_nothing_that_was_received() {
    if cluster::shared().is_none() {
        return;
    }
    kill::all(2, &|seed| {
        kill::case(seed, &cluster::store().unwrap());
    });
}

#[test]
fn a_prompt_with_a_key_reaches_the_agent_once_whatever_is_killed() {
    if cluster::shared().is_none() {
        return;
    }
    kill::all(2, &|seed| {
        let folder = tempfile::tempdir().unwrap();
        kill::keys::case(seed, folder.path(), cluster::store().unwrap());
    });
}

#[test]
fn four_clients_that_send_a_key_at_once_have_it_run_once() {
    if cluster::shared().is_none() {
        return;
    }
    for flags in [&["--resume"][..], &["--version-2"]] {
        let folder = tempfile::tempdir().unwrap();
        kill::keys::at_once(flags, folder.path(), cluster::store().unwrap());
    }
}

#[test]
fn a_session_that_goes_back_when_it_is_killed_is_before_or_after_that() {
    if cluster::shared().is_none() {
        return;
    }
    kill::all(1, &|seed| {
        kill::rewind::case(seed, &cluster::store().unwrap());
    });
}

#[test]
fn forks_and_rewinds_at_any_place_are_those_of_a_model() {
    if cluster::shared().is_none() {
        return;
    }
    kill::all(1, &|seed| {
        kill::branches::case(seed, &cluster::store().unwrap());
    });
}
