//! Where things are: the checkout, its shipped configurations, the wasm module, Envoy.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The top of the checkout.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        manifest.ancestors().nth(2).expect("tests/lab lies two levels down").to_path_buf()
    })
}

/// The one file in `envoy/` that is for another program: the demo in containers.
pub const COMPOSE: &str = "docker-compose.yaml";

/// Envoy's configurations in `envoy/`, by file name, sorted.
pub fn shipped() -> Vec<String> {
    let folder = root().join("envoy");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".yaml") && name != COMPOSE)
        .collect();
    names.sort();
    names
}

/// The wasm module: `$RETRY_BUDGET_WASM`, else what `make build` leaves in the target folder.
pub fn wasm() -> Result<PathBuf> {
    let path = match std::env::var_os("RETRY_BUDGET_WASM") {
        Some(path) => root().join(path),
        None => target().join("wasm32-unknown-unknown/release/retry_budget.wasm"),
    };
    if !path.is_file() {
        bail!("there is no wasm module at {}: run `make build` first", path.display());
    }
    Ok(path)
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    // A relative path counts from the top, as the Makefile and cargo's tests see it.
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// An empty folder below the target folder, for what a test makes and somebody may want to look at afterwards. No
/// other call gets the same one.
pub fn scratch(name: &str) -> Result<PathBuf> {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let program = std::env::current_exe()?;
    let program = program.file_name().and_then(|name| name.to_str()).context("a program's name")?;
    // Without the hash that cargo puts after a test's name.
    let program = program.rsplit_once('-').map_or(program, |(name, _)| name);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let folder = target().join("tmp").join(program).join(format!("{name}-{call}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The Envoy binary, as `envoy/find-envoy.sh` finds it. The first call on a machine may fetch it.
pub fn envoy() -> Result<&'static Path> {
    static BINARY: OnceLock<std::result::Result<PathBuf, String>> = OnceLock::new();
    let found = BINARY.get_or_init(|| find_envoy().map_err(|e| format!("{e:#}")));
    found.as_deref().map_err(|e| anyhow::anyhow!("{e}"))
}

fn find_envoy() -> Result<PathBuf> {
    let script = root().join("envoy/find-envoy.sh");
    let output = Command::new("sh")
        .arg(&script)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        bail!("envoy/find-envoy.sh found no Envoy; its reason stands above");
    }
    let path = String::from_utf8(output.stdout).context("the path of Envoy is not UTF-8")?;
    Ok(root().join(path.trim()))
}
