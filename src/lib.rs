//! A retry budget for Envoy: a proxy-wasm filter that decides whether a retry may happen.

#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::arithmetic_side_effects,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]
#![deny(unsafe_code)]

pub mod config;
pub mod filter;
pub mod host;
pub mod metrics;
pub mod policy;
pub mod store;

#[cfg(target_arch = "wasm32")]
mod entry;
