//! The example add-ons, which the binary also is: their image holds this binary, called by their names as upstream's is.

use std::{ffi::OsString, path::Path, sync::Arc};

use ocm_addon_sdk::{AddOn, Program};

/// All of them.
pub fn programs() -> Vec<Program> {
    vec![
        addon_helloworld::program(),
        addon_helloworldhelm::program(),
        addon_helloworldhosted::program(),
    ]
}

/// The hub's halves of all of them. They do something only when somebody creates their ClusterManagementAddOn.
pub fn add_ons() -> Vec<Arc<dyn AddOn>> {
    programs().iter().map(Program::add_on).collect()
}

/// Those that a hub manages: all of them or, where others are to manage add-ons of these names, none.
pub fn managed(all: bool) -> Vec<Arc<dyn AddOn>> {
    if all { add_ons() } else { Vec::new() }
}

/// The program that these arguments ask for, and its own arguments: by the name of the first of them that is a path or a word
/// (`drover /helloworld agent ...`, `drover helloworld agent ...`), or by the name the binary was called by.
pub fn asked_for(arguments: &[OsString]) -> Option<(Program, &[OsString])> {
    let at = |position: usize| {
        let name = Path::new(arguments.get(position)?).file_name()?;
        let program = programs().into_iter().find(|it| *name == *it.name())?;
        Some((program, &arguments[position..]))
    };
    at(0).or_else(|| at(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[&str]) -> Option<(String, usize)> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        asked_for(&words).map(|(program, rest)| (program.name().to_owned(), rest.len()))
    }

    #[test]
    fn an_example_is_asked_for_by_its_name_with_or_without_a_path() {
        let hello = |words| Some(("helloworld".to_owned(), words));
        assert_eq!(found(&["drover", "/helloworld", "agent", "--x"]), hello(3));
        assert_eq!(found(&["drover", "helloworld", "controller"]), hello(2));
        assert_eq!(found(&["/usr/bin/helloworld", "agent"]), hello(2));
        assert_eq!(found(&["drover", "up"]), None);
        assert_eq!(found(&["drover"]), None);
    }
}
