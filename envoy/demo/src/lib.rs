//! What the demo's programs share.
//!
//! | program | |
//! |---|---|
//! | `demo` | retry storms, with and without the budget, in one table |
//! | `recovery` | how long an outage lasts after its cause is gone ([`recovery`]) |
//! | `demo-live` | the compose demo without containers ([`live`]) |
//! | `origin`, `storm` | the compose demo's service and its callers ([`live::panel`]) |
//!
//! Envoys, origins and clients are those of the tests ([`lab`]).

pub mod func_e;
pub mod live;
pub mod progress;
pub mod recovery;

pub use live::Live;
