//! What an expression may still cost. The functions that pay are called by the engine, which hands nothing on: so the
//! cost account of the evaluation under way is the thread's.

use std::cell::RefCell;

use kube_cel::cel::ExecutionError;

use crate::{EXPRESSION_COST_MAX, OBJECT_COST_MAX};

/// What some expressions may cost together, and each of them.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    each: u64,
    left: u64,
}

impl Budget {
    /// A budget of one's own.
    pub fn new(each: u64, all: u64) -> Self {
        Self { each, left: all }
    }

    /// What Kubernetes lets expressions on one object cost.
    pub fn of_object() -> Self {
        Self::new(EXPRESSION_COST_MAX, OBJECT_COST_MAX)
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Pays for what somebody else does for these expressions.
    pub fn pay(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(cost);
    }
}

#[derive(Default)]
struct CostAccount {
    left: u64,
    broke: bool,
    /// How many rounds each macro has gone since it began.
    rounds: Vec<u64>,
    /// What went wrong in a round of each macro, which a later round may make good.
    errors: Vec<Option<ExecutionError>>,
}

thread_local! {
    static ACCOUNT: RefCell<CostAccount> = RefCell::default();
}

/// The cost account of an evaluation; the one around it waits.
pub struct Opened {
    given: u64,
    outer: Option<CostAccount>,
}

/// Takes what an expression may cost out of a budget.
pub fn open(budget: &Budget, loops: usize) -> Opened {
    let given = budget.each.min(budget.left);
    let account = CostAccount {
        left: given,
        broke: given == 0,
        rounds: vec![0; loops],
        errors: vec![None; loops],
    };
    Opened {
        given,
        outer: Some(ACCOUNT.replace(account)),
    }
}

impl Opened {
    /// Gives back what is left. Whether there was too little.
    pub fn close(mut self, budget: &mut Budget) -> bool {
        let account = ACCOUNT.replace(self.outer.take().unwrap_or_default());
        budget.left = budget.left.saturating_sub(self.given - account.left);
        account.broke
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Some(outer) = self.outer.take() {
            ACCOUNT.set(outer);
        }
    }
}

/// Pays; `false` when there is too little, from then on.
pub fn pay(cost: u64) -> bool {
    ACCOUNT.with_borrow_mut(|account| {
        match account.left.checked_sub(cost) {
            Some(left) if !account.broke => account.left = left,
            _ => (account.left, account.broke) = (0, true),
        }
        !account.broke
    })
}

/// A macro begins.
pub fn begin(of: usize) {
    ACCOUNT.with_borrow_mut(|account| {
        if let Some(it) = account.rounds.get_mut(of) {
            *it = 0;
        }
        if let Some(it) = account.errors.get_mut(of) {
            *it = None;
        }
    });
}

/// Something went wrong in a round of a macro; the first is kept.
pub fn keep(of: usize, error: ExecutionError) {
    ACCOUNT.with_borrow_mut(|account| {
        if let Some(it) = account.errors.get_mut(of) {
            it.get_or_insert(error);
        }
    });
}

/// What went wrong in the rounds of a macro.
pub fn kept(of: usize) -> Option<ExecutionError> {
    ACCOUNT.with_borrow_mut(|account| account.errors.get_mut(of).and_then(Option::take))
}

/// A macro goes one more round; how many it has gone.
pub fn round(of: usize) -> u64 {
    ACCOUNT.with_borrow_mut(|account| {
        let Some(it) = account.rounds.get_mut(of) else { return 1 };
        *it += 1;
        *it
    })
}
