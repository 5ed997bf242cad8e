//! What the program takes from the machine it runs on, as arguments: clock, ids, disk.

pub mod causes;
pub mod clock;
pub mod disk;
pub mod ids;
pub mod path;
pub mod real_disk;
pub mod sim;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use causes::with_causes;
pub use clock::{Clock, Timestamp};
pub use disk::{Disk, DiskFile};
pub use ids::{Ids, SessionId};

/// The machine as the rest of the program sees it; tests hand in doubles.
#[derive(Clone, Debug)]
pub struct Sys {
    /// Where times come from.
    pub clock: Arc<dyn Clock>,
    /// Where session and message ids come from.
    pub ids: Arc<dyn Ids>,
    /// Where files live.
    pub disk: Arc<dyn Disk>,
}

impl Sys {
    /// The real clock, random ids and the real file system.
    pub fn real() -> Self {
        Self {
            clock: Arc::new(clock::SystemClock),
            ids: Arc::new(ids::RandomIds),
            disk: Arc::new(real_disk::RealDisk),
        }
    }
}

/// What a mutex guards, also if somebody panicked with it: nothing is guarded here that is left half
/// done.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs something that waits for the disk. On a runtime with several threads, other tasks go on
/// meanwhile.
pub fn blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
