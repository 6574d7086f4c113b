//! The allocator of our programs, which each makes its own:
//! `#[global_allocator] static ALLOCATOR: Allocator = ALLOCATOR;`.
//!
//! A hub makes and drops millions of small things a minute, mostly JSON in the course of becoming something else.
//! glibc's allocator spends a third more time on it, and keeps more memory than it needs: see decision 0019.

/// Elsewhere, the system's.
#[cfg(not(target_os = "linux"))]
pub use std::alloc::System as Allocator;
#[cfg(target_os = "linux")]
pub use tikv_jemallocator::Jemalloc as Allocator;

/// The one there is.
pub const ALLOCATOR: Allocator = Allocator;

/// What jemalloc reads when it starts; the variable `_RJEM_MALLOC_CONF` adds to it.
///
/// - One arena: with few threads, several only keep memory from each other; each thread has a cache of its own besides.
/// - That cache holds things of up to 4 KiB.
/// - Pages that are free go back to the system after a fifth of a second, by a thread of jemalloc's, so that they do in
///   a process that has fallen silent, too. Never huge pages, of which a small process would fill a part.
#[cfg(target_os = "linux")]
#[used]
#[allow(unsafe_code)]
// SAFETY: nobody else defines the name, and a reference to an array is what jemalloc declares, `const char *`; the text
// lives for ever and ends with a zero.
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static CONFIGURATION: &[u8; 96] =
    b"narenas:1,lg_tcache_max:12,dirty_decay_ms:200,muzzy_decay_ms:0,background_thread:true,thp:never\0";
