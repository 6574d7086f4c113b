//! Names that are selected by patterns, as `namespaceSelector`s of policies have them.
//! Upstream: config-policy-controller `pkg/common/pattern_util.go`, `Matches`.

use gotemplate::file_pattern;

/// Patterns of names that can be read.
#[derive(Clone, Copy, Debug)]
pub struct NamePatterns<'a> {
    include: &'a [String],
    exclude: &'a [String],
}

impl<'a> NamePatterns<'a> {
    /// Of `include` and `exclude`; without `include` all names are.
    ///
    /// # Errors
    /// When one of them is no pattern of Go's `filepath.Match`.
    pub fn of(include: &'a [String], exclude: &'a [String]) -> Result<Self, String> {
        for (called, patterns) in [("include", include), ("exclude", exclude)] {
            if let Some(bad) = patterns.iter().find(|it| !file_pattern::is_pattern(it)) {
                return Err(format!(
                    "error parsing '{called}' pattern '{bad}': syntax error in pattern"
                ));
            }
        }
        Ok(Self { include, exclude })
    }

    /// Whether a name is selected.
    pub fn select(&self, name: &str) -> bool {
        let any_of = |patterns: &[String]| patterns.iter().any(|it| file_pattern::matches(it, name));
        (self.include.is_empty() || any_of(self.include)) && !any_of(self.exclude)
    }
}
