#![no_main]

#[path = "../targets.rs"]
#[allow(dead_code)] // Each program is one of the targets.
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::http(data));
