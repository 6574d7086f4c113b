//! The commands that the guide shows: each `drover ...` has a verb that there is, and flags that some command has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::{
    Source,
    pages::{Page, lines},
};

/// The flags of `drover policy dryrun` are those of upstream's program, which the add-on has.
const DRY_RUN: &str = "addons/config-policy/src/dryrun/flags.rs";

/// What the command line knows, read from the text of its sources.
#[derive(Default)]
struct CommandLine {
    /// The verbs, and what may follow each; nothing where anything may.
    verbs: BTreeMap<String, Option<BTreeSet<String>>>,
    /// Upstream's programs. Their sub-commands and flags are in tables, and not looked at here.
    programs: BTreeSet<String>,
    /// Without the dashes.
    flags: BTreeSet<String>,
}

pub fn findings(sources: &[Source], pages: &[Page]) -> Vec<String> {
    let cli: Vec<&Source> = sources
        .iter()
        .filter(|it| (it.path.starts_with("cli/") || it.path.starts_with(DRY_RUN)) && !it.is_test())
        .collect();
    let known = CommandLine::read(&cli);
    if known.verbs.is_empty() {
        return vec![
            "xtask/src/tidy/commands.rs: no source in cli/ has the enum of the commands, `pub enum DroverCommand {`"
                .into(),
        ];
    }
    pages
        .iter()
        .filter(|it| it.path.starts_with("docs/guide/") || it.path.ends_with("README.md"))
        .flat_map(|page| {
            let judged = commands(&page.text).into_iter().filter_map(|it| known.judge(&it));
            judged.map(|why| format!("{}: {why}", page.path)).collect::<Vec<_>>()
        })
        .collect()
}

impl CommandLine {
    fn read(cli: &[&Source]) -> Self {
        let mut verbs = BTreeMap::new();
        for variant in variants(cli, "DroverCommand") {
            let below = variant.has_subcommands.then(|| {
                let below = variants(cli, &variant.type_name);
                below.into_iter().flat_map(|it| it.names).collect()
            });
            verbs.extend(variant.names.into_iter().map(|name| (name, below.clone())));
        }
        let program = Regex::new("name: \"([a-z-]+)\",\n +about:").expect("it is a pattern");
        let programs = cli
            .iter()
            .flat_map(|it| program.captures_iter(&it.text))
            .map(|it| it[1].to_owned())
            .collect();
        let flags = cli.iter().flat_map(|it| flags(&it.text)).collect();
        Self { verbs, programs, flags }
    }

    /// What is wrong with a command, given as its words behind `drover`.
    fn judge(&self, words: &[String]) -> Option<String> {
        let told = words.join(" ");
        static FLAG: LazyLock<Regex> = LazyLock::new(|| Regex::new("^--([a-z0-9-]+)").expect("it is a pattern"));
        let unknown = words
            .iter()
            .filter_map(|it| FLAG.captures(it.trim_start_matches('[')))
            .find(|it| !self.flags.contains(&it[1]));
        let mut verbs = verbs(words);
        let (first, second) = (verbs.next()?, verbs.next());
        const UPSTREAMS: &[&str] = &["agent", "controller", "debug", "hub", "manager", "webhook-server"];
        if self.programs.contains(first) && second.is_none_or(|it| UPSTREAMS.contains(&it)) {
            return None;
        }
        let Some(below) = self.verbs.get(first) else {
            return Some(format!("`drover {told}`: there is no command {first}"));
        };
        if let (Some(below), Some(second)) = (below, second)
            && !below.contains(second)
        {
            return Some(format!("`drover {told}`: {first} has no command {second}"));
        }
        unknown.map(|it| format!("`drover {told}`: no command has the flag {}", &it[0]))
    }
}

/// The words that may be verbs: those before the first that is none, without global flags and their values.
fn verbs(words: &[String]) -> impl Iterator<Item = &str> {
    const GLOBAL: &[&str] = &["--kubeconfig", "--context", "--log"];
    let mut rest = words.iter().map(String::as_str);
    std::iter::from_fn(move || {
        let mut word = rest.next()?;
        while GLOBAL.contains(&word) {
            rest.next()?;
            word = rest.next()?;
        }
        let is_verb = word.chars().all(|it| it.is_ascii_lowercase() || it == '-') && !word.starts_with('-');
        is_verb.then_some(word)
    })
}

/// Each `drover ...` of a page, in blocks of code and between backticks, as the words behind it.
fn commands(text: &str) -> Vec<Vec<String>> {
    static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new("`(drover [^`]*)`").expect("it is a pattern"));
    let mut found = vec![];
    for (line, in_code) in lines(&text.replace("\\\n", " ")) {
        if in_code {
            let parts = line.split(['|', ';', '&', '(', ')', '#']);
            found.extend(parts.filter_map(command));
        } else {
            found.extend(SPAN.captures_iter(line).filter_map(|it| command(&it[1])));
        }
    }
    found
}

/// The words behind `drover`, where it is what runs.
fn command(line: &str) -> Option<Vec<String>> {
    let is_variable = |it: &str| {
        it.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|it| it.is_ascii_uppercase() || it == '_'))
    };
    let mut words = line.split_whitespace().skip_while(|it| *it == "$" || is_variable(it));
    (words.next()? == "drover").then(|| words.map(str::to_owned).collect())
}

/// One variant of an enum of commands.
struct Variant {
    /// What it is called by, its aliases too.
    names: Vec<String>,
    /// What it holds, without the path.
    type_name: String,
    has_subcommands: bool,
}

/// The variants of an enum of commands, wherever in the sources it is.
fn variants(cli: &[&Source], enum_name: &str) -> Vec<Variant> {
    let head = format!("pub enum {enum_name} {{\n");
    let Some(body) = cli.iter().find_map(|it| it.text.split_once(&head)) else {
        return vec![];
    };
    let variant = Regex::new(r"^    (\w+)(?:\((?:\w+::)*(\w+)\))?").expect("it is a pattern");
    let called = Regex::new("(?:name|alias) = \"([^\"]+)\"").expect("it is a pattern");
    let mut found = vec![];
    let mut attributes = String::new();
    for line in body.1.lines().take_while(|it| *it != "}") {
        if let Some(it) = variant.captures(line) {
            let explicit = attributes.contains("name = \"");
            let mut names: Vec<String> = called.captures_iter(&attributes).map(|it| it[1].to_owned()).collect();
            if !explicit {
                names.push(kebab(&it[1]));
            }
            found.push(Variant {
                names,
                type_name: it.get(2).map_or_else(String::new, |it| it.as_str().to_owned()),
                has_subcommands: attributes.contains("subcommand"),
            });
            attributes.clear();
        } else if !line.trim_start().starts_with("///") {
            attributes.push_str(line);
        }
    }
    found
}

/// The long flags that a source declares to clap.
fn flags(text: &str) -> Vec<String> {
    static DECLARED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?s)#\[arg\((.*?)\)\]\s*(?:#\[[^\n]*\]\s*|///[^\n]*\s*)*(?:pub )?(\w+):"#)
            .expect("it is a pattern")
    });
    static LONG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"\blong\b(?: = "([^"]+)")?"#).expect("it is a pattern"));
    static ALIAS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"\balias(?:es)? = \[?([^\]\)]*)"#).expect("it is a pattern"));
    static QUOTED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#""([a-z0-9-]+)""#).expect("it is a pattern"));
    let mut found = vec!["help".to_owned(), "version".to_owned()];
    for it in DECLARED.captures_iter(text) {
        if let Some(flag) = LONG.captures(&it[1]) {
            found.push(
                flag.get(1)
                    .map_or_else(|| it[2].replace('_', "-"), |it| it.as_str().to_owned()),
            );
            let aliases = ALIAS
                .captures_iter(&it[1])
                .map(|it| it[1].to_owned())
                .collect::<String>();
            found.extend(QUOTED.captures_iter(&aliases).map(|it| it[1].to_owned()));
        }
    }
    found
}

/// `HubInfo` as clap writes it: `hub-info`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for it in name.chars() {
        if it.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(it.to_lowercase());
    }
    kebab
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> CommandLine {
        let source = |text: &str| Source {
            path: "cli/x.rs".into(),
            text: text.into(),
        };
        let sources = [
            source(
                "pub enum DroverCommand {\n    /// Start\n    Up(command::up::Up),\n    #[command(subcommand, alias = \"show\")]\n    Get(get::Get),\n}\n",
            ),
            source(
                "pub enum Get {\n    #[command(name = \"clustersets\")]\n    ClusterSets(Sets),\n    HubInfo(Info),\n}\n",
            ),
            source(
                "struct A {\n    #[arg(long, value_name = \"N\")]\n    pub data_dir: u8,\n    #[arg(long = \"wait\")]\n    waits: bool,\n    #[arg(long, global = true)]\n    context: u8,\n}\n",
            ),
        ];
        CommandLine::read(&sources.iter().collect::<Vec<_>>())
    }

    fn wrong(page: &str) -> Vec<String> {
        let known = known();
        commands(page).iter().filter_map(|it| known.judge(it)).collect()
    }

    #[test]
    fn commands_that_there_are_pass() {
        let page = "Say `drover up --wait`.\n```\n$ A=b drover --context x get hub-info | drover show clustersets\nkubectl drover x\n\
                    drover up --data-dir d \\\n  --wait > nonsense\n```\n";
        assert_eq!(wrong(page), [] as [&str; 0]);
    }

    #[test]
    fn commands_and_flags_that_there_are_not_are_found() {
        let page = "```\ndrover down\ndrover get hub_info\ndrover get sets\n```\n`drover up --waits`";
        assert_eq!(
            wrong(page),
            [
                "`drover down`: there is no command down",
                "`drover get sets`: get has no command sets",
                "`drover up --waits`: no command has the flag --waits",
            ]
        );
    }
}
