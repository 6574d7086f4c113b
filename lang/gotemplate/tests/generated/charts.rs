//! Random charts: values over values, subcharts that are switched, renamed and that export, libraries, ignored files.

use serde_json::{Map, Value as Json, json};

use crate::dice::Dice;

const SHOW: &str =
    "{{ .Template.Name }} {{ .Template.BasePath }} {{ .Chart.Name }} {{ .Release.Name }} {{ .Chart.IsRoot }}
{{ toYaml .Values }}
{{- range $name, $it := .Subcharts }}
{{ $name }} {{ $it.Chart.Name }} {{ toJson $it.Values }}
{{- end }}
{{- range $path, $_ := .Files }}
{{ $path }}
{{- end }}
";

pub fn case(dice: &mut Dice) -> Json {
    let mut files = Map::new();
    let mut dependencies = Vec::new();
    let names = ["sub", "more"];
    for name in names.into_iter().take(dice.below(3)) {
        let mut nested = Vec::new();
        if dice.chance(30) {
            subchart(dice, &mut files, &format!("charts/{name}/charts/deep/"), "deep", &[]);
            nested.push(dependency(dice, "deep"));
        }
        subchart(dice, &mut files, &format!("charts/{name}/"), name, &nested);
        if dice.chance(85) {
            dependencies.push(dependency(dice, name));
            // Helm shares what a chart depends on between its aliases, which we do not.
            if nested.is_empty() && dice.chance(15) {
                let mut twice = dependency(dice, name);
                twice["alias"] = json!("again");
                dependencies.push(twice);
            }
        }
    }
    if dice.chance(20) {
        files.insert(
            "charts/lib/Chart.yaml".into(),
            json!("apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n"),
        );
        files.insert(
            "charts/lib/templates/_l.tpl".into(),
            json!("{{ define \"lib\" }}lib {{ .Chart.Name }}{{ end }}"),
        );
        files.insert("charts/lib/templates/no.yaml".into(), json!("not here"));
        files.insert("templates/lib.yaml".into(), json!("{{ include \"lib\" . }}"));
    }
    chart(dice, &mut files, "", "top", &dependencies);
    let data = table(dice, 3, true);
    json!({"mode": "chart", "files": files, "data": data})
}

fn subchart(dice: &mut Dice, files: &mut Map<String, Json>, folder: &str, name: &str, dependencies: &[Json]) {
    chart(dice, files, folder, name, dependencies);
}

fn chart(dice: &mut Dice, files: &mut Map<String, Json>, folder: &str, name: &str, dependencies: &[Json]) {
    let version = dice.pick(&["0.1.0", "1.2.3", "1.2.3-rc.1"]);
    let mut metadata = json!({"apiVersion": "v2", "name": name, "version": version});
    if !dependencies.is_empty() {
        metadata["dependencies"] = json!(dependencies);
    }
    files.insert(format!("{folder}Chart.yaml"), json!(metadata.to_string()));
    if dice.chance(85) {
        let mut values = table(dice, 3, true);
        if dice.chance(50) {
            values["exports"] = json!({"data": table(dice, 2, false), "x": table(dice, 1, false)});
        }
        files.insert(format!("{folder}values.yaml"), json!(values.to_string()));
    }
    files.insert(format!("{folder}templates/{name}.yaml"), json!(SHOW));
    if dice.chance(20) {
        files.insert(
            format!("{folder}templates/_h.tpl"),
            json!(format!("{{{{ define \"who\" }}}}{name}{{{{ end }}}}")),
        );
        files.insert(format!("{folder}templates/who.yaml"), json!("{{ include \"who\" . }}"));
    }
    if dice.chance(20) {
        files.insert(format!("{folder}conf/a.txt"), json!("x\n"));
        files.insert(
            format!("{folder}templates/files.yaml"),
            json!("{{ (.Files.Glob \"conf/*\").AsConfig }} {{ .Files.Get \"conf/a.txt\" }}{{ .Files.Lines \"conf/a.txt\" }}{{ (.Files.Glob \"**\").AsSecrets }}"),
        );
    }
    if dice.chance(15) {
        files.insert(
            format!("{folder}templates/NOTES.txt"),
            json!("notes {{ .Release.Name }}"),
        );
    }
}

fn dependency(dice: &mut Dice, name: &str) -> Json {
    let version = dice.pick(&["", "*", "0.1.0", ">=1.0.0", "^1.2.0", "~1.2.3-0"]);
    let mut made = json!({"name": name, "version": version});
    if dice.chance(30) {
        let path = dice.pick(&[
            "sub.enabled",
            "more.enabled,sub.enabled",
            "a.b",
            "on",
            "deep.enabled",
            "global.on",
            " sub.on , on",
        ]);
        made["condition"] = json!(path);
    }
    if dice.chance(25) {
        made["tags"] = json!([dice.pick(&["front", "back"]), "other"]);
    }
    if dice.chance(20) {
        made["alias"] = json!(format!("{name}-alias"));
    }
    if dice.chance(40) {
        let one =
            json!({"child": dice.pick(&["a", "a.b", "exports.x", "none"]), "parent": dice.pick(&["a", "got.it", "."])});
        made["import-values"] = if dice.chance(50) {
            json!(["data", one])
        } else {
            json!([one])
        };
    }
    made
}

fn table(dice: &mut Dice, depth: usize, outer: bool) -> Json {
    let mut made = Map::new();
    for name in ["a", "b", "on", "enabled"] {
        if dice.chance(55) {
            made.insert(name.to_owned(), value(dice, depth));
        }
    }
    if outer {
        for name in ["global", "sub", "more", "deep", "sub-alias", "tags", "again"] {
            if dice.chance(35) {
                let inside = match name {
                    "tags" => json!({"front": dice.chance(50), "back": dice.chance(50), "other": dice.pick(&[0, 1])}),
                    _ if dice.chance(6) => value(dice, 0),
                    // Helm shares tables in tables below here between charts, which we do not.
                    "global" => table(dice, 1, false),
                    _ => table(dice, depth - 1, depth > 2),
                };
                made.insert(name.to_owned(), inside);
            }
        }
    }
    Json::Object(made)
}

fn value(dice: &mut Dice, depth: usize) -> Json {
    match dice.below(if depth > 0 { 10 } else { 7 }) {
        0 => Json::Null,
        1 | 2 => json!(dice.chance(50)),
        3 => json!(dice.pick(&[0, 1, -5, 1_000_000])),
        4 => json!(dice.pick(&["", "x", "true", "1.0", "a: b\n"])),
        5 => json!([1, null, "x"]),
        6 => json!(1.5),
        _ => table(dice, depth - 1, false),
    }
}
