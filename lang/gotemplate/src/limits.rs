//! How much a template may cost. A template is somebody else's program: none of them may take the process with it.
//!
//! Go stops at 100,000 nested templates and knows no other bound; Helm stops an `include` of one name at 1,000.

use std::cell::Cell;

use crate::value::Value;

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

/// How much work one run may be, in units of evaluating one node of a template: some seconds. The largest charts that
/// people write need a hundredth of it.
pub const WORK_MAX: u64 = 50_000_000;

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

thread_local! {
    /// What the run of this thread has cost until now, and what it may cost. Outside of a run nothing counts.
    static WORK: Cell<(u64, u64)> = const { Cell::new((0, u64::MAX)) };
}

/// The account of one run. What it costs is paid from here until it is dropped.
#[must_use]
pub struct Account {
    outer: (u64, u64),
}

impl Account {
    pub fn open(max: u64) -> Self {
        Account {
            outer: WORK.replace((0, max)),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        WORK.set(self.outer);
    }
}

/// Notes work that was done, by what cannot fail. The next [`pay`] does.
pub fn spend(work: u64) {
    let (spent, max) = WORK.get();
    WORK.set((spent.saturating_add(work), max));
}

/// Notes work that is to be done.
///
/// # Errors
/// When the run has done too much already.
pub fn pay(work: u64) -> Result<(), String> {
    spend(work);
    let (spent, max) = WORK.get();
    if spent > max {
        return Err("the template takes too long".to_owned());
    }
    Ok(())
}

/// What a call of a function costs before anything is said about its arguments: of those that take long on purpose.
pub fn cost_of(function: &str) -> u64 {
    match function {
        "genPrivateKey"
        | "genCA"
        | "genCAWithKey"
        | "genSelfSignedCert"
        | "genSelfSignedCertWithKey"
        | "genSignedCert"
        | "genSignedCertWithKey" => 1_000_000,
        "bcrypt" | "htpasswd" | "derivePassword" => 500_000,
        _ => 0,
    }
}

/// What a function has to look at of a value, or has made: texts byte by byte, lists and maps entry by entry.
pub fn weight(value: &Value) -> u64 {
    let size = match value {
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        other => other.as_bytes().map_or(0, <[u8]>::len),
    };
    size as u64 / 64
}
