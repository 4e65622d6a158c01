//! The part that needs Istio's own code.

use crate::support::go::GoModule;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Fetches two and a half gigabytes and builds for minutes the first time; seconds from then on.
#[test]
fn istios_own_code_accepts_renders_and_fetches() {
    let module = GoModule::new("istio");
    if !module.is_usable(true) {
        return;
    }
    let wasm = lab::wasm().expect("`make build` makes the module");
    // Never from Go's cache: it does not know of the manifests, which are outside of the module.
    let mut command = module.command(&["test", "-count=1", "./..."]);
    command.env("RETRY_BUDGET_WASM", &wasm);
    if let Some(layout) = shipped_image(&wasm) {
        command.env("RETRY_BUDGET_OCI_LAYOUT", layout);
    }
    let output = command.output().expect("Go ran a moment ago");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "go test in tests/istio:\n{}", String::from_utf8_lossy(&said));
}

/// The very image of `make image`, where there is umoci to make it. Else the Go test packs one of its own.
fn shipped_image(wasm: &Path) -> Option<PathBuf> {
    Command::new("umoci").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let layout = Path::new(env!("CARGO_TARGET_TMPDIR")).join("istio-image");
    let built = Command::new(lab::place::root().join("istio/image/build.sh")).arg(wasm).arg(&layout).output();
    let built = built.expect("the script is there");
    assert!(built.status.success(), "istio/image/build.sh:\n{}", String::from_utf8_lossy(&built.stderr));
    Some(layout)
}
