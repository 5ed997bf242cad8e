//! Collects figures, prints them, and says at the end which promises they miss.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// What was measured so far.
#[derive(Debug)]
pub(crate) struct Report {
    out: io::Stdout,
    question: &'static str,
    missed: Vec<String>,
    failed: bool,
}

/// Two things that were measured in turns.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

impl Pairs {
    /// Measures both, one after the other, `rounds` times and once more before, uncounted.
    pub(crate) fn measure(
        rounds: usize,
        mut ours: impl FnMut() -> crate::Result<Duration>,
        mut theirs: impl FnMut() -> crate::Result<Duration>,
    ) -> crate::Result<Self> {
        let mut pairs = Self::default();
        for round in 0..=rounds {
            // Neither is always the one that finds the caches warm.
            let (our, their) = if round % 2 == 0 {
                let our = ours()?;
                (our, theirs()?)
            } else {
                let their = theirs()?;
                (ours()?, their)
            };
            if round > 0 {
                pairs.ours.push(our.as_secs_f64());
                pairs.theirs.push(their.as_secs_f64());
            }
        }
        Ok(pairs)
    }

    /// The median of the rounds' ratios: how many times their time ours takes.
    pub(crate) fn ratio(&self) -> f64 {
        let pairs = self.ours.iter().zip(&self.theirs);
        median(pairs.map(|(ours, theirs)| ours / theirs))
    }

    /// The median of our times, in seconds.
    pub(crate) fn ours(&self) -> f64 {
        median(self.ours.iter().copied())
    }

    /// The median of their times, in seconds.
    pub(crate) fn theirs(&self) -> f64 {
        median(self.theirs.iter().copied())
    }
}

impl Report {
    /// Nothing is measured yet; figures go to stdout.
    pub(crate) fn new() -> Self {
        Self {
            out: io::stdout(),
            question: "",
            missed: Vec::new(),
            failed: false,
        }
    }

    /// What follows belongs to this question.
    pub(crate) fn begin(&mut self, question: &'static str) {
        self.question = question;
        println!("\n{question}");
    }

    /// Prints a line at once: the next one may take a minute.
    fn print(&mut self, line: &str) {
        let written = writeln!(self.out, "  {line}").and_then(|()| self.out.flush());
        self.failed |= written.is_err();
    }

    /// Says how something was measured.
    pub(crate) fn note(&mut self, text: &str) {
        self.print(text);
    }

    /// A figure that nothing was promised about.
    pub(crate) fn figure(&mut self, what: &str, value: &str, detail: &str) {
        self.print(&format!("{what:<36} {value:>12}              {detail}"));
    }

    /// A figure that must not be larger than promised.
    pub(crate) fn at_most(&mut self, what: &str, value: f64, goal: f64, unit: &str, detail: &str) {
        let verdict = if value <= goal { "" } else { "MISSED  " };
        let number = format!("{value:.2}{unit}");
        let promise = format!("(<= {goal}{unit})");
        self.print(&format!(
            "{what:<36} {number:>12} {promise:<12} {verdict}{detail}"
        ));
        if value > goal {
            let question = self.question;
            self.missed
                .push(format!("{question}: {what}: {number}, goal {goal}{unit}"));
        }
    }

    /// The question could not be answered.
    pub(crate) fn failed(&mut self, error: &str) {
        self.print(&format!("failed: {error}"));
        self.failed = true;
    }

    /// Says what was missed. That is no failure: the machine may have been busy.
    pub(crate) fn end(self) -> ExitCode {
        if !self.missed.is_empty() {
            println!("\nmissed:");
            for missed in &self.missed {
                println!("  {missed}");
            }
        }
        if self.failed {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

/// The value in the middle; NaN of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match (values.get(values.len() / 2), values.len() % 2) {
        (Some(middle), 1) => *middle,
        (Some(above), _) => f64::midpoint(values[values.len() / 2 - 1], *above),
        (None, _) => f64::NAN,
    }
}

/// A duration in milliseconds, for people.
pub(crate) fn ms(seconds: f64) -> String {
    format!("{:.2} ms", seconds * 1e3)
}

/// A number of bytes in millions, for people.
pub(crate) fn mb(bytes: u64) -> String {
    format!("{:.2} MB", bytes as f64 / 1e6)
}
