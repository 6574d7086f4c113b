use std::time::Duration;

use cobra::values::check;

use super::*;
use crate::flags::{ADDON, OPERATOR, PLACEMENT, REGISTRATION, WORK};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn of(subcommand: &Subcommand, text: &str) -> Result<FlagValues, String> {
    match read("program", subcommand, &words(text)) {
        Ok(values) => Ok(values),
        Err(ReadError::Wrong(why)) => Err(why),
        Err(ReadError::Help(_)) => Err("help".to_owned()),
    }
}

fn refused(text: &str) -> String {
    of(&REGISTRATION[0], text).unwrap_err()
}

#[test]
fn clap_accepts_every_table_and_every_default_fits_its_flag() {
    for subcommand in [REGISTRATION, WORK, PLACEMENT, ADDON, OPERATOR].into_iter().flatten() {
        command("program", subcommand).debug_assert();
        for flag in all_flags(subcommand) {
            if !flag.default.is_empty() {
                assert_eq!(check(flag, subcommand.gates, flag.default), Ok(()), "{}", flag.name);
            }
        }
    }
}

#[test]
fn flags_are_as_upstream_has_them() {
    let it = of(&REGISTRATION[0], "").unwrap();
    assert_eq!(it.duration("leader-election-lease-duration"), Duration::from_secs(137));
    assert_eq!(it.list("gc-resource-list").len(), 2);
    assert!(it.gate("DefaultClusterSet") && it.gate("ResourceCleanup") && !it.gate("ClusterProfile"));
    assert!(!it.is_on("disable-leader-election") && it.some("kubeconfig").is_none());
    let it = of(
        &REGISTRATION[1],
        "--max-custom-cluster-claims=0 --bootstrap-kubeconfig-secret= --kubeconfig a --disable-leader-election \
         --cluster-annotations=a=b,c=d=e --reserved-cluster-claim-suffixes x,y --reserved-cluster-claim-suffixes=z -v 4",
    )
    .unwrap();
    assert_eq!(it.number("max-custom-cluster-claims"), 0);
    assert!(it.some("bootstrap-kubeconfig-secret").is_none() && it.is_given("bootstrap-kubeconfig-secret"));
    assert_eq!((it.text("kubeconfig"), it.number("v")), ("a", 4));
    assert!(it.is_on("disable-leader-election"));
    assert_eq!(it.pairs("cluster-annotations")["c"], "d=e");
    assert_eq!(it.list("reserved-cluster-claim-suffixes"), ["x", "y", "z"]);
    let it = of(
        &REGISTRATION[0],
        "--kubeconfig a --kubeconfig --b --disable-leader-election=false",
    )
    .unwrap();
    assert_eq!(it.text("kubeconfig"), "--b");
    assert!(!it.is_on("disable-leader-election"));
}

#[test]
fn invalid_flags_are_refused_with_upstreams_message() {
    assert_eq!(refused("--foo"), "unknown flag: --foo");
    assert_eq!(refused("--foo=bar"), "unknown flag: --foo");
    assert_eq!(refused("-foo"), "unknown shorthand flag: 'f' in -foo");
    assert_eq!(refused("--kubeconfig"), "flag needs an argument: --kubeconfig");
    assert_eq!(
        refused("--kube-api-burst=x"),
        r#"invalid argument "x" for "--kube-api-burst" flag: strconv.ParseInt: parsing "x": invalid syntax"#
    );
    assert_eq!(
        refused("--disable-leader-election=maybe"),
        r#"invalid argument "maybe" for "--disable-leader-election" flag: strconv.ParseBool: parsing "maybe": invalid syntax"#
    );
    let duration = |it: &str| refused(&format!("--leader-election-retry-period={it}"));
    assert!(duration("5").ends_with(r#"flag: time: missing unit in duration "5""#));
    assert!(duration("x").ends_with(r#"flag: time: invalid duration "x""#));
    assert!(duration("5q").ends_with(r#"flag: time: unknown unit "q" in duration "5q""#));
    let gates = |it: &str| refused(&format!("--feature-gates={it}"));
    assert!(gates("Foo=true").ends_with("flag: unrecognized feature gate: Foo"));
    assert!(gates("ClusterProfile").ends_with("flag: missing bool value for ClusterProfile"));
    assert!(gates("ClusterProfile=2").contains("invalid value of ClusterProfile=2, err: strconv.ParseBool"));
    assert_eq!(refused("--help"), "help");
}

#[test]
fn a_stage_of_gates_turns_what_is_not_named() {
    let it = of(
        &REGISTRATION[0],
        "--feature-gates=AllAlpha=true,DefaultClusterSet=false",
    )
    .unwrap();
    assert!(it.gate("ClusterProfile") && !it.gate("DefaultClusterSet") && it.gate("ResourceCleanup"));
    assert!(it.gate("ClusterImporter"), "as upstream has it");
    let it = of(
        &REGISTRATION[0],
        "--feature-gates=AllBeta=false --feature-gates ClusterProfile=true",
    )
    .unwrap();
    assert!(!it.gate("ResourceCleanup") && it.gate("ClusterProfile"));
}

#[test]
fn a_gate_that_upstream_knows_keeps_nobody_from_starting() {
    for subcommand in [REGISTRATION, WORK, PLACEMENT, ADDON, OPERATOR].into_iter().flatten() {
        for gate in subcommand.gates {
            for on in [true, false] {
                let read = of(subcommand, &format!("--feature-gates={}={on}", gate.name));
                assert_eq!(
                    read.map(|it| it.gate(gate.name)),
                    Ok(on),
                    "{} {}",
                    subcommand.name,
                    gate.name
                );
            }
        }
    }
}

#[test]
fn a_flag_may_stand_before_the_sub_command() {
    let at = |text: &str| word(&words(text));
    assert_eq!(at("controller --a"), Some(0));
    assert_eq!(at("--feature-gates=A=true controller"), Some(1));
    assert_eq!(at("--feature-gates A=true controller"), Some(2));
    assert_eq!(at("--help"), None);
    assert_eq!(at("-h controller"), Some(1));
    assert_eq!(at("-- controller"), None);
    assert_eq!(at(""), None);
}
