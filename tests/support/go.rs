//! Go, for tests that need a module of Go code: what is missing where there is none that could build it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A Go module in `tests/`.
pub struct GoModule {
    folder: PathBuf,
}

impl GoModule {
    pub fn new(name: &str) -> GoModule {
        GoModule { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name) }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("go");
        // The module is on its own, whatever workspace the checkout may lie in.
        command.args(arguments).current_dir(&self.folder).env("GOWORK", "off").stdin(Stdio::null());
        command
    }

    /// Whether Go, and the module's packages, can be had here. Where they cannot, that is said aloud; on CI it is
    /// a failure.
    pub fn is_usable(&self, fetch: bool) -> bool {
        let Some(why) = self.missing(fetch) else { return true };
        let why = format!("{} needs Go {} or newer: {why}", self.folder.display(), self.needed());
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
        // Past the test harness, which shows nothing of what a passing test prints.
        let _ = writeln!(std::io::stderr(), "\nSKIPPED, NOTHING WAS TESTED: {why}\n");
        false
    }

    /// The oldest Go that can build the module.
    fn needed(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("go.mod")).expect("the module's go.mod");
        let line = text.lines().find_map(|line| line.strip_prefix("go "));
        line.expect("go.mod names a version").into()
    }

    /// Why the module cannot be built here, if it cannot: Go is asked itself, which may be set up to fetch a
    /// newer Go where the module needs it.
    fn missing(&self, fetch: bool) -> Option<String> {
        let failure = |output: Output| match output.status.success() {
            true => None,
            false => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        };
        match self.command(&["list", "-m"]).output() {
            Err(why) => Some(format!("cannot run `go`: {why}")),
            Ok(output) => failure(output).or_else(|| {
                let fetched = fetch.then(|| self.command(&["mod", "download"]).output().expect("Go ran a moment ago"));
                fetched.and_then(failure)
            }),
        }
    }
}
