//! `.helmignore`: which files of a folder do not belong to the chart.

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
            let matches = matches(&rule.pattern, name);
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

/// Go's `filepath.Match`; a pattern that is none matches nothing.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // Where to go on when the star before has to take one character more.
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p == pattern.len() && n == name.len() {
            return true;
        }
        let stepped = match pattern.get(p) {
            Some('*') => {
                retry = Some((p, n));
                p += 1;
                continue;
            }
            Some(_) if n < name.len() => one(&pattern[p..], name[n]).map(|used| {
                p += used;
                n += 1;
            }),
            _ => None,
        };
        if stepped.is_some() {
            continue;
        }
        match retry {
            Some((star, from)) if from < name.len() && name[from] != '/' => {
                retry = Some((star, from + 1));
                p = star + 1;
                n = from + 1;
            }
            _ => return false,
        }
    }
}

/// How much of the pattern takes this one character.
fn one(pattern: &[char], it: char) -> Option<usize> {
    match pattern[0] {
        '?' => (it != '/').then_some(1),
        '\\' => (pattern.get(1) == Some(&it)).then_some(2),
        '[' => {
            let mut at = 1;
            let negated = pattern.get(at) == Some(&'^');
            at += usize::from(negated);
            let mut found = false;
            let first = at;
            loop {
                let mut low = *pattern.get(at)?;
                if low == ']' && at > first {
                    at += 1;
                    break;
                }
                if low == '\\' {
                    at += 1;
                    low = *pattern.get(at)?;
                }
                at += 1;
                let mut high = low;
                if pattern.get(at) == Some(&'-') {
                    high = *pattern.get(at + 1)?;
                    at += 2;
                }
                found |= (low..=high).contains(&it);
            }
            (found != negated).then_some(at)
        }
        literal => (literal == it).then_some(1),
    }
}
