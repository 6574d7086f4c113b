//! Whether output is what a story expects.

use regex::Regex;

/// The expression of one expected line.
fn line_expression(expected: &str) -> String {
    let indent = expected.len() - expected.trim_start().len();
    let mut expression = format!("^ {{{indent}}}");
    let mut rest = &expected[indent..];
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("...") {
            expression.push_str(".*");
            rest = after;
        } else if let Some(end) = placeholder(rest) {
            expression.push_str(r"\S+");
            rest = &rest[end..];
        } else if rest.starts_with("  ") {
            expression.push_str(" +");
            rest = rest.trim_start_matches(' ');
        } else {
            let mut characters = rest.chars();
            let character = characters.next().unwrap_or_default();
            expression.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
            rest = characters.as_str();
        }
    }
    expression.push('$');
    expression
}

/// The length of a placeholder such as `<age>` at the start of the text.
fn placeholder(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('<')?;
    let end = inner.find('>')?;
    let word = &inner[..end];
    let is_word = !word.is_empty() && word.chars().all(|it| it.is_ascii_lowercase() || it == '-');
    // `<none>` and `<unset>` are what kubectl itself prints for no value.
    (is_word && !matches!(word, "none" | "unset" | "unknown")).then_some(end + 2)
}

/// What kubectl seldom says on its standard error, when it ends while it ends a watch: client-go's log line, and not an
/// error of the command.
fn is_own_watch_ended(line: &str) -> bool {
    line.starts_with(['I', 'W', 'E'])
        && line.contains(" reflector.go:")
        && line.contains("watch ended with error")
        && line.contains("context canceled")
}

/// Whether the lines match; `...` alone matches any number of lines.
pub(crate) fn matches(expected: &[String], actual: &str) -> bool {
    let lines: Vec<_> = actual
        .lines()
        .filter(|it| !is_own_watch_ended(it))
        .map(str::trim_end)
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|it| match it.trim() {
            "..." => None,
            "<blank>" => Some(Regex::new("^$")),
            _ => Some(Regex::new(&line_expression(it))),
        })
        .collect();
    fn rest(expected: &[Option<Result<Regex, regex::Error>>], lines: &[&str]) -> bool {
        match expected {
            [] => lines.is_empty(),
            [None, more @ ..] => (0..=lines.len()).any(|skip| rest(more, &lines[skip..])),
            [Some(Ok(expression)), more @ ..] => match lines {
                [line, after @ ..] => expression.is_match(line) && rest(more, after),
                [] => false,
            },
            [Some(Err(_)), ..] => false,
        }
    }
    rest(&expected, &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: &str, actual: &str) -> bool {
        matches(&expected.lines().map(str::to_owned).collect::<Vec<_>>(), actual)
    }

    #[test]
    fn words_spaces_and_lines_may_differ_where_a_story_allows() {
        assert!(check(
            "NAME   AGE\ncluster1   <age>",
            "NAME       AGE\ncluster1   12s\n"
        ));
        assert!(!check(
            "NAME   AGE\ncluster1   <age>",
            "NAME       AGE\ncluster2   12s\n"
        ));
        assert!(check("...\nlast", "one\ntwo\nlast"));
        assert!(check("error: ... refused", "error: dial tcp: connection refused"));
        assert!(!check("first", "first\nsecond"));
        assert!(check("", ""));
    }

    #[test]
    fn a_watch_that_kubectl_ends_is_no_output() {
        let remark = "I1130 01:31:48.239327    1615 reflector.go:664] \"Warning: watch ended with error\" \
            type=\"*unstructured.Unstructured\" err=\"an error on the server (\\\"unable to decode an event from the watch \
            stream: context canceled\\\") has prevented the request from succeeding\"";
        assert!(check("condition met", &format!("{remark}\ncondition met\n")));
        // Any other end is somebody's doing.
        let other = remark.replace("context canceled", "unexpected EOF");
        assert!(!check("condition met", &format!("{other}\ncondition met\n")));
    }

    #[test]
    fn indentation_counts_and_no_value_is_meant_literally() {
        assert!(!check("  a: 1", "a: 1"));
        assert!(check("x   <none>", "x      <none>"));
        assert!(!check("x   <none>", "x      y"));
    }
}
