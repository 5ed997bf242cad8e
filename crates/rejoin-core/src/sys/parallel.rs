//! Work on several threads.

use std::iter;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Applies `work` to each of `jobs`, on as many threads as there are cores, and not more than
/// `most`. Each takes the next job when it is done with one. The results are in the order of the
/// jobs.
pub fn in_parallel<J: Sync, T: Send>(
    jobs: &[J],
    most: usize,
    work: impl Fn(&J) -> T + Sync,
) -> Vec<T> {
    let most = most.min(jobs.len());
    if most <= 1 {
        return jobs.iter().map(work).collect();
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let take = || {
        let at = next.fetch_add(1, Ordering::Relaxed);
        Some((at, jobs.get(at)?))
    };
    let work_off = || {
        let done = iter::from_fn(&take).map(|(at, job)| (at, work(job)));
        done.collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(most))
            .map(|_| scope.spawn(work_off))
            .collect();
        let results = workers.into_iter().flat_map(|worker| {
            let result = worker.join();
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        results.collect()
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        for count in [0, 1, 2, 1000] {
            let jobs: Vec<usize> = (0..count).collect();
            let expected: Vec<usize> = (0..count).map(|job| 2 * job).collect();
            for most in [0, 1, 2, usize::MAX] {
                assert_eq!(in_parallel(&jobs, most, |job| 2 * job), expected);
            }
        }
    }
}
