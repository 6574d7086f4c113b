//! The functions of sprig 3, file by file as sprig groups them. Left out: `env`, `expandenv` and whatever asks the network.

mod cases;
mod certificates;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod keys;
mod layout;
mod lists;
mod numbers;
mod paths;
mod random;
mod regexes;
pub(crate) mod semver;
mod strings;
mod urls;

use serde_json::Value as Json;

use crate::functions::Functions;

pub(crate) fn add(functions: &mut Functions) {
    strings::add(functions);
    lists::add(functions);
    dicts::add(functions);
    defaults::add(functions);
    numbers::add(functions);
    semver::add(functions);
    encoding::add(functions);
    paths::add(functions);
    urls::add(functions);
    regexes::add(functions);
    dates::add(functions);
    random::add(functions);
    keys::add(functions);
}

/// Reads JSON as Go's `encoding/json` does.
pub(crate) fn from_json(text: &str) -> Result<Json, String> {
    serde_json::from_str(text).map_err(|error| {
        if text.trim().is_empty() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        }
    })
}
