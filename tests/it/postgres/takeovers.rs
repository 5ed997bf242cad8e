//! A server that has not heard of the last take-over takes the place of the primary, with all writers
//! alive: what it confirms stays, and nothing of a wrong writer is in the log.

use std::path::{Path, PathBuf};

use rejoin::record::Kind;
use rejoin::store::{Durability, Store, StoreError, Sync};
use rejoin::sys::Sys;

use super::cluster::Cluster;
use super::logs::{header, new_id, open, texts, update};
use super::processes::{Process, load, prompt};
use super::proxy::Proxy;
use crate::support::rows::Rows;

/// Two servers with a common past, and the address of whichever is the primary.
struct Stage {
    cluster: Cluster,
    proxy: Proxy,
    behind: PathBuf,
    other: PathBuf,
}

impl Stage {
    fn new() -> Option<Self> {
        let cluster = Cluster::start(false)?;
        let proxy = Proxy::start(cluster.port);
        let (direct, behind) = cluster.through(proxy.port);
        Store::migrate(&direct, &Sys::real()).unwrap();
        Some(Self {
            cluster,
            proxy,
            other: direct,
            behind,
        })
    }

    /// The other server is one that replicates no longer: what follows is lost with the primary.
    fn copy(&mut self) -> Option<u16> {
        let copy = self.cluster.copy();
        if copy.is_none() {
            eprintln!("skipped: there is no pg_basebackup here");
        }
        let own = format!("localhost:{}", self.cluster.port);
        let other = format!("localhost:{}", copy?);
        self.other = self.other.to_str().unwrap().replace(&own, &other).into();
        copy
    }

    /// The other server takes the place of the primary.
    fn fail_over(&mut self, copy: u16) {
        self.proxy.lead_to(copy);
        self.cluster.crash();
    }
}

fn fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(
        matches!(result, Err(StoreError::Fenced { .. })),
        "{result:?}"
    );
}

#[test]
fn a_writer_whose_claim_was_forgotten_writes_nothing() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let [x, y, z] = [(); 3].map(|()| open(&stage.behind));
    let id = new_id();
    let mut of_x = x.create(&id, &header(&id)).unwrap();
    let append = |log: &mut rejoin::store::Log, text: &str| {
        log.append(Kind::Update, None, &update(text), Sync::Turn)
    };
    append(&mut of_x, "x").unwrap();
    let Some(copy) = stage.copy() else {
        return;
    };
    let mut of_y = y.take_over_with(&id, &mut |_| {}).unwrap().log;
    stage.fail_over(copy);
    // The server knows only of the claim of x, which is as good as it was.
    fenced(append(&mut of_y, "y"));
    append(&mut of_x, "x again").unwrap();
    let mut of_z = z.take_over_with(&id, &mut |_| {}).unwrap().log;
    for n in 0..3 {
        let text = format!("z {n}");
        append(&mut of_z, &text).unwrap();
        fenced(append(&mut of_y, "y"));
        fenced(append(&mut of_x, "x"));
    }
    fenced(of_x.trash());
    // A failed sync refuses everything that follows.
    fenced(of_y.sync().and_then(|()| of_y.check_name()));
    let expected = ["x", "x again", "z 0", "z 1", "z 2"].map(update);
    assert_eq!(texts(&open(&stage.other), &id)[1..], expected);
    drop(of_z);
}

#[test]
fn a_turn_that_the_new_primary_confirmed_stays() {
    let Some(mut stage) = Stage::new() else {
        return;
    };
    let mut x = Process::start(&stage.behind);
    let session = x.new_session();
    let says = |process: &mut Process, text: &str| {
        process.ask(
            "session/prompt",
            &prompt(&session, &format!("/echo {text}")),
        )
    };
    says(&mut x, "first").unwrap();
    let Some(copy) = stage.copy() else {
        return;
    };
    let mut y = Process::start(&stage.behind);
    y.ask("session/load", &load(&session, true)).unwrap();
    says(&mut y, "lost").unwrap();
    stage.fail_over(copy);
    let mut z = Process::start(&stage.behind);
    z.ask("session/load", &load(&session, true)).unwrap();
    let refused = says(&mut y, "no").unwrap_err();
    assert_eq!(refused["data"]["error"], "session_in_use", "{refused}");
    says(&mut z, "second").unwrap();
    says(&mut y, "no").unwrap_err();
    says(&mut x, "no").unwrap_err();
    says(&mut z, "third").unwrap();
    for process in [x, y, z] {
        process.leave();
    }
    let mut after = Process::start(&stage.behind);
    after.ask("session/load", &load(&session, false)).unwrap();
    assert_eq!(after.text, "firstsecondthird");
    after.leave();
}

/// What a crash of the database, or a restore, leaves of a log that has ended at `end`.
fn lose(place: &Path, end: i64) {
    let rows = Rows::at(place);
    rows.run(&format!(
        "UPDATE @.fence SET end_off = {end}; DELETE FROM @.block WHERE off >= {end}"
    ))
    .unwrap();
}

#[test]
fn who_has_shown_what_is_lost_is_told_so() {
    let Some(place) = super::cluster::store() else {
        return;
    };
    let first = Store::open(&place, Sys::real(), Durability::Os).unwrap();
    let id = new_id();
    let mut log = first.create(&id, &header(&id)).unwrap();
    let end = i64::try_from(log.end()).unwrap();
    let append =
        |log: &mut rejoin::store::Log| log.append(Kind::Update, None, &update("shown"), Sync::Turn);
    append(&mut log).unwrap();
    lose(&place, end);
    let taken = open(&place).take_over_with(&id, &mut |_| {}).unwrap();
    let refused = append(&mut log).unwrap_err();
    assert!(
        matches!(refused, StoreError::Fenced { is_cut: true, .. }),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("no log has it"), "{refused}");
    drop((log, taken));
    // Without a loss it says nothing of the kind.
    let mut log = first.open_log(&id).unwrap().log;
    append(&mut log).unwrap();
    let taken = open(&place).take_over_with(&id, &mut |_| {}).unwrap();
    let refused = append(&mut log).unwrap_err();
    assert!(
        matches!(refused, StoreError::Fenced { is_cut: false, .. }),
        "{refused:?}"
    );
    drop(taken);
}

#[test]
fn a_session_that_a_restored_database_lacks_is_not_found() {
    let Some(place) = super::cluster::store() else {
        return;
    };
    let mut process = Process::start(&place);
    let sessions = [process.new_session(), process.new_session()];
    process
        .ask("session/prompt", &prompt(&sessions[0], "/echo here"))
        .unwrap();
    Rows::at(&place)
        .run("DELETE FROM @.block; DELETE FROM @.session")
        .unwrap();
    for session in &sessions {
        let refused = process.ask("session/prompt", &prompt(session, "hello"));
        let refused = refused.unwrap_err();
        assert_eq!(refused["data"]["error"], "session_not_found", "{refused}");
    }
    process.leave();
}

#[test]
fn an_append_that_has_failed_removes_nothing() {
    let Some(place) = super::cluster::store() else {
        return;
    };
    let store = open(&place);
    let id = new_id();
    let mut log = store.create(&id, &header(&id)).unwrap();
    // Something of a log is there that its writer does not know.
    let rows = Rows::at(&place);
    rows.run(
        "INSERT INTO @.block SELECT no, end_off, 1, 'unknown' FROM @.fence;
         UPDATE @.fence SET end_off = end_off + 7",
    )
    .unwrap();
    let failed = log.append(Kind::Update, None, &update("a"), Sync::Turn);
    failed.unwrap_err();
    let left = rows.ask("SELECT 1 FROM @.block WHERE bytes = 'unknown'", &[]);
    assert_eq!(left.unwrap().len(), 1);
}
