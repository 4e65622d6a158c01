//! The demo leaves nothing behind, however it is stopped.

#![cfg(target_os = "linux")]

use lab::{Result, eventually};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Runs the demo until an Envoy of its is up, sends it the signal and waits for its end: its exit code
/// and the folder where its Envoys had their files, whose path is on their command lines.
async fn stopped_by(signal: i32) -> Result<(Option<i32>, TempDir)> {
    let folder = TempDir::new()?;
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"))
        .env("TMPDIR", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let up =
        eventually("an Envoy of the demo", async || Ok((!envoys_in(folder.path()).is_empty()).then_some(()))).await;
    // SAFETY: a plain system call; the child is ours and not yet waited for.
    assert_eq!(unsafe { libc::kill(demo.id() as i32, signal) }, 0);
    let status = ended(&mut demo).await;
    up?;
    Ok((status?, folder))
}

async fn ended(demo: &mut Child) -> Result<Option<i32>> {
    let status = eventually("the demo's end", async || Ok(demo.try_wait()?)).await;
    if status.is_err() {
        demo.kill()?;
        demo.wait()?;
    }
    Ok(status?.code())
}

/// Processes with this folder on their command line.
fn envoys_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().expect("a path in UTF-8");
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    lines.filter(|line| line.contains(folder)).collect()
}

#[tokio::test]
async fn ctrl_c_ends_everything() -> Result<()> {
    let (code, folder) = stopped_by(libc::SIGINT).await?;
    assert_eq!((code, envoys_in(folder.path())), (Some(130), vec![]));
    assert_eq!(fs::read_dir(folder.path())?.count(), 0, "files are left");
    Ok(())
}

#[tokio::test]
async fn sigterm_ends_everything() -> Result<()> {
    let (code, folder) = stopped_by(libc::SIGTERM).await?;
    assert_eq!((code, envoys_in(folder.path())), (Some(143), vec![]));
    assert_eq!(fs::read_dir(folder.path())?.count(), 0, "files are left");
    Ok(())
}

#[tokio::test]
async fn even_a_kill_ends_everything() -> Result<()> {
    let (code, folder) = stopped_by(libc::SIGKILL).await?;
    assert_eq!(code, None);
    eventually("its Envoys to be gone", async || Ok(envoys_in(folder.path()).is_empty().then_some(()))).await
}
