//! The product's allocator, which can tell what is given back while something is dropped.

use std::{
    alloc::{GlobalAlloc, Layout},
    sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed},
};

use allocator::{ALLOCATOR, Allocator};

/// What is measured in this process is measured as the product is: counting is one look at a flag that is mostly off.
pub struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static GIVEN_BACK: AtomicI64 = AtomicI64::new(0);

fn count(bytes: i64) {
    if COUNTS.load(Relaxed) {
        GIVEN_BACK.fetch_add(bytes, Relaxed);
    }
}

fn bytes(layout: Layout) -> i64 {
    layout.size() as i64
}

#[allow(unsafe_code)]
// SAFETY: every call goes to the allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(-bytes(layout));
        unsafe { Allocator::alloc(&ALLOCATOR, layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(bytes(layout));
        unsafe { Allocator::dealloc(&ALLOCATOR, pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(-bytes(layout));
        unsafe { Allocator::alloc_zeroed(&ALLOCATOR, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(bytes(layout) - size as i64);
        unsafe { Allocator::realloc(&ALLOCATOR, pointer, layout, size) }
    }
}

/// How many bytes less there are when it has been done. Nothing else should go on meanwhile.
pub fn given_back(it: impl FnOnce()) -> u64 {
    GIVEN_BACK.store(0, Relaxed);
    COUNTS.store(true, Relaxed);
    it();
    COUNTS.store(false, Relaxed);
    GIVEN_BACK.load(Relaxed).max(0) as u64
}
