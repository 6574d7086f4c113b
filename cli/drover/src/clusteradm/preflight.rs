//! The checks before `init` and `join`, in upstream's lines on standard error.
//! Upstream: clusteradm `pkg/helpers/preflight`.

use std::fmt;

use anyhow::Result;

/// What one check has found.
#[derive(Debug, Default)]
pub struct Check {
    pub name: &'static str,
    pub warnings: Vec<String>,
    pub errors: Vec<String>,
}

impl Check {
    /// One that has found nothing wrong.
    pub fn passed(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// The same, with a warning.
    #[must_use]
    pub fn warning(mut self, text: impl Into<String>) -> Self {
        self.warnings.push(text.into());
        self
    }

    /// The same, with an error.
    #[must_use]
    pub fn error(mut self, text: impl Into<String>) -> Self {
        self.errors.push(text.into());
        self
    }

    fn lines(&self) -> String {
        let warnings = self
            .warnings
            .iter()
            .map(|it| format!("\t[WARNING {}]: {it}\n", self.name));
        let word = if self.errors.is_empty() { "Passed" } else { "Failed" };
        format!(
            "{}Preflight check: {} {word} with {} warnings and {} errors\n",
            warnings.collect::<String>(),
            self.name,
            self.warnings.len(),
            self.errors.len()
        )
    }
}

/// The errors of checks, in several lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Fatal(String);

impl fmt::Display for Fatal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "[preflight] Some fatal errors occurred:\n{}", self.0)
    }
}

impl std::error::Error for Fatal {}

/// Tells what checks have found.
///
/// # Errors
/// When one of them has found an error.
pub fn tell(checks: &[Check]) -> Result<()> {
    for it in checks {
        eprint!("{}", it.lines());
    }
    let errors = checks.iter().flat_map(|check| {
        check
            .errors
            .iter()
            .map(|it| format!("\t[ERROR {}]: {it}\n", check.name))
    });
    let errors: String = errors.collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(Fatal(errors).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_told_in_upstreams_lines() {
        let check = Check::passed("cluster-info check").warning("no ConfigMap");
        assert_eq!(
            check.lines(),
            "\t[WARNING cluster-info check]: no ConfigMap\n\
             Preflight check: cluster-info check Passed with 1 warnings and 0 errors\n"
        );
        let wrong = Check::passed("DeployMode Check").error("deploy mode should be default or hosted");
        assert_eq!(
            wrong.lines(),
            "Preflight check: DeployMode Check Failed with 0 warnings and 1 errors\n"
        );
        assert_eq!(
            tell(&[check, wrong]).unwrap_err().to_string(),
            "[preflight] Some fatal errors occurred:\n\t[ERROR DeployMode Check]: deploy mode should be default or hosted\n"
        );
    }
}
