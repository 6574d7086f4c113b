//! Patterns of file names, as Go's `filepath.Match` reads them: `*`, `?`, `[a-z]`, `[^a]`, `\\`.

/// Whether a text is a pattern: what Go answers with `ErrBadPattern` is none.
pub fn is_pattern(text: &str) -> bool {
    let mut letters = text.chars().peekable();
    let escaped = |first: Option<char>, letters: &mut std::iter::Peekable<std::str::Chars<'_>>| match first {
        None | Some('-' | ']') => false,
        Some('\\') => letters.next().is_some(),
        Some(_) => true,
    };
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if letters.next().is_none() => return false,
            '[' => {
                letters.next_if_eq(&'^');
                let mut first = true;
                while first || letters.next_if_eq(&']').is_none() {
                    first = false;
                    let low = letters.next();
                    if !escaped(low, &mut letters) || letters.peek().is_none() {
                        return false;
                    }
                    if letters.next_if_eq(&'-').is_some() {
                        let high = letters.next();
                        if !escaped(high, &mut letters) || letters.peek().is_none() {
                            return false;
                        }
                    }
                }
            }
            _ => {}
        }
    }
    true
}

/// Go's `filepath.Match`; a pattern that is none matches nothing.
pub fn matches(pattern: &str, name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_refuses_is_no_pattern() {
        for good in ["", "a*", "[a-z]x", "[^a]", "\\*", "[\\]]", "a]"] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in ["[", "[]", "[]a]", "[a", "[a-", "[-x]", "\\", "[^", "[a-]"] {
            assert!(!is_pattern(bad), "{bad}");
        }
        assert!(matches("kube-*", "kube-system") && !matches("kube-?", "kube-system"));
        assert!(matches("[^a]b", "cb") && !matches("[^a]b", "ab"));
    }
}
