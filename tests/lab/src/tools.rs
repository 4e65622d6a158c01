//! Commands that a machine may lack: what needs one is skipped there, loudly, and fails on CI.

use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where this command is; `None`, after saying so on stderr, where it is not. `what` needs it, `install` says
/// where it comes from. On CI (`CI=true`) a command that is not there is a panic: nothing is skipped silently.
pub fn find(command: &str, what: &str, install: &str) -> Option<PathBuf> {
    let found = on_path(command);
    if found.is_none() {
        skip(&format!("{what} needs {command} ({install})"));
    }
    found
}

/// Says that something is not tested here, and why; on CI it panics instead.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
    // Past the test harness, which shows nothing of what a passing test prints.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED, NOT TESTED HERE: {why}\n");
}

/// The first file of this name on the `PATH`.
pub fn on_path(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|file| file.is_file())
}

/// Runs a command to its end: what it printed, or an error with all that it said.
pub fn run(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    ensure!(status.success(), "{command:?}: {status}\n{stdout}{stderr}");
    Ok(stdout.into_owned())
}

/// An executable script, written by another process: what this one has open for writing, a fork in another thread
/// would keep from being run.
pub fn script(path: &Path, text: &str) -> Result<()> {
    let write = r#"printf %s "$1" >"$2" && chmod 755 "$2""#;
    run(Command::new("sh").args(["-c", write, "sh", text]).arg(path)).map(drop)
}
