//! What is written to be read: every link arrives, and the book of the guide has every page.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use anyhow::Context;
use regex::Regex;

/// The table of contents of the book that docs/ is.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A page of Markdown.
pub struct Page {
    /// From the root, with slashes.
    pub path: String,
    pub text: String,
}

/// Every page of the house, by path.
pub fn read(root: &Path) -> anyhow::Result<Vec<Page>> {
    let mut pages = vec![];
    visit(root, root, &mut pages)?;
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(pages)
}

fn visit(root: &Path, folder: &Path, pages: &mut Vec<Page>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            // Data directories of `drover up` begin with a dot, as does what git and cargo keep;
            // GitHub's folder does as well.
            if name == ".github" || !name.starts_with('.') && name != "target" {
                visit(root, &path, pages)?;
            }
        } else if name.ends_with(".md") {
            let text = std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
            let path = path.strip_prefix(root).expect("found below it");
            pages.push(Page {
                path: path.to_string_lossy().replace('\\', "/"),
                text,
            });
        }
    }
    Ok(())
}

pub fn findings(root: &Path, pages: &[Page]) -> Vec<String> {
    let anchors: BTreeMap<&str, Vec<String>> = pages.iter().map(|it| (it.path.as_str(), anchors(&it.text))).collect();
    let mut found = vec![];
    for page in pages {
        for target in links(&page.text) {
            if let Some(why) = arrives(root, &page.path, &target, &anchors) {
                found.push(format!("{}: the link {target}: {why}", page.path));
            }
        }
    }
    found.extend(book(pages));
    found
}

/// Why a link from a page leads nowhere.
fn arrives(root: &Path, from: &str, target: &str, anchors: &BTreeMap<&str, Vec<String>>) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => from.to_owned(),
        path => match below(from, path) {
            Some(it) if root.join(&it).exists() => it,
            Some(it) => return Some(format!("there is no {it}")),
            None => return Some("it leads out of the repository".into()),
        },
    };
    let known = anchors.get(path.as_str())?;
    (!anchor.is_empty() && !known.iter().any(|it| it == anchor)).then(|| format!("{path} has no heading #{anchor}"))
}

/// A path that is told from a page, as one from the root.
fn below(page: &str, path: &str) -> Option<String> {
    // A slash at the beginning means another thing on every site.
    if path.starts_with('/') {
        return None;
    }
    let mut whole: Vec<&str> = page.split('/').collect();
    whole.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                whole.pop()?;
            }
            name => whole.push(name),
        }
    }
    Some(whole.join("/"))
}

/// The lines of a page, each with whether it stands between fences, which are left out.
pub fn lines(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut in_code = false;
    text.lines().filter_map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!is_fence).then_some((line, in_code))
    })
}

/// Where the links and pictures of a page lead, but for those in code.
fn links(text: &str) -> Vec<String> {
    static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`]*`").expect("it is a pattern"));
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^()\s]+)\)").expect("it is a pattern"));
    let mut found = vec![];
    for (line, _) in lines(text).filter(|(_, in_code)| !in_code) {
        let prose = CODE.replace_all(line, "``");
        found.extend(LINK.captures_iter(&prose).map(|it| it[1].to_owned()));
    }
    found
}

/// What `#` may name on a page: its headings, as GitHub and mdBook write them.
fn anchors(text: &str) -> Vec<String> {
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[([^\]]*)\]\([^)]*\)").expect("it is a pattern"));
    let mut found: Vec<String> = vec![];
    for (line, in_code) in lines(text) {
        let heading = line.trim_start_matches('#');
        if in_code || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug: String = LINK
            .replace_all(heading.trim(), "$1")
            .to_lowercase()
            .chars()
            .filter_map(|it| match it {
                ' ' => Some('-'),
                it => (it.is_alphanumeric() || it == '-' || it == '_').then_some(it),
            })
            .collect();
        let same = found.iter().filter(|it| **it == slug).count();
        found.push(if same == 0 { slug } else { format!("{slug}-{same}") });
    }
    found
}

/// What the book's table of contents lacks, and has twice.
fn book(pages: &[Page]) -> Vec<String> {
    let Some(summary) = pages.iter().find(|it| it.path == SUMMARY) else {
        return vec![format!("{SUMMARY}: the book has no table of contents")];
    };
    let listed: Vec<String> = links(&summary.text)
        .iter()
        .filter_map(|it| below(SUMMARY, it))
        .collect();
    pages
        .iter()
        .filter(|page| page.path.starts_with("docs/") && page.path != SUMMARY)
        .filter_map(|page| match listed.iter().filter(|it| **it == page.path).count() {
            1 => None,
            0 => Some(format!("{SUMMARY}: {} is not listed", page.path)),
            _ => Some(format!("{SUMMARY}: {} is listed twice", page.path)),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page {
            path: path.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let pages = [
            page(
                "docs/guide/a.md",
                "# A\n\n[b](b.md#the-b-of-b), [gone](c.md), [no](b.md#x), [out](../../../d.md), [web](https://e)\n",
            ),
            page(
                "docs/guide/b.md",
                "## The `b` of [B](a.md)\n\n```\n[not a link](in-code.md)\n```\n\nNor `[this](one.md)`.\n",
            ),
            page(SUMMARY, "- [A](guide/a.md)\n- [B](guide/b.md)\n- [B](guide/b.md)\n"),
        ];
        let folder = std::env::temp_dir().join(format!("tidy-pages-{}", std::process::id()));
        for it in &pages {
            let file = folder.join(&it.path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, &it.text).unwrap();
        }
        let found = findings(&folder, &pages);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            found,
            [
                "docs/guide/a.md: the link c.md: there is no docs/guide/c.md",
                "docs/guide/a.md: the link b.md#x: docs/guide/b.md has no heading #x",
                "docs/guide/a.md: the link ../../../d.md: it leads out of the repository",
                "docs/SUMMARY.md: docs/guide/b.md is listed twice",
            ]
        );
    }

    #[test]
    fn headings_become_anchors_as_on_github() {
        assert_eq!(
            anchors("# What's `a_b`?\n## Many clients\n## Many clients\n```\n# no heading\n```\n"),
            ["whats-a_b", "many-clients", "many-clients-1"]
        );
    }
}
