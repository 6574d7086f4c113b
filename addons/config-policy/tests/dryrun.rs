//! `dryrun` says of every case what upstream's program says of it.
//!
//! A case is a directory of tests/conformance/policy-dryrun/cases: a policy, files, and the arguments that the program
//! is called with in it. `STATUS` and `MESSAGES` among them are files that it writes. Its file `expected` is what
//! upstream's program answered: exit code, error, standard output, and these files, without times.
//! `POLICY_DRYRUN_ORACLE` names that program, built of tests/conformance/upstream/policies; with `POLICY_DRYRUN_RECORD`
//! its answers are written down.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use addon_config_policy::dryrun::{self, StandardInput};
use ocm_addon_sdk::program::Place;

/// What a program answers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    code: i32,
    error: String,
    out: String,
}

impl Answer {
    fn read(text: &str) -> Self {
        let (code, rest) = text.split_once('\n').unwrap();
        let (error, out) = rest.split_once('\n').unwrap();
        Self {
            code: code.strip_prefix("exit ").unwrap().parse().unwrap(),
            error: error.replace("\\n", "\n"),
            out: out.to_owned(),
        }
    }

    fn written(&self) -> String {
        format!("exit {}\n{}\n{}", self.code, self.error.replace('\n', "\\n"), self.out)
    }

    /// Whether ours is as good as theirs: what a YAML library says of a text that is none is its own, and so is the
    /// page that explains the flags.
    fn agrees(&self, theirs: &Self) -> bool {
        let without_yaml = |text: &str| -> String {
            let lines = text
                .lines()
                .map(|it| it.split_inclusive("yaml: ").next().unwrap_or_default());
            lines.collect::<Vec<_>>().join("\n")
        };
        self.code == theirs.code
            && without_yaml(&self.error) == without_yaml(&theirs.error)
            && (without_yaml(&self.out) == without_yaml(&theirs.out) || theirs.out.starts_with("Usage:"))
    }
}

/// What a program says in the end; what its libraries log before goes away.
fn error(text: &str) -> String {
    let begins = if text.starts_with("Error: ") {
        Some(0)
    } else {
        text.find("\nError: ").map(|it| it + 1)
    };
    text[begins.unwrap_or(0)..].trim_end().to_owned()
}

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/policy-dryrun/cases");
    let mut cases: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|it| it.unwrap().path()).collect();
    cases.sort();
    cases
}

/// The arguments of a case, and where a program writes to.
struct Call {
    arguments: Vec<String>,
    written: Vec<PathBuf>,
}

impl Call {
    fn of(case: &Path, program: &str) -> Self {
        let text = fs::read_to_string(case.join("args")).unwrap();
        let mut call = Self {
            arguments: Vec::new(),
            written: Vec::new(),
        };
        for word in text.split_whitespace() {
            if ["STATUS", "MESSAGES"].contains(&word) {
                let file = format!("{program}-{}-{word}", name(case));
                let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
                // That of another run.
                let _ = fs::remove_file(&path);
                call.arguments.push(path.to_str().unwrap().to_owned());
                call.written.push(path);
            } else {
                call.arguments.push(word.to_owned());
            }
        }
        call
    }

    /// The standard output, and the files.
    fn all(&self, mut out: String) -> String {
        for path in &self.written {
            let Ok(text) = fs::read_to_string(path) else { continue };
            out.push_str("== written\n");
            for line in text.lines() {
                let times = ["lastEvaluated: ", "lastTimestamp: ", "lastTransitionTime: "];
                let time = times.iter().find_map(|it| Some(line.find(it)? + it.len()));
                out.push_str(&line[..time.unwrap_or(line.len())]);
                out.push('\n');
            }
        }
        out
    }
}

fn name(case: &Path) -> String {
    case.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_case_ends_as_with_upstreams_program() {
    let cases = cases();
    let mut wrong = Vec::new();
    for case in &cases {
        // Paths of the arguments are in messages. No other test here looks at the directory of the process.
        std::env::set_current_dir(case).unwrap();
        let input = StandardInput {
            is_piped: false,
            reader: Box::new(io::empty()),
        };
        let call = Call::of(case, "ours");
        let arguments = call.arguments.iter().map(Into::into).collect();
        let output = dryrun::output(arguments, input, &Place::default());
        let ours = Answer {
            code: output.code.into(),
            error: output.error.trim_end().to_owned(),
            out: call.all(output.out),
        };
        let theirs = Answer::read(&fs::read_to_string(case.join("expected")).unwrap());
        if !ours.agrees(&theirs) {
            let name = name(case);
            wrong.push(format!(
                "== {name}\nupstream: {}\nours:     {}",
                theirs.written(),
                ours.written()
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_recorded_answers_are_those_of_upstreams_program() {
    let Some(program) = std::env::var_os("POLICY_DRYRUN_ORACLE") else {
        println!("skipped: POLICY_DRYRUN_ORACLE names no program to ask");
        return;
    };
    let records = std::env::var_os("POLICY_DRYRUN_RECORD").is_some();
    for case in cases() {
        let call = Call::of(&case, "upstream");
        let output = Command::new(&program)
            .args(&call.arguments)
            .current_dir(&case)
            .stdin(Stdio::null())
            .env_remove("DRYRUN_MAPPINGS_FILE")
            .output()
            .expect("POLICY_DRYRUN_ORACLE names the program dryrun of tests/conformance/upstream/policies");
        let live = Answer {
            code: output.status.code().unwrap(),
            error: error(&String::from_utf8(output.stderr).unwrap()),
            out: call.all(String::from_utf8(output.stdout).unwrap()),
        };
        let path = case.join("expected");
        if records {
            fs::write(path, live.written()).unwrap();
        } else {
            let recorded = Answer::read(&fs::read_to_string(path).unwrap());
            assert_eq!(recorded, live, "{}", name(&case));
        }
    }
}
