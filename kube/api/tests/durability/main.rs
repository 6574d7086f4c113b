//! What a disk may do to the objects: lose power, fill up, give back something else than was written.

mod collection;
mod damaged;
mod disk;
mod full_disk;
mod power_loss;
mod slow_disk;
