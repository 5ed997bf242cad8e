//! What `serve` does with old sessions and with the trash, on a simulated disk and clock: again
//! and again while it runs, and at the end of a process that hardly did.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rejoin::engine::demo::LocalEngine;
use rejoin::record::Kind;
use rejoin::server::{Options, serve};
use rejoin::store::{Durability, Log, Store, Sync};
use rejoin::sys::sim::{SimClock, SimDisk};
use rejoin::sys::{SessionId, Sys};

use super::support::{END, PROMPT, header, root};

const DAY: i64 = 24 * 60 * 60 * 1000;
const HOUR: Duration = Duration::from_hours(1);

/// A store whose clock the test moves.
struct World {
    disk: SimDisk,
    clock: Arc<SimClock>,
    store: Store,
}

impl World {
    fn new() -> Self {
        let disk = SimDisk::new();
        let clock = Arc::new(SimClock::default());
        let store = Store::open(root(), sys(&disk, &clock), Durability::Turn).unwrap();
        Self { disk, clock, store }
    }

    /// A session that is open.
    fn open(&self) -> Log {
        let id = self.sys().ids.session();
        let mut header = header();
        header.session_id = id.to_string();
        self.store.create(&id, &header).unwrap()
    }

    /// A session that was never prompted.
    fn unprompted(&self) -> SessionId {
        self.open().id().clone()
    }

    /// A session with one turn.
    fn prompted(&self) -> SessionId {
        let mut log = self.open();
        let prompt = (Kind::Prompt, Some("msg_1"), PROMPT);
        let end = (Kind::End, None, END);
        log.append_all([prompt, end].into_iter(), Sync::Turn)
            .unwrap();
        log.id().clone()
    }

    fn days_pass(&self, days: i64) {
        self.clock.advance(days * DAY);
    }

    fn sys(&self) -> Sys {
        sys(&self.disk, &self.clock)
    }

    fn trashed(&self) -> Vec<SessionId> {
        let trashed = self.store.trashed().unwrap().into_iter();
        trashed.map(|trashed| trashed.id).collect()
    }

    /// Serves until the client, which says nothing, has left, or for good.
    async fn serve(&self, expire_after: Option<u32>, input: impl io::Read + Send + 'static) {
        let options = Options {
            store: Some(root().to_owned()),
            expire_after: expire_after.map(|days| Duration::from_hours(24) * days),
            ..Options::default()
        };
        let engine = Arc::new(LocalEngine::new());
        let never = std::future::pending();
        let served = serve(options, self.sys(), engine, input, io::sink(), never);
        served.await.unwrap();
    }

    /// The life of a process whose client leaves at once.
    async fn short_life(&self, expire_after: Option<u32>) {
        self.serve(expire_after, io::empty()).await;
    }

    /// Does something while a process serves a client that stays.
    async fn during<T>(&self, expire_after: Option<u32>, work: impl Future<Output = T>) -> T {
        let (input, client) = io::pipe().unwrap();
        let result = tokio::select! {
            result = work => result,
            () = self.serve(expire_after, input) => panic!("it ended"),
        };
        drop(client);
        result
    }
}

fn sys(disk: &SimDisk, clock: &Arc<SimClock>) -> Sys {
    Sys {
        clock: clock.clone(),
        ..disk.sys()
    }
}

/// Lets the runtime's time pass, which is not that of the store.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn long_running_process_cleans_up_repeatedly() {
    let world = World::new();
    let first = world.prompted();
    world.days_pass(31);
    let used = world.prompted();
    world
        .during(Some(30), async {
            pass(Duration::from_secs(20)).await;
            assert_eq!(world.trashed(), std::slice::from_ref(&first));
            // Something old comes from elsewhere, and something becomes old.
            let second = world.prompted();
            world.days_pass(31);
            let recent = world.prompted();
            pass(7 * HOUR).await;
            let mut trashed = world.trashed();
            trashed.sort();
            let mut expected = [used, second];
            expected.sort();
            // The first one has been in the trash for more than 30 days.
            assert_eq!(trashed, expected);
            assert!(world.store.exists(&recent).unwrap());
            world.days_pass(31);
            pass(7 * HOUR).await;
            assert_eq!(world.trashed(), [recent]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn short_processes_clean_up_once_a_day() {
    let world = World::new();
    let first = world.prompted();
    world.days_pass(31);
    world.short_life(Some(30)).await;
    assert_eq!(world.trashed(), std::slice::from_ref(&first));
    let second = world.prompted();
    world.days_pass(31);
    world.short_life(Some(30)).await;
    assert_eq!(
        world.trashed(),
        std::slice::from_ref(&second),
        "the first one is gone"
    );

    // Once a day is enough, unless the rules are others.
    let third = world.prompted();
    let cleaned = world.store.last_cleanup().unwrap();
    world.clock.advance(DAY / 2);
    world.short_life(Some(30)).await;
    assert_eq!(world.store.last_cleanup().unwrap(), cleaned);
    world.clock.advance(DAY);
    world.short_life(Some(30)).await;
    assert!(world.store.last_cleanup().unwrap().at > cleaned.at);
    assert_eq!(world.trashed(), std::slice::from_ref(&second));
    world.short_life(Some(1)).await;
    let mut both = [second, third];
    both.sort();
    assert_eq!(world.trashed(), both);
}

#[tokio::test(start_paused = true)]
async fn restored_session_does_not_expire_at_once() {
    let world = World::new();
    let (prompted, unprompted) = (world.prompted(), world.unprompted());
    world.days_pass(31);
    world.short_life(Some(30)).await;
    assert_eq!(world.trashed().len(), 2);
    for id in [&prompted, &unprompted] {
        world.store.restore(id).unwrap();
    }
    world.days_pass(2);
    world.during(Some(30), pass(Duration::from_secs(20))).await;
    world.short_life(Some(30)).await;
    assert_eq!(world.trashed(), []);
    world.days_pass(30);
    world.short_life(Some(30)).await;
    assert_eq!(world.trashed().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn sessions_without_prompts_are_removed() {
    let world = World::new();
    let unprompted = world.unprompted();
    let prompted = world.prompted();
    let mut titled = world.open();
    let title = r#"{"sessionUpdate":"session_info_update","title":"mine"}"#;
    titled.append(Kind::Info, None, title, Sync::Turn).unwrap();
    drop(titled);
    world.days_pass(6);
    world.short_life(None).await;
    assert_eq!(world.trashed(), []);
    let open = world.open();
    world.days_pass(2);
    world.short_life(None).await;
    assert_eq!(world.trashed(), std::slice::from_ref(&unprompted));
    world.days_pass(8);
    world.short_life(None).await;
    // The one that is open stays, as do those that were used.
    assert_eq!(world.trashed(), [unprompted]);
    assert!(world.store.exists(&prompted).unwrap());
    let id = open.id().clone();
    drop(open);
    world.days_pass(1);
    world.short_life(None).await;
    assert!(world.trashed().contains(&id));
}

#[tokio::test(start_paused = true)]
async fn failing_disk_does_not_delay_the_end() {
    let counting = World::new();
    let one = |world: &World| {
        world.prompted();
        world.days_pass(31);
        world.disk.operations()
    };
    let first = one(&counting);
    counting.short_life(Some(30)).await;
    for n in first..counting.disk.operations() {
        let world = World::new();
        one(&world);
        let fault = rejoin::sys::sim::Fault::Error(io::ErrorKind::Other);
        world.disk.fail_at(n, fault);
        world.short_life(Some(30)).await;
        world.disk.heal();
        world.days_pass(1);
        world.short_life(Some(30)).await;
        assert_eq!(world.trashed().len(), 1, "operation {n}");
    }
}
