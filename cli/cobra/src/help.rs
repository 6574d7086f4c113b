//! The help of a command, in kubectl's layout.

use crate::{
    command::{CobraCommand, Program},
    flag::{Flag, ValueKind},
};

/// Where lines of a flag's description end.
const WIDTH: usize = 100;

impl Program {
    /// The help of the last of these commands; `called` is how the program was called.
    pub fn help(&self, commands: &[&'static CobraCommand], called: &str) -> String {
        let Some(last) = commands.last() else {
            return String::new();
        };
        let of = self.path(commands);
        let mut parts = vec![if last.details.is_empty() {
            last.about.to_owned()
        } else {
            last.details.to_owned()
        }];
        if !last.examples.is_empty() {
            let lines: Vec<String> = last.examples.iter().map(|it| format!("  {called} {it}")).collect();
            parts.push(format!("Examples:\n{}", lines.join("\n")));
        }
        parts.extend(listed(last));
        let flags = last.flags.iter().flat_map(|it| it.iter());
        let flags = usages(flags);
        if !flags.is_empty() {
            parts.push(format!("Options:\n{}", flags.trim_end()));
        }
        let is_group = !last.commands.is_empty();
        if !is_group {
            parts.push(format!("Usage:\n  {of} [options]"));
        }
        let mut hints = Vec::new();
        if is_group {
            hints.push(format!(
                "Use \"{of} <command> --help\" for more information about a given command."
            ));
        }
        // A group that is no program does nothing that an option could change.
        if !is_group || commands.len() == 1 {
            hints.push(format!(
                "Use \"{} options\" for a list of global command-line options (applies to all commands).",
                self.root.name
            ));
        }
        parts.push(hints.join("\n"));
        format!("{}\n", parts.join("\n\n"))
    }

    /// The flags that every command takes.
    pub fn options(&self) -> String {
        format!(
            "The following options can be passed to any command:\n\n{}",
            usages(self.global.iter())
        )
    }
}

/// The commands below one, under their headings.
fn listed(group: &CobraCommand) -> Vec<String> {
    let mut headings: Vec<&str> = Vec::new();
    for it in group.commands {
        if !headings.contains(&it.heading) {
            headings.push(it.heading);
        }
    }
    let width = group.commands.iter().map(|it| it.name.len()).max().unwrap_or_default();
    let lines = |heading: &str| -> Vec<String> {
        let mut of: Vec<&CobraCommand> = group.commands.iter().filter(|it| it.heading == heading).collect();
        of.sort_by_key(|it| it.name);
        of.iter()
            .map(|it| format!("  {:width$}   {}", it.name, it.about))
            .collect()
    };
    let title = |heading: &str| match heading {
        "" => "Available Commands:".to_owned(),
        heading => heading.to_owned(),
    };
    headings
        .iter()
        .map(|it| format!("{}\n{}", title(it), lines(it).join("\n")))
        .collect()
}

fn usages<'a>(flags: impl Iterator<Item = &'a Flag>) -> String {
    let mut flags: Vec<&Flag> = flags.filter(|it| !it.hidden).collect();
    flags.sort_by_key(|it| it.name);
    flags.into_iter().map(usage).collect()
}

/// One flag: its name with its default, and what it does.
fn usage(flag: &Flag) -> String {
    let short = flag.short.map(|it| format!("-{it}, ")).unwrap_or_default();
    let default = match flag.kind {
        ValueKind::Text => format!("'{}'", flag.default),
        ValueKind::List | ValueKind::Array | ValueKind::Pairs => format!("[{}]", flag.default),
        _ => flag.default.to_owned(),
    };
    format!(
        "    {short}--{}={default}:\n\t{}\n\n",
        flag.name,
        wrapped(flag.help).join("\n\t")
    )
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else {
            break;
        };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH - 10 {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::flag;

    #[test]
    fn a_flag_is_shown_with_its_letter_and_default() {
        let text = usage(&flag("output", ValueKind::Text, "tree", "How to print it").short('o'));
        assert_eq!(text, "    -o, --output='tree':\n\tHow to print it\n\n");
        let text = usage(&flag("wait", ValueKind::Bool, "false", "Wait"));
        assert_eq!(text, "    --wait=false:\n\tWait\n\n");
        let text = usage(&flag("clusters", ValueKind::List, "", "Names"));
        assert_eq!(text, "    --clusters=[]:\n\tNames\n\n");
    }

    #[test]
    fn a_long_description_is_wrapped_between_words() {
        let lines = wrapped(&"word ".repeat(40));
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|it| it.len() <= WIDTH - 10), "{lines:?}");
    }
}
