//! stub

pub mod accounting;
pub mod api;
pub mod controller;
pub mod cycle;
pub mod lifecycle;
pub mod resources;
pub mod runtime;
pub mod scheduler;
