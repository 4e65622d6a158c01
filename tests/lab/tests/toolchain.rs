//! `.ci/toolchain`, in a checkout of its own, with stand-ins for rustc and rustup; and that make asks it first.

use lab::{Result, place, tools};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A checkout with the script, rust-toolchain.toml, and a PATH with nothing but the usual tools.
struct Checkout(TempDir);

const USUAL: [&str; 6] = ["sh", "dirname", "sed", "tr", "grep", "mkdir"];

/// Has a toolchain where there is a folder for it. As the real one it says nothing on stdout where there is none.
const RUSTC: &str = r#"#!/bin/sh
[ -d "$HOME/sysroot" ] || { echo "error: toolchain is not installed" >&2; exit 1; }
echo "$HOME/sysroot"
"#;

/// Writes down what it is asked for, and does it.
const RUSTUP: &str = r#"#!/bin/sh
echo "$*" >>"$HOME/calls"
mkdir -p "$HOME/sysroot/lib/rustlib/wasm32-unknown-unknown/lib"
printf 'clippy-preview-x\nrustfmt-preview-x\n' >"$HOME/sysroot/lib/rustlib/components"
"#;

const INSTALL: &str = "--no-self-update --profile minimal --target wasm32-unknown-unknown --component clippy \
    --component rustfmt";

impl Checkout {
    fn new(programs: &[(&str, &str)]) -> Result<Checkout> {
        let checkout = Checkout(TempDir::new()?);
        for folder in ["bin", ".ci"] {
            fs::create_dir(checkout.path(folder))?;
        }
        for file in [".ci/toolchain", "rust-toolchain.toml"] {
            fs::copy(place::root().join(file), checkout.path(file))?;
        }
        for tool in USUAL {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool)).into_iter().find(|p| p.exists());
            symlink(real.expect("a usual tool"), checkout.path("bin").join(tool))?;
        }
        for (name, text) in programs {
            tools::script(&checkout.path("bin").join(name), text)?;
        }
        Ok(checkout)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A toolchain with these targets and components.
    fn toolchain(self, targets: &[&str], components: &str) -> Result<Checkout> {
        fs::create_dir_all(self.path("sysroot/lib/rustlib"))?;
        for target in targets {
            fs::create_dir_all(self.path("sysroot/lib/rustlib").join(target).join("lib"))?;
        }
        fs::write(self.path("sysroot/lib/rustlib/components"), components)?;
        Ok(self)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg(self.path(".ci/toolchain")).env_clear().env("PATH", self.path("bin")).env("HOME", self.0.path());
        command
    }

    /// What rustup was asked for, call by call.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().map(str::to_string).collect()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The version that rust-toolchain.toml names.
fn channel() -> Result<String> {
    let text = fs::read_to_string(place::root().join("rust-toolchain.toml"))?;
    let channel = text.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    Ok(channel.expect("a channel").to_string())
}

const WASM: &str = "wasm32-unknown-unknown";
const BOTH: &str = "clippy-preview-x\nrustfmt-preview-x\n";

#[test]
fn an_empty_rustup_gets_all_that_the_file_names_once() -> Result<()> {
    let checkout = Checkout::new(&[("rustc", RUSTC), ("rustup", RUSTUP)])?;
    let output = checkout.command().output()?;
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(checkout.calls(), [format!("toolchain install {} {INSTALL}", channel()?)]);

    let again = checkout.command().output()?;
    assert_eq!((again.status.success(), said(&again)), (true, String::new()));
    assert_eq!(checkout.calls().len(), 1);
    Ok(())
}

#[test]
fn another_toolchain_by_rustups_own_variable_is_not_overruled() -> Result<()> {
    let checkout = Checkout::new(&[("rustc", RUSTC), ("rustup", RUSTUP)])?;
    let output = checkout.command().env("RUSTUP_TOOLCHAIN", "1.96.0").output()?;
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(checkout.calls(), [format!("toolchain install 1.96.0 {INSTALL}")]);
    Ok(())
}

#[test]
fn a_toolchain_without_the_target_or_a_component_gets_it() -> Result<()> {
    for (targets, components) in [(&[][..], BOTH), (&["x86_64"], BOTH), (&[WASM], "clippy-preview-x\n"), (&[WASM], "")]
    {
        let checkout = Checkout::new(&[("rustc", RUSTC), ("rustup", RUSTUP)])?.toolchain(targets, components)?;
        let output = checkout.command().output()?;
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(checkout.calls(), [format!("target add {WASM}"), "component add clippy rustfmt".into()]);
    }
    Ok(())
}

#[test]
fn where_all_is_there_nothing_is_done_or_said() -> Result<()> {
    let checkout = Checkout::new(&[("rustc", RUSTC), ("rustup", RUSTUP)])?.toolchain(&[WASM], BOTH)?;
    let output = checkout.command().output()?;
    assert_eq!((output.status.success(), said(&output)), (true, String::new()));
    assert_eq!(checkout.calls(), [""; 0]);
    Ok(())
}

#[test]
fn a_rust_without_rustup_will_do_if_it_has_the_target() -> Result<()> {
    // What a distribution packs may keep no list of components, or have none of ours on it.
    let checkout = Checkout::new(&[("rustc", RUSTC)])?.toolchain(&[WASM], "rustc\n")?;
    for _ in 0..2 {
        let output = checkout.command().output()?;
        assert_eq!((output.status.success(), said(&output)), (true, String::new()));
        let _ = fs::remove_file(checkout.path("sysroot/lib/rustlib/components"));
    }
    Ok(())
}

#[test]
fn without_rustup_one_sentence_says_what_is_needed() -> Result<()> {
    let nothing = Checkout::new(&[])?;
    let no_target = Checkout::new(&[("rustc", RUSTC)])?.toolchain(&["x86_64"], BOTH)?;
    for checkout in [nothing, no_target] {
        let output = checkout.command().output()?;
        assert_eq!(output.status.code(), Some(1));
        let said = said(&output);
        assert_eq!(said.lines().count(), 1, "{said}");
        for word in ["https://rustup.rs", WASM, &channel()?] {
            assert!(said.contains(word), "{word}: {said}");
        }
    }
    Ok(())
}

#[test]
fn a_failure_of_rustup_and_a_rust_that_it_does_not_rule_are_failures_here() -> Result<()> {
    let offline = Checkout::new(&[("rustc", RUSTC), ("rustup", "#!/bin/sh\necho no network >&2\nexit 1\n")])?;
    let output = offline.command().output()?;
    assert!(!output.status.success());
    assert_eq!(said(&output), "no network\n");

    let elsewhere = Checkout::new(&[("rustc", RUSTC), ("rustup", "#!/bin/sh\n")])?.toolchain(&["x86_64"], BOTH)?;
    let output = elsewhere.command().output()?;
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("bin/rustc still lacks wasm32-unknown-unknown"), "{}", said(&output));
    Ok(())
}

#[test]
fn make_asks_for_it_before_it_builds_anything() -> Result<()> {
    let make = |arguments: &[&str]| {
        let mut make = Command::new("make");
        tools::run(make.args(["--no-print-directory", "CARGO=cargo"]).args(arguments).current_dir(place::root()))
    };
    let mut building = Vec::new();
    for target in make(&["help"])?.lines().filter_map(|line| line.split_whitespace().next()) {
        let plan = make(&["--dry-run", target])?;
        let first = |words: &[&str]| plan.lines().position(|line| words.iter().any(|word| line.contains(word)));
        let Some(cargo) = first(&["cargo build", "cargo test", "cargo fmt", "cargo clippy"]) else { continue };
        assert!(first(&[".ci/toolchain"]).is_some_and(|asked| asked < cargo), "make {target}:\n{plan}");
        building.push(target.to_string());
    }
    for target in ["build", "demo", "test", "lint", "bench"] {
        assert!(building.iter().any(|other| other == target), "{building:?}");
    }
    Ok(())
}
