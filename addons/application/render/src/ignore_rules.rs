//! `.kubernetesignore`: which files of a folder are not deployed, in the syntax of `.gitignore`.
//!
//! It is written by somebody else, so a pattern is matched in steps that its length and the path's bound; it becomes no
//! regular expression. Upstream compares paths from the root of the repository; here they are relative to the folder
//! that is deployed, as Git does with a file in that folder.

/// The rules of one file.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    /// The pattern between its slashes.
    parts: Vec<Vec<char>>,
    negated: bool,
    folders_only: bool,
}

/// The largest file of rules that is read, in bytes; what follows is not.
const BYTES_MAX: usize = 64 << 10;
/// How many lines of it count. Every path is held against each.
const RULES_MAX: usize = 1000;

impl IgnoreRules {
    pub(crate) fn parse(content: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&content[..content.len().min(BYTES_MAX)]);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        IgnoreRules {
            rules: text.lines().filter_map(Rule::parse).take(RULES_MAX).collect(),
        }
    }

    /// Whether a file or a folder is left out. Whoever asks has found that the folder around is not.
    pub(crate) fn hides(&self, path: &str, is_folder: bool) -> bool {
        if self.rules.is_empty() {
            return false;
        }
        let parts: Vec<Vec<char>> = path.split('/').map(|it| it.chars().collect()).collect();
        let last = self
            .rules
            .iter()
            .rev()
            .find(|it| (is_folder || !it.folders_only) && path_matches(&it.parts, &parts));
        last.is_some_and(|it| !it.negated)
    }
}

impl Rule {
    fn parse(line: &str) -> Option<Self> {
        let line = without_trailing_blanks(line);
        let (negated, line) = match line.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if line.is_empty() || (!negated && line.starts_with('#')) {
            return None;
        }
        let (folders_only, line) = match line.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        // A slash at the beginning or in between ties the pattern to the folder of the file of rules.
        let tied = line.contains('/');
        let line = line.strip_prefix('/').unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        let mut parts: Vec<Vec<char>> = line.split('/').map(|it| it.chars().collect()).collect();
        if !tied {
            parts.insert(0, ANY_FOLDERS.to_vec());
        }
        Some(Rule {
            parts,
            negated,
            folders_only,
        })
    }
}

const ANY_FOLDERS: [char; 2] = ['*', '*'];

// A blank that is escaped stays.
fn without_trailing_blanks(line: &str) -> &str {
    let line = line.trim_end_matches('\r');
    let kept = line.trim_end_matches([' ', '\t']);
    let escapes = kept.chars().rev().take_while(|it| *it == '\\').count();
    if escapes % 2 == 1 && kept.len() < line.len() {
        return &line[..kept.len() + 1];
    }
    kept
}

fn path_matches(pattern: &[Vec<char>], path: &[Vec<char>]) -> bool {
    // `a/**` is everything in `a`, and not `a` itself.
    let ends_open = pattern.len() > 1 && pattern.last().is_some_and(|it| it[..] == ANY_FOLDERS);
    let (mut p, mut n) = (0, 0);
    // Where to go on when the `**` before has to take one part more.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p == pattern.len() && n == path.len() {
            return true;
        }
        if p < pattern.len() && pattern[p][..] == ANY_FOLDERS {
            if p + 1 == pattern.len() && ends_open {
                return n < path.len();
            }
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        if p < pattern.len() && n < path.len() && part_matches(&pattern[p], &path[n]) {
            p += 1;
            n += 1;
            continue;
        }
        match retry {
            Some((after, taken)) if taken < path.len() => {
                retry = Some((after, taken + 1));
                p = after;
                n = taken + 1;
            }
            _ => return false,
        }
    }
}

/// Whether one part of a path is what a pattern without slashes means.
fn part_matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p == pattern.len() && n == name.len() {
            return true;
        }
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, n));
            p += 1;
            continue;
        }
        if p < pattern.len()
            && n < name.len()
            && let Some(used) = letter_matches(&pattern[p..], name[n])
        {
            p += used;
            n += 1;
            continue;
        }
        match retry {
            Some((after, taken)) if taken < name.len() => {
                retry = Some((after, taken + 1));
                p = after;
                n = taken + 1;
            }
            _ => return false,
        }
    }
}

/// How much of the pattern stands for this letter.
fn letter_matches(pattern: &[char], letter: char) -> Option<usize> {
    match pattern[0] {
        '?' => Some(1),
        '\\' => (pattern.get(1) == Some(&letter)).then_some(2),
        '[' => class_matches(pattern, letter),
        it => (it == letter).then_some(1),
    }
}

fn class_matches(pattern: &[char], letter: char) -> Option<usize> {
    let mut at = 1;
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let mut found = false;
    let mut first = true;
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && !first {
            return (found != negated).then_some(at + 1);
        }
        first = false;
        if low == '['
            && pattern.get(at + 1) == Some(&':')
            && let Some(length) = pattern[at + 2..].windows(2).position(|it| it == [':', ']'])
        {
            let name: String = pattern[at + 2..at + 2 + length].iter().collect();
            found |= named_class(&name, letter)?;
            at += length + 4;
            continue;
        }
        let (low, used) = literal(&pattern[at..])?;
        at += used;
        if pattern.get(at) == Some(&'-') && pattern.get(at + 1).is_some_and(|it| *it != ']') {
            let (high, used) = literal(&pattern[at + 1..])?;
            at += 1 + used;
            found |= low <= letter && letter <= high;
        } else {
            found |= low == letter;
        }
    }
}

fn literal(pattern: &[char]) -> Option<(char, usize)> {
    match pattern.first()? {
        '\\' => pattern.get(1).map(|it| (*it, 2)),
        it => Some((*it, 1)),
    }
}

fn named_class(name: &str, letter: char) -> Option<bool> {
    Some(match name {
        "alnum" => letter.is_ascii_alphanumeric(),
        "alpha" => letter.is_ascii_alphabetic(),
        "blank" => matches!(letter, ' ' | '\t'),
        "cntrl" => letter.is_ascii_control(),
        "digit" => letter.is_ascii_digit(),
        "graph" => letter.is_ascii_graphic(),
        "lower" => letter.is_ascii_lowercase(),
        "print" => letter.is_ascii_graphic() || letter == ' ',
        "punct" => letter.is_ascii_punctuation(),
        "space" => letter.is_ascii_whitespace(),
        "upper" => letter.is_ascii_uppercase(),
        "xdigit" => letter.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
#[path = "ignore_rules_tests.rs"]
mod tests;
