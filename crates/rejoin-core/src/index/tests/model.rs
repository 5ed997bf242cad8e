//! Property tests: after any events, in any order, the list agrees with the logs.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Event {
    Create {
        process: usize,
    },
    Prompt {
        process: usize,
        pick: usize,
    },
    /// The process dies after the record and before the report.
    PromptThenDie {
        process: usize,
        pick: usize,
    },
    CreateThenDie {
        process: usize,
    },
    Close {
        process: usize,
        pick: usize,
    },
    Reopen {
        process: usize,
        pick: usize,
    },
    Delete {
        process: usize,
        pick: usize,
    },
    CopyIn,
    TakeOut {
        pick: usize,
    },
    Damage {
        pick: usize,
    },
    DeleteFile,
    SpoilFile {
        at: usize,
    },
    Restart {
        process: usize,
    },
    Pass {
        millis: i64,
    },
    List {
        process: usize,
        limit: usize,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let process = 0usize..2;
    let pick = 0usize..1000;
    let both = (process.clone(), pick.clone());
    prop_oneof![
        3 => process.clone().prop_map(|process| Event::Create { process }),
        4 => both.clone().prop_map(|(process, pick)| Event::Prompt { process, pick }),
        2 => both.clone().prop_map(|(process, pick)| Event::PromptThenDie { process, pick }),
        1 => process.clone().prop_map(|process| Event::CreateThenDie { process }),
        2 => both.clone().prop_map(|(process, pick)| Event::Close { process, pick }),
        1 => both.clone().prop_map(|(process, pick)| Event::Reopen { process, pick }),
        1 => both.prop_map(|(process, pick)| Event::Delete { process, pick }),
        1 => Just(Event::CopyIn),
        1 => pick.clone().prop_map(|pick| Event::TakeOut { pick }),
        1 => pick.clone().prop_map(|pick| Event::Damage { pick }),
        1 => Just(Event::DeleteFile),
        1 => pick.prop_map(|at| Event::SpoilFile { at }),
        1 => process.clone().prop_map(|process| Event::Restart { process }),
        2 => prop_oneof![0i64..5, 0i64..5000, 0i64..900_000, Just(90_000_000)]
            .prop_map(|millis| Event::Pass { millis }),
        4 => (process, 1usize..9).prop_map(|(process, limit)| Event::List { process, limit }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_list_is_what_the_logs_say(events in prop::collection::vec(event(), 1..40)) {
        let (world, mut ids) = World::with_sessions(4);
        let mut processes = [world.catalog(), world.catalog()];
        let living = |ids: &Vec<SessionId>, pick: usize| ids.get(pick % ids.len().max(1)).cloned();
        for event in events {
            // A change within the same millisecond as another may be missed for a while.
            world.pass(1);
            match event {
                Event::Create { process } => ids.push(world.create(&processes[process], "/new")),
                Event::Prompt { process, pick } => {
                    if let Some(id) = living(&ids, pick) {
                        world.prompt(&processes[process], &id);
                    }
                }
                Event::PromptThenDie { process, pick } => {
                    if let Some(id) = living(&ids, pick) {
                        processes[process].opened(&id);
                        world.append(&id, Entry::Prompt { at: world.now() });
                        processes[process] = world.catalog();
                    }
                }
                Event::CreateThenDie { process } => {
                    let id = world.copy_in("/new");
                    world.append(&id, Entry::Prompt { at: world.now() });
                    ids.push(id);
                    processes[process] = world.catalog();
                }
                Event::Close { process, pick } => {
                    if let Some(id) = living(&ids, pick) {
                        processes[process].opened(&id);
                        world.append(&id, Entry::Update);
                        processes[process].closed(&id, &world.summary(&id));
                    }
                }
                Event::Reopen { process, pick } => {
                    if let Some(id) = living(&ids, pick) {
                        processes[process].opened(&id);
                        world.append(&id, Entry::Reopen { cwd: "/moved".into() });
                        processes[process].put(&id, &world.summary(&id));
                    }
                }
                Event::Delete { process, pick } => {
                    if let Some(id) = living(&ids, pick) {
                        world.delete(&processes[process], &id);
                        ids.retain(|other| *other != id);
                    }
                }
                Event::CopyIn => {
                    let id = world.copy_in("/work");
                    world.append(&id, Entry::Prompt { at: world.now() });
                    ids.push(id);
                }
                Event::TakeOut { pick } => {
                    if let Some(id) = living(&ids, pick) {
                        world.take_out(&id);
                        ids.retain(|other| *other != id);
                    }
                }
                Event::Damage { pick } => {
                    // Damage changes the log's length, and no process is writing to it.
                    if let Some(id) = living(&ids, pick) {
                        processes[0].opened(&id);
                        world.append(&id, Entry::Update);
                        world.logs.folder().damaged.insert(id.clone());
                        ids.retain(|other| *other != id);
                    }
                }
                Event::DeleteFile => {
                    for suffix in ["", "-wal", "-shm"] {
                        let path = world.path().with_file_name(format!("index.sqlite{suffix}"));
                        if path.exists() {
                            remove(&world, &path);
                        }
                    }
                }
                Event::SpoilFile { at } => {
                    // While no process has it open, since SQLite cannot detect such a change under
                    // it.
                    drop(processes);
                    if let Ok(mut bytes) = std::fs::read(world.path()) {
                        let pages = (bytes.len() / 4096).max(1);
                        // Without its mark it would not be ours.
                        let from = (at % pages * 4096).max(100).min(bytes.len());
                        let to = ((at % pages + 1) * 4096).min(bytes.len()).max(from);
                        bytes[from..to].fill(0xa5);
                        overwrite(&world.path(), &bytes);
                    }
                    processes = [world.catalog(), world.catalog()];
                }
                Event::Restart { process } => processes[process] = world.catalog(),
                Event::Pass { millis } => world.pass(millis),
                Event::List { process, limit } => {
                    let listed = all(&processes[process], None, limit);
                    prop_assert_eq!(listed, world.expected(None));
                    let moved = all(&processes[process], Some("/moved"), limit);
                    prop_assert_eq!(moved, world.expected(Some("/moved")));
                }
            }
        }
        for process in &processes {
            prop_assert_eq!(all(process, None, 5), world.expected(None));
        }
    }
}
