//! stub

pub mod observer;
