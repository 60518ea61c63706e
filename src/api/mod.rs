//! stub

pub mod uid;
pub use uid::Uid;
