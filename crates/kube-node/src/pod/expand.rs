//! `$(NAME)` in commands, arguments and values of variables.

/// Replaces `$(NAME)` by what `look_up` knows; an unknown name stays as it is, and `$$` stands for one `$`.
pub fn expand<'a>(text: &str, look_up: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        rest = match after.chars().next() {
            Some('$') => {
                expanded.push('$');
                &after[1..]
            }
            Some('(') => match after.find(')') {
                Some(end) => {
                    match look_up(&after[1..end]) {
                        Some(value) => expanded.push_str(value),
                        None => expanded.push_str(&rest[at..at + 2 + end]),
                    }
                    &after[end + 1..]
                }
                None => {
                    expanded.push_str("$(");
                    &after[1..]
                }
            },
            _ => {
                expanded.push('$');
                after
            }
        };
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn known_names_are_replaced_and_nothing_else() {
        let table = [
            ("--name=$(A)", "--name=1"),
            ("$(A)$(B)-$(A)", "12-1"),
            ("$(UNKNOWN) $(A", "$(UNKNOWN) $(A"),
            ("$$(A) $$$(A)", "$(A) $1"),
            ("$A ${A} 5$", "$A ${A} 5$"),
            ("", ""),
        ];
        for (text, want) in table {
            let known = |name: &str| match name {
                "A" => Some("1"),
                "B" => Some("2"),
                _ => None,
            };
            assert_eq!(expand(text, known), want, "{text}");
        }
    }
}
