//! Manual pages, one for each command, made of what the command's own `--help` says.

use anyhow::Result;

/// The pages as file names and texts. `help` prints the help of `drover` with these verbs.
pub fn pages(version: &str, help: &dyn Fn(&[&str]) -> Result<String>) -> Result<Vec<(String, String)>> {
    let mut pages = vec![];
    visit(&[], version, help, &mut pages)?;
    Ok(pages)
}

fn visit(
    verbs: &[&str],
    version: &str,
    help: &dyn Fn(&[&str]) -> Result<String>,
    pages: &mut Vec<(String, String)>,
) -> Result<()> {
    let text = help(verbs)?;
    let name = [&["drover"], verbs].concat().join("-");
    pages.push((format!("{name}.1"), page(&name, version, &text)));
    for below in commands(&text) {
        visit(&[verbs, &[below]].concat(), version, help, pages)?;
    }
    Ok(())
}

/// The commands that a help lists.
fn commands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|it| *it != "Commands:")
        .skip(1)
        .take_while(|it| !it.is_empty())
        // A description that goes on is further to the right.
        .filter_map(|it| it.strip_prefix("  ").filter(|it| !it.starts_with(' ')))
        .filter_map(|it| it.split_whitespace().next())
        .filter(|it| *it != "help")
        .collect()
}

/// One page: the help as it is, in the shape that `man` reads.
fn page(name: &str, version: &str, help: &str) -> String {
    // The first paragraph says what the command is for.
    let (about, rest) = help.split_once("\n\n").unwrap_or((help, ""));
    format!(
        ".TH {} 1 \"\" \"drover {version}\" \"Drover\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n{}\n.fi\n",
        name.to_uppercase(),
        escaped(name),
        escaped(&about.replace('\n', " ")),
        escaped(rest.trim()),
    )
}

/// Text in which nothing means anything to `man`.
fn escaped(text: &str) -> String {
    text.lines()
        .map(|line| {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            match line.starts_with(['.', '\'']) {
                true => format!("\\&{line}"),
                false => line,
            }
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str = "Does things.\n\nUsage: drover <COMMAND>\n\nCommands:\n  get   Print something, which takes\n          more than a line\n  help  Print this message\n\nOptions:\n  -h, --help  Print help\n";

    #[test]
    fn every_command_has_a_page() {
        let help = |verbs: &[&str]| {
            Ok(if verbs.is_empty() {
                TOP.to_owned()
            } else {
                "Prints what\nthere is.\n\n.x\n".to_owned()
            })
        };
        let pages = pages("1.2.3", &help).unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["drover.1", "drover-get.1"]);
        assert_eq!(
            pages[1].1,
            ".TH DROVER-GET 1 \"\" \"drover 1.2.3\" \"Drover\"\n.SH NAME\ndrover\\-get \\- Prints what there is.\n.SH DESCRIPTION\n.nf\n\\&.x\n.fi\n"
        );
    }
}
