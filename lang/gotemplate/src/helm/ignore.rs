//! `.helmignore`: which files of a folder do not belong to the chart.

use crate::file_pattern;

#[derive(Default)]
pub(crate) struct Ignore {
    rules: Vec<Rule>,
}

struct Rule {
    pattern: String,
    negated: bool,
    folders_only: bool,
    /// Whether the whole path is compared rather than its last part.
    whole_path: bool,
}

impl Ignore {
    /// The rules of a file, and Helm's own: editors' and hidden files in `templates/`.
    pub fn parse(text: &str) -> Ignore {
        let mut rules = Ignore { rules: Vec::new() };
        for line in text.lines() {
            rules.add(line);
        }
        rules.add("templates/.?*");
        rules
    }

    fn add(&mut self, line: &str) {
        let mut pattern = line.trim();
        if pattern.is_empty() || pattern.starts_with('#') || pattern.contains("**") {
            return;
        }
        let negated = pattern.starts_with('!');
        pattern = pattern.strip_prefix('!').unwrap_or(pattern);
        let folders_only = pattern.ends_with('/');
        pattern = pattern.strip_suffix('/').unwrap_or(pattern);
        let rooted = pattern.starts_with('/');
        pattern = pattern.strip_prefix('/').unwrap_or(pattern);
        self.rules.push(Rule {
            pattern: pattern.to_owned(),
            negated,
            folders_only,
            whole_path: rooted || pattern.contains('/'),
        });
    }

    /// Whether the file or folder of this path is left out.
    pub fn hides(&self, path: &str, folder: bool) -> bool {
        for rule in &self.rules {
            let name = if rule.whole_path {
                path
            } else {
                path.rsplit('/').next().unwrap_or(path)
            };
            let matches = file_pattern::matches(&rule.pattern, name);
            if rule.negated {
                // Helm ends with the first exception that does not match.
                if rule.folders_only && !folder {
                    return true;
                }
                if !matches {
                    return true;
                }
            } else if matches && (!rule.folders_only || folder) {
                return true;
            }
        }
        false
    }

    /// Whether a file is left out by itself or with a folder above it.
    pub fn hides_file(&self, path: &str) -> bool {
        let above = path.match_indices('/').any(|(at, _)| self.hides(&path[..at], true));
        above || self.hides(path, false)
    }
}
