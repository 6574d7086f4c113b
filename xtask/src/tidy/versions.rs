//! What is written in more than one place and has to agree: the compiler (what rustup takes, what builds the image, the
//! oldest that Cargo lets build), and the version of a release (of the crates, and of the charts).

use std::path::Path;

use anyhow::Context;

pub fn findings(root: &Path) -> anyhow::Result<Vec<String>> {
    let read = |it: &str| std::fs::read_to_string(root.join(it)).with_context(|| format!("could not read {it}"));
    let manifest = read("Cargo.toml")?;
    let mut found = compilers(&read("rust-toolchain.toml")?, &manifest, &read("deploy/Containerfile")?);
    let release = value(&manifest, "version = \"");
    let of_chart = [("Chart.yaml", "version: "), ("Chart.yaml", "appVersion: ")];
    let of_image = ("values.yaml", "image: drover:");
    for (chart, has_image) in [
        ("cluster-manager", false),
        ("klusterlet", false),
        ("drover-agent", true),
        ("drover-hub", true),
    ] {
        for (file, begins) in of_chart.into_iter().chain(has_image.then_some(of_image)) {
            let path = format!("deploy/charts/{chart}/{file}");
            let written = value(&read(&path)?, begins).to_owned();
            if written != release {
                found.push(format!(
                    "{path}: {begins}{written} is not the version {release} of Cargo.toml"
                ));
            }
        }
    }
    Ok(found)
}

fn compilers(toolchain: &str, manifest: &str, image: &str) -> Vec<String> {
    let channel = value(toolchain, "channel = \"");
    let oldest = value(manifest, "rust-version = \"");
    let mut found = vec![];
    if channel.matches('.').count() != 2 || !format!("{channel}.").starts_with(&format!("{oldest}.")) {
        found.push(format!(
            "rust-toolchain.toml: the channel {channel:?} is no release of rust-version {oldest:?} in Cargo.toml"
        ));
    }
    for begins in ["FROM rust:", "ENV RUSTUP_TOOLCHAIN="] {
        let built_with = value(image, begins);
        if built_with.split('-').next() != Some(channel) {
            found.push(format!(
                "deploy/Containerfile: {begins}{built_with} is not the channel {channel:?} of rust-toolchain.toml"
            ));
        }
    }
    found
}

/// What stands behind these words, up to a quote or a space.
fn value<'a>(text: &'a str, behind: &str) -> &'a str {
    text.lines()
        .find_map(|it| it.strip_prefix(behind))
        .and_then(|it| it.split(['"', ' ']).next())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_compiler_in_the_image_is_found() {
        let (toolchain, manifest) = ("channel = \"1.95.0\"\n", "rust-version = \"1.95\"\n");
        let image = "FROM rust:1.95.0-slim AS build\nENV RUSTUP_TOOLCHAIN=1.95.0\n";
        assert!(compilers(toolchain, manifest, image).is_empty());
        assert_eq!(
            compilers(
                toolchain,
                manifest,
                "FROM rust:1-slim AS build\nENV RUSTUP_TOOLCHAIN=1.95.0\n"
            )
            .len(),
            1
        );
        assert_eq!(compilers("channel = \"stable\"\n", manifest, image).len(), 3);
        assert_eq!(compilers(toolchain, "rust-version = \"1.9\"\n", image).len(), 1);
    }
}
