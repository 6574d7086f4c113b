//! The functions of sprig 3, file by file as sprig groups them. Left out: `env`,
//! `expandenv` and whatever asks the network.

mod cases;
mod certificates;
mod dates;
mod decimal;
mod defaults;
mod dicts;
pub(crate) mod encoding;
mod keys;
mod layout;
mod lists;
mod numbers;
mod passwords;
mod paths;
mod random;
mod regexes;
pub(crate) mod semver;
mod strings;
mod urls;

pub(crate) use dates::time;
pub(crate) use numbers::to_int64_of_any_decimals;
pub(crate) use regexes::go_regex;
use serde_json::Value as Json;
pub(crate) use urls::url_scheme;

use crate::functions::Functions;

/// What Go says to a function that asks a nil for its type.
pub(crate) const NO_TYPE: &str = "reflect: call of reflect.Value.Type on zero Value";

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
    passwords::add(functions);
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
