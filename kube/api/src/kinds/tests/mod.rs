//! What kinds are given, told and warned of.

mod defaults;
mod validation;
mod warnings;
