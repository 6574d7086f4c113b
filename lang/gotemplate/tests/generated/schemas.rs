//! Random schemas and values that sometimes fit them.

use serde_json::{Map, Value as Json, json};

use crate::dice::Dice;

const DRAFTS: &[&str] = &[
    "",
    "",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];
const NAMES: &[&str] = &["a", "b", "c/d", "e~"];

pub fn case(dice: &mut Dice) -> Json {
    let draft = dice.pick(DRAFTS);
    let number = match draft {
        "" => 2020,
        it if it.contains("2019") => 2019,
        it if it.contains("2020") => 2020,
        it if it.contains("07") => 7,
        it if it.contains("06") => 6,
        _ => 4,
    };
    let mut root = object(dice, number, 3);
    if !draft.is_empty() {
        root["$schema"] = json!(draft);
    }
    // What refers to itself is refused in other words.
    let mut definition = || Some(object(dice, number, 1)).filter(|it| !it.to_string().contains("$ref"));
    root["definitions"] = json!({"one": definition().unwrap_or(json!({})), "two": definition().unwrap_or(json!({}))});
    let files = json!({
        "Chart.yaml": "apiVersion: v2\nname: c\nversion: 0.1.0\n",
        "values.schema.json": root.to_string(),
        "templates/a.yaml": "fits",
    });
    // A schema that is none is refused in each library's own words.
    json!({"mode": "chart", "files": files, "data": table(dice, 2)})
}

fn schema(dice: &mut Dice, draft: u16, depth: usize) -> Json {
    if draft > 4 && dice.chance(6) {
        return json!(dice.chance(60));
    }
    object(dice, draft, depth)
}

fn object(dice: &mut Dice, draft: u16, depth: usize) -> Json {
    let mut made = Map::new();
    let keywords = 1 + dice.below(3);
    for _ in 0..keywords {
        let (name, value) = keyword(dice, draft, depth);
        made.insert(name.to_owned(), value);
    }
    if draft == 4 {
        for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if made.contains_key(bound) && dice.chance(40) {
                made.insert(exclusive.to_owned(), json!(dice.chance(50)));
            }
        }
    }
    Json::Object(made)
}

fn keyword(dice: &mut Dice, draft: u16, depth: usize) -> (&'static str, Json) {
    let bound = |dice: &mut Dice| json!(dice.pick(&[0.0, 1.0, 1.5, 2.0, -3.0, 1200.0, 1e7]));
    let length = |dice: &mut Dice| json!(dice.below(4));
    match dice.below(if depth > 0 { 36 } else { 17 }) {
        0..=2 => {
            let types = ["string", "number", "integer", "object", "array", "boolean", "null"];
            let one = dice.pick(&types);
            let other = dice.pick(&types);
            match dice.chance(30) && one != other {
                true => ("type", json!([one, other])),
                false => ("type", json!(one)),
            }
        }
        3 | 4 => ("required", json!([dice.pick(&["a", "b"]), dice.pick(&["e~", "c/d"])])),
        5 => (
            "enum",
            json!(
                dice.pick(&[r#"[1, "x", null]"#, r#"["x"]"#, r#"[true, {"a": 1}]"#, "[1.50, 2]"])
                    .parse::<Json>()
                    .unwrap()
            ),
        ),
        6 if draft > 4 => (
            "const",
            dice.pick(&["1", "\"x\"", "null", "{\"a\": 1}", "1.0"]).parse().unwrap(),
        ),
        7 => ("minimum", bound(dice)),
        8 => ("maximum", bound(dice)),
        9 if draft > 4 => ("exclusiveMinimum", bound(dice)),
        10 if draft > 4 => ("exclusiveMaximum", bound(dice)),
        11 => ("multipleOf", json!(dice.pick(&[0.1, 2.0, 0.5, 3.0]))),
        12 => (dice.pick(&["minLength", "maxLength"]), length(dice)),
        13 => ("pattern", json!(dice.pick(&["^x", "[0-9]+", "é$", ".", "it's"]))),
        14 => (
            dice.pick(&["minItems", "maxItems", "minProperties", "maxProperties"]),
            length(dice),
        ),
        15 => ("uniqueItems", json!(true)),
        16 => ("$ref", json!(dice.pick(&["#/definitions/one", "#/definitions/two"]))),
        17..=21 => ("properties", schemas(dice, draft, depth)),
        22 => (
            "additionalProperties",
            if dice.chance(60) {
                json!(false)
            } else {
                schema(dice, draft, depth - 1)
            },
        ),
        23 => ("patternProperties", json!({"^[ab]": schema(dice, draft, depth - 1)})),
        24 => ("items", schema(dice, draft, depth - 1)),
        25 if draft < 2020 => ("items", json!([schema(dice, draft, depth - 1)])),
        25 => ("prefixItems", json!([schema(dice, draft, depth - 1)])),
        26 => ("allOf", list(dice, draft, depth)),
        27 => ("anyOf", list(dice, draft, depth)),
        28 => ("oneOf", list(dice, draft, depth)),
        29 => ("not", schema(dice, draft, depth - 1)),
        30 if draft >= 7 => ("if", schema(dice, draft, depth - 1)),
        31 if draft >= 7 => (dice.pick(&["then", "else"]), schema(dice, draft, depth - 1)),
        32 if draft > 4 => ("contains", schema(dice, draft, depth - 1)),
        33 if draft > 4 => ("propertyNames", schema(dice, draft, depth - 1)),
        34 => ("dependencies", json!({"a": ["b"], "b": schema(dice, draft, depth - 1)})),
        35 if draft >= 2019 && dice.chance(50) => ("dependentRequired", json!({"a": ["b", "e~"]})),
        35 if draft >= 2019 => ("dependentSchemas", json!({"a": schema(dice, draft, depth - 1)})),
        _ => ("description", json!("nothing")),
    }
}

fn schemas(dice: &mut Dice, draft: u16, depth: usize) -> Json {
    let mut made = Map::new();
    for name in NAMES {
        if dice.chance(60) {
            made.insert((*name).to_owned(), schema(dice, draft, depth - 1));
        }
    }
    Json::Object(made)
}

fn list(dice: &mut Dice, draft: u16, depth: usize) -> Json {
    let count = 1 + dice.below(3);
    (0..count).map(|_| schema(dice, draft, depth - 1)).collect()
}

fn table(dice: &mut Dice, depth: usize) -> Json {
    let mut made = Map::new();
    for name in NAMES {
        if dice.chance(60) {
            made.insert((*name).to_owned(), value(dice, depth));
        }
    }
    Json::Object(made)
}

fn value(dice: &mut Dice, depth: usize) -> Json {
    match dice.below(if depth > 0 { 9 } else { 6 }) {
        0 => json!(dice.pick(&[1.0, 2.0, 0.3, -3.0, 1e7, 12_345.678])),
        1 => json!(dice.pick(&[1, 2, 3, 1200])),
        2 => json!(dice.pick(&["x", "", "xyz", "12", "é", "it's \"q\"\n"])),
        3 => json!(dice.chance(50)),
        4 | 5 => json!(dice.pick(&[1, 2])),
        6 | 7 => table(dice, depth - 1),
        _ => {
            let count = dice.below(4);
            (0..count).map(|_| value(dice, depth - 1)).collect()
        }
    }
}
