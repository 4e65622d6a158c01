//! The placements. Each callback is short: read, decide, apply.

mod announce;
mod arrival;
mod attempt;
mod callee;
mod deadlines;
mod decision;
pub mod fail_open;
pub mod flow;
mod head;
mod judge;
mod logical;
mod parked;
mod reply;
mod request;
mod response;
pub mod root;
mod served;
pub mod stream;
pub mod vm;
