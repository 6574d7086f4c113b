//! The example add-ons, which the binary also is: their image holds this binary,
//! called by their names as upstream's is.

use std::{ffi::OsString, path::Path, process::ExitCode, sync::Arc};

use ocm_addon_sdk::{AddOn, AddOnProgram};

/// The first word of what a node runs for the examples' image; the pod's directory
/// and the container's command follow. People do not type it.
pub const IN_POD: &str = "--example-in-pod";

/// All of them.
pub fn programs() -> Vec<AddOnProgram> {
    vec![
        addon_helloworld::program(),
        addon_helloworldhelm::program(),
        addon_helloworldhosted::program(),
    ]
}

/// The hub's halves of all of them. They do something only when somebody creates their ClusterManagementAddOn.
pub fn add_ons() -> Vec<Arc<dyn AddOn>> {
    programs().iter().map(AddOnProgram::add_on).collect()
}

/// Those that a hub manages: all of them or, where others are to manage add-ons of these names, none.
pub fn managed(all: bool) -> Vec<Arc<dyn AddOn>> {
    if all { add_ons() } else { Vec::new() }
}

/// The program that these arguments ask for, and its own arguments: by the name of the first of them that is a path or
/// a word (`drover /helloworld agent ...`, `drover helloworld agent ...`), or by the name the binary was called by.
pub fn asked_for(arguments: &[OsString]) -> Option<(AddOnProgram, &[OsString])> {
    let at = |position: usize| {
        let arguments = arguments.get(position..)?;
        Some((named(arguments)?, arguments))
    };
    at(0).or_else(|| at(1))
}

/// What became of these arguments if they are those of a pod. Whoever may make pods has chosen them, so that they are
/// an example's or nothing: never the command line of this binary, and no files but the pod's.
pub fn run_in_pod(arguments: &[OsString]) -> Option<ExitCode> {
    let (_, rest) = arguments.split_first()?;
    let (first, rest) = rest.split_first()?;
    if first != IN_POD {
        return None;
    }
    let found = rest
        .split_first()
        .and_then(|(dir, rest)| Some((dir, named(rest)?, rest)));
    let Some((dir, program, rest)) = found else {
        eprintln!("error: in a pod this binary is the example add-ons and nothing else");
        return Some(ExitCode::from(2));
    };
    Some(program.confined(dir).run(rest.to_vec()))
}

/// The program that the first of these arguments names, with or without a path.
fn named(arguments: &[OsString]) -> Option<AddOnProgram> {
    let name = Path::new(arguments.first()?).file_name()?;
    programs().into_iter().find(|it| *name == *it.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[&str]) -> Option<(String, usize)> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        asked_for(&words).map(|(program, rest)| (program.name().to_owned(), rest.len()))
    }

    #[test]
    fn an_example_is_selected_by_name_with_or_without_path() {
        let hello = |words| Some(("helloworld".to_owned(), words));
        assert_eq!(found(&["drover", "/helloworld", "agent", "--x"]), hello(3));
        assert_eq!(found(&["drover", "helloworld", "controller"]), hello(2));
        assert_eq!(found(&["/usr/bin/helloworld", "agent"]), hello(2));
        assert_eq!(found(&["drover", "up"]), None);
        assert_eq!(found(&["drover"]), None);
    }

    #[test]
    fn only_the_examples_can_run_in_a_pod() {
        let became = |words: &[&str]| {
            let words: Vec<_> = words.iter().map(OsString::from).collect();
            run_in_pod(&words).map(|it| format!("{it:?}"))
        };
        let refused = Some(format!("{:?}", ExitCode::from(2)));
        assert_eq!(became(&["drover", IN_POD, "/pod", "version"]), refused);
        assert_eq!(became(&["drover", IN_POD, "/pod", "kube", "up"]), refused);
        assert_eq!(became(&["drover", IN_POD, "/pod"]), refused);
        assert_eq!(became(&["drover", IN_POD]), refused);
        let helped = became(&["drover", IN_POD, "/pod", "/helloworld", "--help"]);
        assert_eq!(helped, Some(format!("{:?}", ExitCode::SUCCESS)));
        assert_eq!(became(&["drover", "helloworld"]), None);
        assert_eq!(became(&["drover"]), None);
    }
}
