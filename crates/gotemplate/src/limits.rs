//! How much a template may cost. A template is somebody else's program: none of them may take the process with it.
//!
//! Go stops at 100,000 nested templates and knows no other bound; Helm stops an `include` of one name at 1,000.

/// How deep a list in a list (or map in a map) is still printed, encoded, copied or compared.
pub const DEPTH_OF_DATA_MAX: usize = 500;

/// How many values one encoding or comparison may visit.
pub const VALUES_MAX: usize = 4_000_000;

/// How deep templates may call each other. Go's own bound is 100,000, which would need gigabytes here.
pub const TEMPLATE_DEPTH_MAX: usize = 10_000;

/// How often Helm lets one name be included inside itself.
pub const INCLUDES_OF_ONE_NAME_MAX: usize = 1_000;

/// How deep parentheses or blocks may be nested in the text of one template. Go allows 10,000 parentheses.
pub const NESTING_MAX: usize = 500;

/// The largest text that a template or one function of it may make, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// How many nodes one run may evaluate: some minutes of work.
pub const STEPS_MAX: u64 = 200_000_000;

/// The longest list that a function makes out of a number.
pub const LIST_LENGTH_MAX: usize = 4_000_000;

/// Runs `work` with enough stack for one more level of nesting.
pub fn with_stack<T>(work: impl FnOnce() -> T) -> T {
    // Unoptimised code takes some 20 KiB for each nested template.
    stacker::maybe_grow(256 << 10, 2 << 20, work)
}

/// An error when a text of this many bytes is too large to be made.
pub fn check_text(bytes: usize) -> Result<(), String> {
    if bytes > TEXT_BYTES_MAX {
        return Err(format!("a text of {bytes} bytes is larger than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(())
}
