//! Links the release binary with functions that came out the same folded into one. Generic code makes thousands of
//! them, and the file and what stays in memory shrink with them (docs/decisions/0012).

use std::{env, path::Path, process::Command};

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, wanted: &str| env::var(name).is_ok_and(|it| it == wanted);
    if is("PROFILE", "release") && is("TARGET", TARGET) && links_with_lld() {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// Whether the toolchain brings the linker that knows how and uses it by default, as Rust's own builds for this target
/// do. Somebody who chose another linker keeps it.
fn links_with_lld() -> bool {
    let chosen = ["RUSTC_LINKER", "CARGO_ENCODED_RUSTFLAGS"];
    if chosen
        .iter()
        .any(|it| env::var(it).is_ok_and(|it| it.contains("link") || it.contains("ld")))
    {
        return false;
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let Ok(told) = Command::new(rustc).args(["--print", "sysroot"]).output() else {
        return false;
    };
    let sysroot = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    Path::new(&sysroot)
        .join("lib/rustlib")
        .join(TARGET)
        .join("bin/gcc-ld/ld.lld")
        .exists()
}
