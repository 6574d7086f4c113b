//! What clients see of things that change, in this process: requests in, answers and watches out.

mod classes;
mod definitions;
mod kinds;
mod pages;
mod world;
mod zeros;
