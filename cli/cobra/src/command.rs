//! The commands of a program, and which of them a line means.

use crate::{
    flag::{Flag, KnownGate},
    parse::{ParseError, Parsed, is_switch, long, parse, short},
};

/// A command, or a group of them.
#[derive(Debug)]
pub struct CobraCommand {
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// More than that, or nothing.
    pub details: &'static str,
    /// Lines that may be typed, one each, without the program's name.
    pub examples: &'static [&'static str],
    pub flags: &'static [&'static [Flag]],
    pub gates: &'static [KnownGate],
    /// A command with others below it does nothing itself.
    pub commands: &'static [CobraCommand],
    /// Under which heading the program's own help has it.
    pub heading: &'static str,
}

impl CobraCommand {
    /// The one of this name below it.
    pub fn below(&self, name: &str) -> Option<&'static CobraCommand> {
        self.commands.iter().find(|it| it.name == name)
    }
}

/// A program: its commands, and the flags that all of them take.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    pub root: &'static CobraCommand,
    pub global: &'static [Flag],
}

/// What a line means.
#[derive(Debug)]
pub enum Find {
    /// A command with what it was given.
    Run(Vec<&'static CobraCommand>, Parsed),
    /// The help of a command, or of the group that was named.
    Help(Vec<&'static CobraCommand>),
    /// It is refused. The text has the prefix and the advice of cobra.
    Wrong(String),
}

impl Program {
    /// The names of a command and those above it, as errors and helps have them.
    pub fn path(&self, commands: &[&'static CobraCommand]) -> String {
        let names: Vec<&str> = commands.iter().map(|it| it.name).collect();
        names.join(" ")
    }

    /// All flags of a command.
    pub fn flags(&self, command: &'static CobraCommand) -> Vec<&'static Flag> {
        let own = command.flags.iter().flat_map(|it| it.iter());
        own.chain(self.global).collect()
    }

    /// What a line means, the program's name left out.
    pub fn find(&self, line: &[String]) -> Find {
        let mut rest = line.to_vec();
        let mut path = vec![self.root];
        let mut last = self.root;
        while let Some(at) = first_word(&self.flags(last), &rest) {
            let Some(next) = last.below(&rest[at]) else {
                break;
            };
            rest.remove(at);
            path.push(next);
            last = next;
        }
        let of = self.path(&path);
        let unknown = first_word(&self.flags(last), &rest).map(|at| rest[at].as_str());
        if let (Some(word), false) = (unknown, last.commands.is_empty()) {
            return Find::Wrong(format!(
                "Error: unknown command {word:?} for {of:?}{}\nRun '{of} --help' for usage.",
                suggestion(last, word)
            ));
        }
        match parse(&self.flags(last), last.gates, &rest) {
            Err(ParseError::Help) => Find::Help(path),
            Err(ParseError::Wrong(why)) => Find::Wrong(format!("Error: {why}\nSee '{of} --help' for usage.")),
            Ok(_) if !last.commands.is_empty() => Find::Help(path),
            Ok(parsed) => Find::Run(path, parsed),
        }
    }

    /// Where the name of the command is, if there is one.
    pub fn first_word(&self, line: &[String]) -> Option<usize> {
        first_word(&self.flags(self.root), line)
    }

    /// The commands that words name, for `help get token`; nothing where one of them is unknown.
    pub fn named(&self, words: &[String]) -> Option<Vec<&'static CobraCommand>> {
        let mut path = vec![self.root];
        let mut last = self.root;
        for word in words {
            last = last.below(word)?;
            path.push(last);
        }
        Some(path)
    }
}

/// Where the first word is that is neither a flag nor a flag's value. A flag that is not known yet, because it is one
/// of the command's that comes behind it, is taken to have a value.
fn first_word(flags: &[&'static Flag], line: &[String]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = line.get(at) {
        let Some(rest) = word.strip_prefix('-') else {
            if !word.is_empty() {
                return Some(at);
            }
            at += 1;
            continue;
        };
        if rest == "-" {
            return None;
        }
        let is_alone = word.contains('=')
            || match rest.strip_prefix('-') {
                Some(name) => long(flags, name).is_some_and(is_switch),
                None => {
                    let mut letters = rest.chars();
                    match (letters.next(), letters.next()) {
                        (Some(letter), None) => short(flags, letter).is_some_and(is_switch),
                        _ => true,
                    }
                }
            };
        at += if is_alone { 1 } else { 2 };
    }
    None
}

/// The commands that may have been meant.
fn suggestion(group: &CobraCommand, word: &str) -> String {
    let typed = word.to_lowercase();
    let near = |name: &str| name.starts_with(&typed) || distance(&typed, name) <= 2;
    let lines: Vec<String> = group
        .commands
        .iter()
        .filter(|it| near(it.name))
        .map(|it| format!("\t{}\n", it.name))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n\nDid you mean this?\n{}", lines.concat())
}

/// How many letters have to be added, removed or changed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.chars().enumerate() {
        let mut now = vec![row + 1];
        for (column, with) in other.iter().enumerate() {
            let changed = before[column] + usize::from(letter != *with);
            now.push(changed.min(before[column + 1] + 1).min(now[column] + 1));
        }
        before = now;
    }
    before.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::{ValueKind, flag};

    const fn command(
        name: &'static str,
        flags: &'static [&'static [Flag]],
        commands: &'static [CobraCommand],
    ) -> CobraCommand {
        CobraCommand {
            name,
            about: "",
            details: "",
            examples: &[],
            flags,
            gates: &[],
            commands,
            heading: "",
        }
    }

    const PROGRAM: Program = Program {
        root: &command(
            "program",
            &[],
            &[
                command(
                    "init",
                    &[&[
                        flag("wait", ValueKind::Bool, "false", ""),
                        flag("output", ValueKind::Text, "", ""),
                    ]],
                    &[],
                ),
                command("get", &[], &[command("token", &[], &[])]),
            ],
        ),
        global: &[
            flag("kubeconfig", ValueKind::Text, "", ""),
            flag("dry-run", ValueKind::Bool, "false", ""),
        ],
    };

    fn found(line: &str) -> String {
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match PROGRAM.find(&line) {
            Find::Run(path, parsed) => format!("{} {:?}", PROGRAM.path(&path), parsed.words),
            Find::Help(path) => format!("help {}", PROGRAM.path(&path)),
            Find::Wrong(why) => why,
        }
    }

    #[test]
    fn flags_may_stand_before_the_command() {
        for line in [
            "init --kubeconfig get",
            "--kubeconfig get init",
            "--dry-run init",
            "--output x init",
            "--wait=true init",
            "--kubeconfig=get --dry-run init --wait",
        ] {
            assert_eq!(found(line), "program init []", "{line}");
        }
        assert_eq!(found("get --dry-run token a b"), "program get token [\"a\", \"b\"]");
        // A flag that only the command knows takes the next word with it where it has no value.
        assert_eq!(
            found("--wait init"),
            "Error: unknown flag: --wait\nSee 'program --help' for usage."
        );
    }

    #[test]
    fn unknown_commands_and_flags_are_refused_as_by_cobra() {
        assert_eq!(
            found("inti"),
            "Error: unknown command \"inti\" for \"program\"\n\nDid you mean this?\n\tinit\n\nRun 'program --help' for usage."
        );
        assert_eq!(
            found("get nothing"),
            "Error: unknown command \"nothing\" for \"program get\"\nRun 'program get --help' for usage."
        );
        assert_eq!(
            found("get token --foo"),
            "Error: unknown flag: --foo\nSee 'program get token --help' for usage."
        );
    }

    #[test]
    fn a_group_and_a_question_show_the_help() {
        assert_eq!(found(""), "help program");
        assert_eq!(found("get"), "help program get");
        assert_eq!(found("get token -h"), "help program get token");
        assert_eq!(found("--help init"), "help program");
    }
}
