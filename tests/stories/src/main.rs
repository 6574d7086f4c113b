//! Runs stories: `stories [--lane LANE] [--kubernetes FOLDER] [NAME...]`. Stories start it, too: as `up` it stands in
//! for `drover up`, and as `keep` it ends a program together with the one that started it.

use anyhow::{Context, Result, bail};
use std::{path::PathBuf, process::ExitCode};
use stories::{Lane, Wanted, fleet, keep};

/// Where `cargo xtask kubernetes build` puts them.
const KUBERNETES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/kubernetes/bin");

fn main() -> Result<ExitCode> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((first, rest)) if first == "up" => fleet::up(rest),
        Some((first, rest)) if first == "kube" => match rest.split_first() {
            Some((second, rest)) if second == "up" => fleet::kube_up(rest),
            _ => bail!("of `drover kube` there is `up`"),
        },
        Some((first, rest)) if first == "keep" => keep::keep(rest),
        _ => Ok(if stories::run_all(&wanted(words)?)? {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }),
    }
}

fn wanted(words: Vec<String>) -> Result<Wanted> {
    let mut wanted = Wanted {
        kubernetes: PathBuf::from(KUBERNETES),
        ..Wanted::default()
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--lane" => wanted.lane = Lane::named(&words.next().context("--lane wants a name")?)?,
            "--at-once" => wanted.at_once = words.next().context("--at-once wants a number")?.parse()?,
            "--kubernetes" => wanted.kubernetes = words.next().context("--kubernetes wants a folder")?.into(),
            it if it.starts_with('-') => bail!("{it}: there are --lane LANE, --at-once NUMBER and --kubernetes FOLDER"),
            _ => wanted.names.push(word),
        }
    }
    Ok(wanted)
}
