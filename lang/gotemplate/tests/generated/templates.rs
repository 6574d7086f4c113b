//! Random templates: statements in statements, and expressions of functions whose arguments mostly have the right type.
//! Left out is what depends on the time, on the order of a Go map, or on the difference between a nil list
//! and an empty one.

use serde_json::{Value as Json, json};

use crate::dice::Dice;

/// Name, result, parameters. `s` text, `w` one of the words below, `p` pattern, `i` int, `n` small count, `j` int64,
/// `f` float, `b` bool, `l` list, `t` list of texts, `d` map, `a` anything; upper case: a literal follows.
const FUNCTIONS: &str = "
upper s s|lower s s|title s s|untitle s s|swapcase s s|trim s s|nospace s s|initials s s|trunc s is|substr s iis
repeat s ns|trimAll s ws|trimSuffix s ws|trimPrefix s ws|abbrev s is|abbrevboth s iis|quote s a|squote s a|cat s aa
indent s ns|nindent s ns|replace s wws|plural s wwi|snakecase s s|camelcase s s|kebabcase s s|wrap s ns|wrapWith s nws
join s wl|join s wt|toString s a|print s aa|println s aa|html s a|js s a|urlquery s a|b64enc s s|b64dec s s|b32enc s s
sha1sum s s|sha256sum s s|adler32sum s s|toJson s a|toPrettyJson s a|toRawJson s a|mustToJson s a|typeOf s a|kindOf s a
regexReplaceAll s psw|regexReplaceAllLiteral s psw|regexFind s ps|regexQuoteMeta s s|base s s|dir s s|ext s s|clean s s
osBase s s|default a aa|coalesce a aaa|ternary a aab|empty b a|len i s|len i l|len i d|int i a|int64 j a|float64 f a
atoi i s|add j ij|sub j ii|mul j jn|div j in|mod j in|add1 j i|max j ijj|min j ii|biggest j ii|floor f f|ceil f f
round f fn|addf f ff|subf f ff|mulf f ff|divf f ff|maxf f ff|toDecimal j s|until l n|untilStep l nnn|seq s n|seq s nn
eq b aa|ne b aa|lt b ii|le b ff|gt b ss|ge b jj|eq b ss|eq b iii|and a aa|or a aa|not b a|contains b ws|hasPrefix b ws
hasSuffix b ws|has b al|hasKey b dw|kindIs b wa|typeIs b wa|deepEqual b aa|all b aa|any b aa|regexMatch b ps|isAbs b s
list l aa|list l a|first a l|rest l l|last a l|initial l l|append l la|prepend l la|concat l ll|reverse l l|uniq l l
without l la|compact l l|slice l ln|slice l lnn|chunk l nl|sortAlpha t l|sortAlpha t t|splitList t ws|toStrings t l
first a t|rest l t|reverse l t|pluck l wdd|dict d wa|dict d wawa|set d dwa|unset d dw|pick d dww|omit d dw|merge d dd
mergeOverwrite d dd|deepCopy d d|get a dw|dig a wwad|split d ws|splitn d wns|fromJson a h|semverCompare b vv|index a lI
index a dw|slice s snn|printf s Va|printf s Waa|tuple l aa|regexSplit t psi|typeIsLike b wa|htmlDate s n
duration s j|durationRound s j|dateInZone s ynz|urlParse d u|trimall s ws|mustFirst a l|mustRegexMatch b ps
";
const HELM: &str = "
toYaml s a|toYaml s d|toYaml s l|fromYaml d x|fromYamlArray l x|fromJson d h|fromJsonArray l h|toToml s d|fromToml d m
include s Td|tpl s Xd|required a wa|toYamlPretty s d|toJson s d
";
const WORDS: &[&str] = &[
    "\"a\"",
    "\"k\"",
    "\"\"",
    "\"l\"",
    "\" \"",
    "\"-\"",
    "\"o\"",
    "\"string\"",
    "\"map\"",
    "`x`",
    "\"é\"",
    "\"z\"",
    "\"int\"",
    "\"$1\"",
];
const TEXTS: &[&str] = &[
    ".s",
    ".b",
    ".e",
    ".num",
    ".multi",
    ".html",
    ".m.k",
    "\"Hello World\"",
    "\"a-b_c d\"",
    "\"é€😀\"",
    "`raw\\n`",
    "\"1.5\"",
    "\"HTTPServer2\"",
    "\"/a/b/../c.txt\"",
    "\"{\\\"a\\\": [1]}\"",
    "\"0x1f\"",
    "\"tab\\tq\\\"\"",
];
const COUNTS: &[&str] = &["0", "1", "2", "3", "5", "12"];
const PATTERNS: &[&str] = &[
    "\"[a-z]+\"",
    "\"(o)(.)\"",
    "`\\s`",
    "\"^H\"",
    "\"\"",
    "\"l*\"",
    "`\\d+`",
    "\"(?i)h\"",
    "\"[\"",
];
const VERBS: &[&str] = &[
    "%v",
    "%d",
    "%s",
    "%q",
    "%5.2f",
    "%T",
    "%t",
    "%x",
    "%03d",
    "%-8s|",
    "%+v",
    "%#v",
    "%8v|",
    "%c",
    "%e",
    "%g",
    "%%",
    "%U",
    "%6.3v",
    "%[1]v %[1]T",
    "%*d",
    "%X",
    "%o",
    "%b",
];
const VERSIONS: &[&str] = &[
    "\">=1.2.3\"",
    "\"~1.2\"",
    "\"^1.0.0-0\"",
    "\"1.2.3\"",
    "\"v1.31.2\"",
    "\"1.x\"",
    "\"nope\"",
    "\"1.2.3-beta.1+x\"",
    "\"!=1\"",
    "\"1.0.0 - 2\"",
];
const URLS: &[&str] = &[
    "\"https://u:p@ex.io:80/a?b=c#d\"",
    "\"/a/b\"",
    "\"mailto:x@y\"",
    "\"ex.io\"",
    "\"http://[::1]:8/\"",
    "\"%zz\"",
    "\"a b\"",
];
const YAMLS: &[&str] = &[
    "\"a: 1\\nb: [x, {c: null}]\"",
    "\"- 1\\n- a\"",
    "\"\"",
    "\"x\"",
    "\"{\\\"k\\\": true}\"",
    "\"[1, 2.5]\"",
    "\"null\"",
];
const TOMLS: &[&str] = &[
    "\"a = 1\\n[b]\\nc = 'x'\\n[[d]]\\ne = [1.5, true]\"",
    "\"t = 2020-03-04T05:06:07Z\"",
    "\"\"",
    "\"k = \\\"\\\"\\\"\\nx\\\"\\\"\\\"\"",
    "\"a.b.c = 0x10\\nd = {e = -1_000}\"",
    "\"inf = inf\"",
    "\"'q r' = +2\"",
];

struct Writer<'d> {
    dice: &'d mut Dice,
    functions: Vec<(&'static str, char, &'static str)>,
    variables: Vec<String>,
    named: usize,
    /// Where the data is.
    root: &'static str,
}

/// One template with its data, for one of the three engines.
pub fn case(dice: &mut Dice) -> Json {
    let mode = dice.pick(&["go", "sprig", "sprig", "helm", "helm", "helm"]);
    let tables: &[&'static str] = match mode {
        "go" => &["", ""],
        "sprig" => &[FUNCTIONS, ""],
        _ => &[FUNCTIONS, HELM],
    };
    const GO: &str = "print s aa|println s a|html s a|js s a|urlquery s a|len i s|len i l|eq b aa|ne b ss|lt b ff|and a aa|or a aa|not b a|index a lI|index a dw|slice s snn|printf s Va|printf s Waa";
    let lines = tables.iter().copied().chain((mode == "go").then_some(GO));
    let entries = lines.flat_map(|it| it.split(['\n', '|'])).filter(|it| !it.is_empty());
    let functions = entries
        .map(|entry| {
            let mut parts = entry.split(' ');
            let name = parts.next().unwrap();
            let result = parts.next().unwrap().chars().next().unwrap();
            (name, result, parts.next().unwrap_or_default())
        })
        .collect();
    let mut writer = Writer {
        dice,
        functions,
        variables: Vec::new(),
        named: 0,
        root: if mode == "helm" { "$.Values" } else { "$" },
    };
    let template = writer.whole();
    json!({"mode": mode, "template": template, "data": data()})
}

fn data() -> Json {
    json!({
        "a": 1, "b": "two", "big": 1_000_000, "e": "", "el": [], "em": {}, "f": 1.5, "html": "<a href=\"x\">T'&</a>",
        "l": [1, "x", null, true, 2.5], "m": {"a": {"deep": "v"}, "k": "s", "z": 1}, "multi": "one\ntwo\n", "n": null,
        "names": ["c", "a", "b"], "neg": -3, "no": false, "num": "42", "s": "Hello World", "small": 0.000_001, "t": true,
        "zero": 0,
    })
}

impl Writer<'_> {
    fn whole(&mut self) -> String {
        self.named = self.dice.below(3);
        let mut out = String::new();
        for number in 0..self.named {
            out += &format!("{{{{ define \"t{number}\" }}}}");
            // A template that calls the ones before it ends.
            let named = std::mem::replace(&mut self.named, number);
            out += &self.statements(1);
            self.named = named;
            out += "{{ end }}";
        }
        out + &self.statements(3)
    }

    fn statements(&mut self, depth: usize) -> String {
        let kept = self.variables.len();
        let count = 1 + self.dice.below(3);
        let out = (0..count).map(|_| self.statement(depth)).collect();
        self.variables.truncate(kept);
        out
    }

    fn open(&mut self) -> &'static str {
        self.dice.pick(&["{{ ", "{{ ", "{{- ", "{{"])
    }

    fn close(&mut self) -> &'static str {
        self.dice.pick(&[" }}", " }}", " -}}", "}}"])
    }

    fn tag(&mut self, inside: &str) -> String {
        format!("{}{inside}{}", self.open(), self.close())
    }

    fn statement(&mut self, depth: usize) -> String {
        let kinds = if depth == 0 { 5 } else { 12 };
        match self.dice.below(kinds) {
            0 => self.dice.pick(&["text ", "\n", "  k: v\n", " x ", "{ }"]).to_owned(),
            1..=3 => {
                let value = self.pipeline(2);
                self.tag(&value)
            }
            4 => {
                let value = self.pipeline(2);
                let fresh = self.variables.is_empty() || self.dice.chance(60);
                let (name, sign) = if fresh {
                    (format!("$v{}", self.variables.len()), ":=")
                } else {
                    (
                        self.dice
                            .pick(&self.variables.iter().map(String::as_str).collect::<Vec<_>>())
                            .to_owned(),
                        "=",
                    )
                };
                let out = self.tag(&format!("{name} {sign} {value}"));
                if fresh {
                    self.variables.push(name);
                }
                out
            }
            5 | 6 => {
                let condition = self.pipeline(2);
                let mut out = self.tag(&format!("if {condition}"));
                out += &self.statements(depth - 1);
                if self.dice.chance(30) {
                    let condition = self.pipeline(1);
                    out += &self.tag(&format!("else if {condition}"));
                    out += &self.statements(depth - 1);
                }
                if self.dice.chance(50) {
                    out += &self.tag("else");
                    out += &self.statements(depth - 1);
                }
                out + &self.tag("end")
            }
            7 | 8 => {
                let kind = self.dice_kind("lltdji");
                let over = self.typed(kind, 2);
                let kept = self.variables.len();
                let head = match self.dice.below(3) {
                    0 => format!("range {over}"),
                    1 => {
                        self.variables.push("$it".to_owned());
                        format!("range $it := {over}")
                    }
                    _ => {
                        self.variables.push("$key".to_owned());
                        self.variables.push("$it".to_owned());
                        format!("range $key, $it := {over}")
                    }
                };
                let mut out = self.tag(&head);
                out += &self.statements(depth - 1);
                if self.dice.chance(15) {
                    let condition = self.pipeline(1);
                    let word = self.dice.pick(&["break", "continue"]);
                    out += &format!("{{{{ if {condition} }}}}{{{{ {word} }}}}{{{{ end }}}}");
                }
                self.variables.truncate(kept);
                if self.dice.chance(30) {
                    out += &self.tag("else");
                    out += &self.statements(depth - 1);
                }
                out + &self.tag("end")
            }
            9 => {
                let over = self.pipeline(2);
                let kept = self.variables.len();
                let head = if self.dice.chance(40) {
                    self.variables.push("$with".to_owned());
                    format!("with $with := {over}")
                } else {
                    format!("with {over}")
                };
                let mut out = self.tag(&head);
                out += &self.statements(depth - 1);
                self.variables.truncate(kept);
                if self.dice.chance(40) {
                    out += &self.tag("else");
                    out += &self.statements(depth - 1);
                }
                out + &self.tag("end")
            }
            10 if self.named > 0 => {
                let (number, over) = (self.dice.below(self.named), self.typed('d', 1));
                self.tag(&format!("template \"t{number}\" {over}"))
            }
            10 => "{{/* nothing */}}".to_owned(),
            _ => "{{- /* nothing */ -}}".to_owned(),
        }
    }

    fn dice_kind(&mut self, kinds: &str) -> char {
        let at = self.dice.below(kinds.len());
        kinds.chars().nth(at).unwrap()
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let kind = self.dice_kind("sssabijfldt");
        let mut out = self.typed(kind, depth);
        if self.dice.chance(35) {
            let last: Vec<_> = self
                .functions
                .iter()
                .copied()
                .filter(|it| it.2.ends_with('a') || it.2.ends_with(kind))
                .collect();
            if !last.is_empty() {
                let (name, _, parameters) = self.dice.pick(&last);
                let parameters = &parameters[..parameters.len() - 1];
                let given: String = parameters
                    .chars()
                    .map(|it| format!(" {}", self.argument(it, 1)))
                    .collect();
                out += &format!(" | {name}{given}");
            }
        }
        out
    }

    /// An expression of a kind, and now and then of another one.
    fn typed(&mut self, kind: char, depth: usize) -> String {
        let kind = if self.dice.chance(3) {
            self.dice_kind("sijfbltda")
        } else {
            kind
        };
        let fitting: Vec<_> = self
            .functions
            .iter()
            .copied()
            .filter(|it| it.1 == kind || kind == 'a')
            .collect();
        if depth > 0 && !fitting.is_empty() && self.dice.chance(65) {
            let (name, _, parameters) = self.dice.pick(&fitting);
            let given: String = parameters
                .chars()
                .map(|it| format!(" {}", self.argument(it, depth - 1)))
                .collect();
            return format!("({name}{given})");
        }
        if !self.variables.is_empty() && self.dice.chance(15) {
            let names: Vec<&str> = self.variables.iter().map(String::as_str).collect();
            return self.dice.pick(&names).to_owned();
        }
        let root = if self.dice.chance(85) { self.root } else { "" };
        let leaves: &[&str] = match kind {
            's' => TEXTS,
            'i' => &["0", "1", "2", "-1", "7", "100", "(len \"abc\")", "'a'", "0x10"],
            'j' => &["3", "12"],
            'f' => &[".f", ".a", ".neg", ".big", "1.5", "-0.25", ".zero", ".small"],
            'b' => &["true", "false", ".t", ".no"],
            'l' => &[".l", ".names", ".el"],
            't' => &[".names"],
            // Helm's `.Values` has a type of its own, which it loses where it is passed on.
            'd' if self.root != "$" => &[".m", ".em"],
            'd' => &[".m", ".em", "."],
            _ => &[
                ".s",
                ".n",
                ".missing",
                "nil",
                "1",
                "2.5",
                "true",
                ".m",
                ".l",
                ".m.a.deep",
                ".m.k.x",
                ".a",
                "\"q\"",
                ".em",
                ".el",
            ],
        };
        let leaf = self.dice.pick(leaves);
        match leaf {
            "." if self.root == "$" => self.dice.pick(&[".", "$"]).to_owned(),
            "." => self.root.to_owned(),
            leaf if leaf.starts_with('.') => format!("{root}{leaf}"),
            leaf => leaf.to_owned(),
        }
    }

    fn argument(&mut self, kind: char, depth: usize) -> String {
        match kind {
            'w' => self.dice.pick(WORDS).to_owned(),
            'p' => self.dice.pick(PATTERNS).to_owned(),
            'n' => self.dice.pick(COUNTS).to_owned(),
            'I' => self.dice.pick(&["0", "1", "2", "9", "-1"]).to_owned(),
            'V' => format!("\"{}\"", self.dice.pick(VERBS)),
            'W' => format!("\"{} {}\"", self.dice.pick(VERBS), self.dice.pick(VERBS)),
            'v' => self.dice.pick(VERSIONS).to_owned(),
            'u' => self.dice.pick(URLS).to_owned(),
            'h' => self
                .dice
                .pick(&["\"{\\\"k\\\": [true, 1.5]}\"", "\"[1, 2.5]\"", "\"null\"", "\"{}\""])
                .to_owned(),
            'x' => self.dice.pick(YAMLS).to_owned(),
            'm' => self.dice.pick(TOMLS).to_owned(),
            'y' => self
                .dice
                .pick(&[
                    "\"2006-01-02\"",
                    "\"Mon Jan _2 15:04:05 MST\"",
                    "\"03:04PM .000\"",
                    "\"Z07:00\"",
                ])
                .to_owned(),
            'z' => self.dice.pick(&["\"UTC\"", "\"\""]).to_owned(),
            'T' if self.named > 0 => format!("\"t{}\"", self.dice.below(self.named)),
            'T' => "\"none\"".to_owned(),
            'X' => self
                .dice
                .pick(&[
                    "\"{{ .k }}\"",
                    "\"{{ toYaml . }}\"",
                    "\"x{{ if .z }}y{{ end }}\"",
                    "\"{{ .a.b.c }}\"",
                    "\"{{\"",
                ])
                .to_owned(),
            kind => self.typed(kind, depth),
        }
    }
}
