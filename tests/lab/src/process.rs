//! Child processes that never outlive the lab.

use anyhow::Result;
use std::process::{Child, Command, ExitStatus};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};

/// A running process, killed when dropped.
pub struct Process(Child);

impl Process {
    /// Starts it. On Linux the kernel kills it should this process end without dropping it.
    pub fn spawn(mut command: Command) -> Result<Process> {
        die_with_parent(&mut command);
        let (tell, told) = channel();
        SPAWNER.send((command, tell))?;
        Ok(Process(told.recv()??))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end by itself (SIGTERM); the caller waits.
    pub fn terminate(&self) {
        // SAFETY: a plain system call. The process is not yet waited for, so its id is nobody else's.
        unsafe { libc::kill(self.id() as i32, libc::SIGTERM) };
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Job = (Command, Sender<std::io::Result<Child>>);

/// All children are started by one thread that never ends: "die with the parent" means the parent
/// *thread*, and a test's or a runtime's thread may be gone long before the process is.
static SPAWNER: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let (jobs, todo) = channel::<Job>();
    std::thread::Builder::new()
        .name("spawner".into())
        .spawn(move || {
            for (mut command, tell) in todo {
                let _ = tell.send(command.spawn());
            }
        })
        .expect("a thread can be started");
    jobs
});

#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    let parent = std::process::id();
    let ask = move || {
        // SAFETY: both calls are async-signal-safe and touch no memory of this process.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if libc::getppid() as u32 != parent {
                return Err(std::io::Error::other("the parent is gone"));
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing on its good path and takes no lock.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_: &mut Command) {}
