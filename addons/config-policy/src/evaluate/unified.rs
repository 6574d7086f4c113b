//! Unified differences as Python's difflib finds them, which Go's port of it has in upstream's messages: the longest
//! block of lines that both texts have is kept, then the longest ones before and after it, and so on.
//! Upstream: pmezard/go-difflib `SequenceMatcher`, `WriteUnifiedDiff`.

use std::{collections::HashMap, fmt::Write, ops::Range};

/// In texts of so many lines, lines that make up more than a hundredth do not begin a block.
const LONG: usize = 200;

/// How two texts differ, with lines around each change; empty where they do not.
pub fn unified(before: &str, after: &str, names: (&str, &str), context: usize) -> String {
    let (before, after) = (lines(before), lines(after));
    let changes = changes(&blocks(&before, &after));
    if changes.is_empty() {
        return String::new();
    }
    let mut out = format!("--- {}\n+++ {}\n", names.0, names.1);
    for hunk in hunks(&changes, context) {
        // What is in front of the first change and behind the last one is the same in both texts.
        let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
        let leading = context.min(first.old.start);
        let trailing = context.min(before.len() - last.old.end);
        let old = first.old.start - leading..last.old.end + trailing;
        let new = first.new.start - leading..last.new.end + trailing;
        let _ = writeln!(out, "@@ -{} +{} @@", range(&old), range(&new));
        let mut at = old.start;
        for change in hunk {
            write_lines(&mut out, ' ', &before[at..change.old.start]);
            write_lines(&mut out, '-', &before[change.old.clone()]);
            write_lines(&mut out, '+', &after[change.new.clone()]);
            at = change.old.end;
        }
        write_lines(&mut out, ' ', &before[at..old.end]);
    }
    out
}

/// The lines of a text. As upstream has it, behind the last line break comes one more, which is empty.
fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

fn write_lines(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        out.push('\n');
    }
}

fn range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => (lines.start + 1).to_string(),
        length => format!("{},{length}", lines.start + 1),
    }
}

/// Lines that both texts have: where in each, and how many.
#[derive(Clone, Copy)]
struct Block {
    old: usize,
    new: usize,
    length: usize,
}

/// Lines of one text in place of lines of the other.
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

fn changes(blocks: &[Block]) -> Vec<Change> {
    let (mut old, mut new) = (0, 0);
    let mut changes = Vec::new();
    for block in blocks {
        if old < block.old || new < block.new {
            changes.push(Change {
                old: old..block.old,
                new: new..block.new,
            });
        }
        (old, new) = (block.old + block.length, block.new + block.length);
    }
    changes
}

/// Changes with so few lines between them that these are shown without a gap.
fn hunks(changes: &[Change], context: usize) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(move |one, next| next.old.start - one.old.end <= 2 * context)
}

/// The blocks in order; the last one is empty and at the ends of both texts.
fn blocks(before: &[&str], after: &[&str]) -> Vec<Block> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in after.iter().enumerate() {
        places.entry(line).or_default().push(at);
    }
    if after.len() >= LONG {
        let many = after.len() / 100 + 1;
        places.retain(|_, at| at.len() <= many);
    }
    let mut blocks = Vec::new();
    let mut open = vec![(0..before.len(), 0..after.len())];
    while let Some((old, new)) = open.pop() {
        let block = longest(before, after, &places, &old, &new);
        if block.length == 0 {
            continue;
        }
        let behind = (block.old + block.length..old.end, block.new + block.length..new.end);
        let in_front = (old.start..block.old, new.start..block.new);
        blocks.push(block);
        open.extend(
            [in_front, behind]
                .into_iter()
                .filter(|(old, new)| !old.is_empty() && !new.is_empty()),
        );
    }
    blocks.sort_by_key(|it| it.old);
    blocks.push(Block {
        old: before.len(),
        new: after.len(),
        length: 0,
    });
    blocks
}

/// The longest block inside of these lines; of several the first one of the old text, and of the new one.
fn longest(
    before: &[&str],
    after: &[&str],
    places: &HashMap<&str, Vec<usize>>,
    old: &Range<usize>,
    new: &Range<usize>,
) -> Block {
    let mut best = Block {
        old: old.start,
        new: new.start,
        length: 0,
    };
    // How long the block is that ends with the line before, by its place in the new text.
    let mut ending: HashMap<usize, usize> = HashMap::new();
    for at in old.clone() {
        let mut ending_here = HashMap::new();
        let same = places.get(before[at]).map_or(&[][..], Vec::as_slice);
        for &place in same.iter().filter(|it| new.contains(it)) {
            let length = match place {
                0 => 1,
                place => ending.get(&(place - 1)).map_or(1, |it| it + 1),
            };
            ending_here.insert(place, length);
            if length > best.length {
                best = Block {
                    old: at + 1 - length,
                    new: place + 1 - length,
                    length,
                };
            }
        }
        ending = ending_here;
    }
    // Lines that begin no block belong to the one that they are next to.
    while best.old > old.start && best.new > new.start && before[best.old - 1] == after[best.new - 1] {
        best.old -= 1;
        best.new -= 1;
        best.length += 1;
    }
    while best.old + best.length < old.end
        && best.new + best.length < new.end
        && before[best.old + best.length] == after[best.new + best.length]
    {
        best.length += 1;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(before: &str, after: &str, context: usize) -> String {
        let text = |lines: &str| lines.split(' ').map(|it| format!("{it}\n")).collect::<String>();
        unified(&text(before), &text(after), ("a", "b"), context)
    }

    #[test]
    fn the_longest_block_is_kept() {
        assert_eq!(
            of("x 1 2 3 y", "1 y 1 2 3", 3),
            "--- a\n+++ b\n@@ -1,6 +1,6 @@\n-x\n+1\n+y\n 1\n 2\n 3\n-y\n \n"
        );
    }

    #[test]
    fn changes_far_from_each_other_are_apart() {
        assert_eq!(
            of("a b c d e f", "A b c d e F", 1),
            "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,3 +5,3 @@\n e\n-f\n+F\n \n"
        );
        assert_eq!(of("a b c", "a b c", 3), "");
        assert_eq!(of("a", "a b", 0), "--- a\n+++ b\n@@ -1,0 +2 @@\n+b\n");
    }
}
