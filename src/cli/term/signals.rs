//! The signals that ask this process to end while it uses a terminal. Who looks out for them tidies up first;
//! as long as nobody does, they end the process at once.

#[cfg(unix)]
pub(in crate::cli) use unix::EndSignals;

#[cfg(not(unix))]
pub(in crate::cli) use other::EndSignals;

#[cfg(unix)]
mod unix {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use rejoin::sys::lock;
    use rustix::process::Signal;
    use signal_hook::flag;

    use crate::cli::exit::SIGNALLED;

    /// A look-out for these signals.
    #[derive(Debug)]
    pub(in crate::cli) struct EndSignals(Handlers);

    /// The signals, with Ctrl-C as the last.
    const ALL: [Signal; 3] = [Signal::TERM, Signal::HUP, Signal::INT];

    /// The handlers of the process, which stay once they are there, and how many look out.
    static PROCESS: Mutex<Option<(Handlers, usize)>> = Mutex::new(None);

    #[derive(Clone, Debug)]
    struct Handlers {
        /// Whether each signal has come.
        come: [Arc<AtomicBool>; 3],
        /// Whether nobody looks out.
        unwatched: Arc<AtomicBool>,
    }

    impl Handlers {
        fn install() -> io::Result<Self> {
            let handlers = Self {
                come: Default::default(),
                unwatched: Arc::default(),
            };
            for (signal, come) in ALL.iter().zip(&handlers.come) {
                let signal = signal.as_raw();
                flag::register(signal, come.clone())?;
                flag::register_conditional_default(signal, handlers.unwatched.clone())?;
            }
            Ok(handlers)
        }
    }

    impl EndSignals {
        /// Begins to look out.
        pub(in crate::cli) fn watch() -> io::Result<Self> {
            let mut process = lock(&PROCESS);
            let (handlers, watching) = match process.take() {
                Some(installed) => installed,
                None => (Handlers::install()?, 0),
            };
            handlers.unwatched.store(false, Ordering::SeqCst);
            *process = Some((handlers.clone(), watching + 1));
            Ok(Self(handlers))
        }

        fn has_come(&self, signal: Signal) -> bool {
            let known = ALL.iter().zip(&self.0.come);
            let mut come = known.filter(|(known, _)| **known == signal);
            come.any(|(_, come)| come.load(Ordering::SeqCst))
        }

        /// The exit code of the signal that has asked this process to end, other than Ctrl-C.
        pub(in crate::cli) fn end_wanted(&self) -> Option<u8> {
            let mut come = [Signal::TERM, Signal::HUP].into_iter();
            come.find(|signal| self.has_come(*signal)).map(code)
        }

        /// The exit code of the signal that has asked this process to end.
        pub(in crate::cli) fn any(&self) -> Option<u8> {
            let interrupted = || self.has_come(Signal::INT).then(|| code(Signal::INT));
            self.end_wanted().or_else(interrupted)
        }

        /// Forgets that the user has pressed Ctrl-C.
        pub(in crate::cli) fn forget_interrupt(&self) {
            let [.., interrupt] = &self.0.come;
            interrupt.store(false, Ordering::SeqCst);
        }
    }

    impl Drop for EndSignals {
        fn drop(&mut self) {
            if let Some((handlers, watching)) = lock(&PROCESS).as_mut() {
                *watching -= 1;
                handlers.unwatched.store(*watching == 0, Ordering::SeqCst);
            }
        }
    }

    fn code(signal: Signal) -> u8 {
        SIGNALLED.saturating_add(u8::try_from(signal.as_raw()).unwrap_or_default())
    }
}

#[cfg(not(unix))]
mod other {
    use std::io;

    /// A look-out for Ctrl-C, which otherwise ends the process. There are no other signals.
    #[derive(Debug)]
    pub(in crate::cli) struct EndSignals(
        #[expect(dead_code, reason = "it lives as long")] tokio::runtime::Runtime,
    );

    impl EndSignals {
        /// Begins to look out: from then on, Ctrl-C does nothing.
        pub(in crate::cli) fn watch() -> io::Result<Self> {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_io().build()?;
            let entered = runtime.enter();
            #[cfg(windows)]
            drop(tokio::signal::windows::ctrl_c()?);
            drop(entered);
            Ok(Self(runtime))
        }

        /// The exit code of the signal that has asked this process to end, other than Ctrl-C.
        pub(in crate::cli) fn end_wanted(&self) -> Option<u8> {
            None
        }

        /// The exit code of the signal that has asked this process to end.
        pub(in crate::cli) fn any(&self) -> Option<u8> {
            None
        }

        /// Forgets that the user has pressed Ctrl-C.
        pub(in crate::cli) fn forget_interrupt(&self) {}
    }
}
