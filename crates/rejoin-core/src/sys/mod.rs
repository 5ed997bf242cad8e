//! The parts of the machine that the program uses, passed as arguments: clock, ids, disk.

pub mod processes;
pub mod error_chain;
pub mod clock;
pub mod descriptors;
pub mod disk;
pub mod environment;
pub mod file_system;
pub mod folders;
pub mod ids;
mod number;
pub mod output;
mod parallel;
pub mod path;
pub mod program;
pub mod real_disk;
pub mod sim;
pub mod socket;
pub mod waiter;
mod watch;
pub mod worktrees;
mod zone;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use clock::{Clock, Timestamp};
pub use disk::{Changed, Disk, DiskFile, Watch};
pub use error_chain::with_causes;
pub use ids::{Ids, SessionId, is_message_id};
pub use number::grouped;
pub use parallel::in_parallel;
pub use processes::{boot_id, has_stdin, is_running, processes_with_stdin};
pub use socket::Sockets;
pub use watch::{watch_folders, watch_tree};
pub use zone::Zone;

/// The machine as seen by the rest of the program. Tests pass test doubles.
#[derive(Clone, Debug)]
pub struct Sys {
    /// The source of times.
    pub clock: Arc<dyn Clock>,
    /// The source of session and message ids.
    pub ids: Arc<dyn Ids>,
    /// The file system.
    pub disk: Arc<dyn Disk>,
    /// How other processes are reached.
    pub sockets: Sockets,
}

impl Sys {
    /// The real clock, random ids and the real file system.
    pub fn real() -> Self {
        Self {
            clock: Arc::new(clock::SystemClock),
            ids: Arc::new(ids::RandomIds),
            disk: Arc::new(real_disk::RealDisk),
            sockets: Sockets::Real,
        }
    }
}

/// Locks a mutex, even if a thread panicked while holding it: no guarded data is ever left in an
/// inconsistent state.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs blocking disk work. On a multi-threaded runtime, other tasks continue meanwhile.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
