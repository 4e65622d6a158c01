//! The built module in a small host that counts its calls, makes them fail and runs several workers at once: what a
//! real Envoy cannot show.

mod artefact;
mod bound;
mod bytes;
mod cost;
mod excluded;
mod faults;
mod flows;
mod gauges;
mod leaks;
mod names;
mod reloads;
mod roots;
mod router;
mod shared_data;
mod unlinked;
mod worker;
