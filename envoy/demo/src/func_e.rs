//! func-e, which runs Envoy in the demo's image.

use anyhow::{Context, Result, bail, ensure};
use lab::{place, tools};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// The func-e that the demo's image runs too.
pub const VERSION: &str = "1.6.0";

/// func-e: `$FUNC_E`, else one that Go builds once into the target folder; `None` where there is no Go.
pub fn find() -> Result<Option<PathBuf>> {
    // One build at a time; a panic of another test does not matter here.
    static BUILDING: Mutex<()> = Mutex::new(());
    let _one = BUILDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(path) = std::env::var_os("FUNC_E") {
        let path = place::root().join(path);
        ensure!(path.is_file(), "FUNC_E is {}, which is no file", path.display());
        return Ok(Some(path));
    }
    let folder = place::target().join("func-e").join(VERSION);
    let binary = folder.join("func-e");
    if !binary.is_file() {
        let Some(go) = tools::on_path("go") else { return Ok(None) };
        std::fs::create_dir_all(&folder)?;
        let module = format!("github.com/tetratelabs/func-e/cmd/func-e@v{VERSION}");
        let mut install = Command::new(go);
        // Without cgo: it then takes the home from $HOME.
        install.args(["install", &module]).envs([("GOWORK", "off"), ("CGO_ENABLED", "0")]).env("GOBIN", &folder);
        tools::run(install.current_dir(&folder)).context("func-e cannot be built")?;
        if !binary.is_file() {
            bail!("go install left no func-e in {}", folder.display());
        }
    }
    Ok(Some(binary))
}
