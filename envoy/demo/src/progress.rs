//! What the demo says of itself while it runs, and its end.

use anyhow::Result;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

/// Runs it to its end, or to the first signal to stop: it is dropped then, and with it every Envoy that is running.
pub async fn until_stopped(work: impl Future<Output = Result<()>>) -> Result<ExitCode> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        done = work => done.map(|()| ExitCode::SUCCESS),
        _ = interrupt.recv() => stopped(130),
        _ = terminate.recv() => stopped(143),
    }
}

fn stopped(code: u8) -> Result<ExitCode> {
    eprintln!("\nStopped.");
    Ok(ExitCode::from(code))
}

/// What is being run, on stderr: one line that changes on a terminal, a line each elsewhere.
pub struct Progress {
    step: usize,
    steps: usize,
    terminal: bool,
}

impl Progress {
    pub fn new(steps: usize) -> Progress {
        Progress { step: 0, steps, terminal: std::io::stderr().is_terminal() }
    }

    pub fn step(&mut self, what: &str) {
        self.step += 1;
        let line = format!("[{:>2}/{}] {what}", self.step, self.steps);
        if self.terminal {
            // Cut to a narrow terminal's width, or the line would not overwrite itself.
            eprint!("\r\x1b[K{}", line.chars().take(79).collect::<String>());
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }

    pub fn done(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}
