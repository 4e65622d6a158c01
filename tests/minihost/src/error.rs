//! What can go wrong while a test drives a module.

use std::fmt;

/// Result of driving the module.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a module could not be loaded, configured or called.
#[derive(Debug, Clone)]
pub enum Error {
    /// The module's file could not be read, compiled or instantiated.
    Load(String),
    /// The module wants functions that no host of this ABI has.
    UnknownImports(Vec<String>),
    /// The module said no to its configuration; `log` is what it logged meanwhile.
    Refused { callback: &'static str, log: Vec<String> },
    /// The module trapped: in Envoy this takes down every stream of the worker thread.
    Trap(Box<Trap>),
    /// The module did what brings the real Envoy down.
    HostCrash { callback: &'static str, what: String },
    /// A callback in a VM that trapped before, or for a context that is gone.
    Dead(String),
}

/// Everything that is known about a trap. The interpreter keeps no stack of functions, so the trail of host calls
/// and the last log lines (a Rust panic logs its message and place) stand in for it.
#[derive(Debug, Clone)]
pub struct Trap {
    pub callback: &'static str,
    pub context: u32,
    pub cause: String,
    /// The host calls made in this callback, in order.
    pub calls: Vec<String>,
    /// What the callback logged.
    pub log: Vec<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Load(why) => write!(f, "the module cannot be loaded: {why}"),
            Error::UnknownImports(names) => {
                write!(f, "the module imports what this host does not have: {}", names.join(", "))
            }
            Error::Refused { callback, log } => write!(f, "{callback} said no; it logged:\n  {}", log.join("\n  ")),
            Error::Trap(trap) => {
                write!(f, "trap in {} of context {}: {}", trap.callback, trap.context, trap.cause)?;
                write!(f, "\nhost calls in it:\n  {}", trap.calls.join("\n  "))?;
                write!(f, "\nlogged in it:\n  {}", trap.log.join("\n  "))
            }
            Error::HostCrash { callback, what } => write!(f, "{callback}: {what}"),
            Error::Dead(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
