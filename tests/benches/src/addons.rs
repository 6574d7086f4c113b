//! Add-ons: one with its process, many on many clusters, and a configuration that rolls out.

mod fleet;
mod objects;
mod rollout;
mod single;

pub use fleet::measure as fleet;
pub use single::measure as single;
