//! How many pods of which ReplicaSet: the arithmetic of a Deployment's rollout. Upstream:
//! kubernetes pkg/controller/deployment, `rolling.go` and `util/deployment_util.go`. We differ in one thing: when a
//! Deployment is scaled in the middle of a rollout, the new set takes the difference, where upstream shares it out.
//! Every field may hold the largest number that there is, so that sums are made in a wider one.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a rollout may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// All old pods end before the first new one starts.
    Recreate,
    /// So many pods more than wanted, and so many fewer available ones.
    Rolling { surge: i32, unavailable: i32 },
}

/// One ReplicaSet: what it was told and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    pub wanted: i32,
    pub available: i32,
}

/// The bounds of a rolling update in pods. Both zero would never move, so that one may be missing then.
pub fn bounds(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, desired: i32) -> Strategy {
    let quarter = IntOrString::String("25%".into());
    let surge = amount(surge.unwrap_or(&quarter), desired, true);
    let unavailable = amount(unavailable.unwrap_or(&quarter), desired, false);
    let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
    Strategy::Rolling {
        surge,
        unavailable: unavailable.min(desired.max(1)),
    }
}

/// A number, or a part of `whole`.
pub fn amount(value: &IntOrString, whole: i32, up: bool) -> i32 {
    match value {
        IntOrString::Int(it) => *it,
        IntOrString::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or_default();
            let parts = i128::from(whole) * i128::from(percent);
            let rounded = if up {
                (parts + 99).div_euclid(100)
            } else {
                parts.div_euclid(100)
            };
            narrow(rounded)
        }
    }
}

/// The number that a field can hold.
fn narrow(number: i128) -> i32 {
    let held = number.clamp(i32::MIN.into(), i32::MAX.into());
    i32::try_from(held).expect("it lies between the least and the largest")
}

/// How many pods the new set is to have now, while it has been told to have `new` and all sets together `all`.
pub fn new_wanted(strategy: Strategy, desired: i32, new: i32, all: i64) -> i32 {
    match strategy {
        Strategy::Recreate => desired,
        _ if new >= desired => desired,
        Strategy::Rolling { surge, .. } => {
            let room = (i64::from(desired) + i64::from(surge) - all).max(0);
            narrow((i64::from(new) + room).min(desired.into()).into())
        }
    }
}

/// How many pods each old set is to have now, in the order given: the oldest first.
pub fn old_wanted(strategy: Strategy, desired: i32, new: Set, old: &[Set]) -> Vec<i32> {
    let mut wanted: Vec<i32> = old.iter().map(|it| it.wanted).collect();
    let Strategy::Rolling { unavailable, .. } = strategy else {
        return vec![0; old.len()];
    };
    let sum = |of: fn(&Set) -> i32| old.iter().map(|it| i64::from(of(it))).sum::<i64>();
    let least = i64::from(desired) - i64::from(unavailable);
    // New pods that are not available yet replace nothing.
    let mut may_go = sum(|it| it.wanted) + i64::from(new.available) - least;
    if may_go <= 0 {
        return wanted;
    }
    // Pods that are not available are missed by nobody.
    for (wanted, set) in wanted.iter_mut().zip(old) {
        may_go -= shrink(wanted, (i64::from(set.wanted) - i64::from(set.available)).min(may_go));
    }
    let mut may_go = i64::from(new.available) + sum(|it| it.available) - least;
    for wanted in &mut wanted {
        may_go -= shrink(wanted, may_go);
    }
    wanted
}

/// Takes so many pods, or all that there are; tells how many that were.
fn shrink(wanted: &mut i32, by: i64) -> i64 {
    let before = i64::from(*wanted);
    let gone = by.min(before).max(0);
    *wanted = narrow((before - gone).into());
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_rounded_up_for_more_and_down_for_fewer() {
        let of = |surge: &str, unavailable: &str, desired| {
            let value = |it: &str| match it.parse() {
                Ok(it) => IntOrString::Int(it),
                Err(_) => IntOrString::String(it.into()),
            };
            match bounds(Some(&value(surge)), Some(&value(unavailable)), desired) {
                Strategy::Rolling { surge, unavailable } => (surge, unavailable),
                Strategy::Recreate => unreachable!(),
            }
        };
        assert_eq!(of("25%", "25%", 10), (3, 2));
        assert_eq!(of("25%", "25%", 1), (1, 0));
        assert_eq!(of("0", "0%", 5), (0, 1));
        assert_eq!(of("2", "1", 3), (2, 1));
        assert_eq!(of("0", "100%", 0), (0, 1));
        // Numbers that no cluster has pods for are as many as there can be.
        let (least, most) = ("-9223372036854775808%", "9223372036854775807%");
        assert_eq!(of(most, most, i32::MAX), (i32::MAX, i32::MAX));
        assert_eq!(amount(&IntOrString::String(least.into()), 2, true), i32::MIN);
    }

    /// Rolls until nothing moves, with new pods available at once, and tells every state as new/old.
    fn rolled(strategy: Strategy, desired: i32, old: i32) -> String {
        let (mut new, mut olds) = (0, old);
        let mut states = Vec::new();
        loop {
            let next = new_wanted(strategy, desired, new, i64::from(new) + i64::from(olds));
            let now = Set {
                wanted: next,
                available: next,
            };
            let left = old_wanted(
                strategy,
                desired,
                now,
                &[Set {
                    wanted: olds,
                    available: olds,
                }],
            )[0];
            if (next, left) == (new, olds) {
                return states.join(" ");
            }
            (new, olds) = (next, left);
            states.push(format!("{new}/{olds}"));
        }
    }

    #[test]
    fn a_rollout_ends_with_the_new_set_alone() {
        let rolling = |surge, unavailable| Strategy::Rolling { surge, unavailable };
        assert_eq!(rolled(rolling(1, 0), 3, 3), "1/2 2/1 3/0");
        assert_eq!(rolled(rolling(0, 1), 3, 3), "0/2 1/1 2/0 3/0");
        assert_eq!(rolled(rolling(3, 3), 3, 3), "3/0");
        assert_eq!(rolled(rolling(1, 1), 10, 0), "10/0");
        assert_eq!(rolled(rolling(1, 0), 0, 2), "0/0");
        assert_eq!(rolled(Strategy::Recreate, 2, 2), "2/0");
        let most = i32::MAX;
        assert_eq!(rolled(rolling(most, 0), most, most), format!("{most}/0"));
        assert_eq!(rolled(rolling(0, most), most, most), format!("0/0 {most}/0"));
    }

    #[test]
    fn new_pods_that_do_not_come_up_stop_the_rollout() {
        let strategy = Strategy::Rolling {
            surge: 1,
            unavailable: 0,
        };
        let new = Set {
            wanted: 1,
            available: 0,
        };
        assert_eq!(
            old_wanted(
                strategy,
                3,
                new,
                &[Set {
                    wanted: 3,
                    available: 3
                }]
            ),
            [3]
        );
        assert_eq!(new_wanted(strategy, 3, 1, 4), 1);
        // Old pods that do not run go first.
        let old = [
            Set {
                wanted: 2,
                available: 0,
            },
            Set {
                wanted: 2,
                available: 2,
            },
        ];
        let new = Set {
            wanted: 1,
            available: 1,
        };
        assert_eq!(old_wanted(strategy, 3, new, &old), [0, 2]);
    }
}
