//! A story's text as steps.

use anyhow::{Result, bail};

/// One step and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line in the file, from 1.
    pub line: usize,
    pub action: Action,
    /// Expected output.
    pub expected: Vec<String>,
    /// Expected exit code.
    pub exit: i32,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    File { name: String, content: String },
    Set { name: String, value: String },
    Run(String),
    Wait(String),
    Let { name: String, command: String },
    Port(String),
    Start { name: String, command: String },
    WaitLog(String),
    Stop(String),
    Kill(String),
}

fn action(line: &str) -> Option<Action> {
    let (word, rest) = line.split_once(' ')?;
    let rest = rest.trim();
    // `NAME $ COMMAND`
    let named = || {
        rest.split_once(" $ ")
            .map(|(name, command)| (name.trim().to_owned(), command.trim().to_owned()))
    };
    Some(match word {
        "$" => Action::Run(rest.into()),
        "wait" if rest.starts_with("$ ") => Action::Wait(rest[2..].trim().into()),
        "wait" => Action::WaitLog(rest.strip_prefix("log ")?.trim().into()),
        "let" => named().map(|(name, command)| Action::Let { name, command })?,
        "start" => named().map(|(name, command)| Action::Start { name, command })?,
        "port" => Action::Port(rest.into()),
        "stop" => Action::Stop(rest.into()),
        "kill" => Action::Kill(rest.into()),
        "file" => Action::File {
            name: rest.into(),
            content: String::new(),
        },
        "set" => rest.split_once('=').map(|(name, value)| Action::Set {
            name: name.into(),
            value: value.into(),
        })?,
        _ => return None,
    })
}

/// Reads a story.
///
/// # Errors
/// Names the line that is neither prose nor a step nor expected output.
pub fn parse(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    // Whether the lines belong to the step above.
    let mut open = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        let file = match steps.last_mut().filter(|_| open).map(|it| &mut it.action) {
            Some(Action::File { content, .. }) => Some(content),
            _ => None,
        };
        if let Some(content) = file {
            // A file ends with the first line that is not indented; blank lines belong to it.
            if line.is_empty() || line.starts_with("    ") {
                content.push_str(line.get(4..).unwrap_or_default());
                content.push('\n');
                continue;
            }
            open = false;
        }
        if line.is_empty() {
            open = false;
        } else if open {
            let Some(step) = steps.last_mut() else { continue };
            match line.strip_prefix("exit ").map(str::parse) {
                Some(Ok(code)) => step.exit = code,
                _ => step.expected.push(line.to_owned()),
            }
        } else if line.starts_with('#') {
            continue;
        } else if let Some(action) = action(line) {
            open = matches!(
                action,
                Action::File { .. } | Action::Run(_) | Action::Wait(_) | Action::WaitLog(_)
            );
            steps.push(Step {
                line: at + 1,
                action,
                expected: Vec::new(),
                exit: 0,
            });
        } else {
            bail!("line {}: {line:?} is no step; prose starts with #", at + 1);
        }
    }
    for step in &mut steps {
        if let Action::File { content, .. } = &mut step.action {
            content.truncate(content.trim_end().len());
            content.push('\n');
        }
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_is_prose_files_commands_and_what_they_print() {
        let text =
            "# Prose.\nfile a.yaml\n    a: 1\n\n    b: 2\n\n$ cat a.yaml\na: 1\n...\n\nwait $ false\nexit 1\nstop x\n";
        let steps = parse(text).unwrap();
        assert_eq!(
            steps[0].action,
            Action::File {
                name: "a.yaml".into(),
                content: "a: 1\n\nb: 2\n".into()
            }
        );
        assert_eq!(
            (steps[1].line, &steps[1].expected[..]),
            (7, &["a: 1".to_owned(), "...".to_owned()][..])
        );
        assert_eq!((&steps[2].action, steps[2].exit), (&Action::Wait("false".into()), 1));
        assert_eq!(
            steps[2].expected,
            ["stop x"],
            "only a blank line ends the expected output"
        );
    }

    #[test]
    fn a_line_that_is_nothing_is_named() {
        let error = parse("\nplease work\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2"), "{error}");
    }
}
