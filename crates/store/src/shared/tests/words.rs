//! What an operator says of a bucket, and the leases that gates have of it.

use super::*;

/// Large and slow enough for leases.
fn hot() -> BucketKey {
    let spec = Spec::Continuous(Continuous::new(10_000, Span::from_secs(3600), 10_000).unwrap());
    BucketKey { key: Key(5 << 64 | 3), class: 0, spec }
}

impl Process {
    fn say(&self, op: StoreOp) -> StoreReply {
        self.runtime.block_on(self.shared.call(&self.mirror, hot(), op)).unwrap()
    }

    /// How many of so many attempts at once are admitted.
    fn admits(&self, attempts: usize) -> usize {
        let call = |_| self.shared.call(&self.mirror, hot(), StoreOp::Step(Op::Take(1)));
        let calls: Vec<_> = (0..attempts).map(call).collect();
        let admitted = calls.into_iter().map(|call| self.runtime.block_on(call));
        admitted.filter(|reply| reply.is_ok_and(|reply| reply.verdict.is_admitted())).count()
    }

    /// Has attempts until this process has leased tokens, with pauses in which they can come.
    fn lease(&self) {
        for _ in 0..300 {
            let _ = self.admits(16);
            std::thread::sleep(Duration::from_millis(10));
            if self.shared.has_leased(&hot(), self.shared.now()) {
                return;
            }
        }
        panic!("no lease has begun");
    }

    fn ban(&self) {
        let now = self.shared.now();
        let _ = self.say(StoreOp::Ban(Own::ban(now, now.after(Span::from_secs(3600))).unwrap()));
    }
}

fn two_that_lease() -> [Process; 2] {
    let ledger = Arc::new(Ledger::default());
    // However busy the machine is, none of them decides for itself.
    let both = [(); 2].map(|()| Process::with_timeout(&ledger, OnError::Deny, Span::from_secs(10)));
    both.iter().for_each(Process::lease);
    both
}

/// Longer than a gate goes on without a word from the store.
fn soon() {
    std::thread::sleep(Duration::from_millis(700));
}

#[test]
fn a_ban_ends_the_leases_of_all_processes() {
    let [one, other] = two_that_lease();
    one.ban();
    assert_eq!(one.admits(100), 0, "at once where it was said");
    soon();
    assert_eq!(other.admits(100), 0);
}

#[test]
fn a_lease_that_comes_back_makes_no_ban_shorter() {
    let [one, other] = two_that_lease();
    one.ban();
    // Both are idle for long enough to give back what they have.
    std::thread::sleep(Duration::from_millis(1_600));
    for process in [&one, &other] {
        process.flush();
        let Admission::Refused { wait } = process.say(StoreOp::Step(Op::Take(1))).verdict.admission else {
            panic!("admitted");
        };
        assert_eq!(wait, Span::from_secs(3600));
    }
}

/// What another process has leased is known to be void only while less than that is missing in the bucket again.
#[test]
fn a_reset_leaves_little_beside_a_full_bucket() {
    let [one, other] = two_that_lease();
    let _ = one.say(StoreOp::Reset);
    soon();
    let admitted: usize = (0..25).map(|_| one.admits(300) + other.admits(300)).sum();
    assert!(admitted <= 10_000 + 10_000 / 16, "{admitted}");
}

#[test]
fn a_rate_of_its_own_is_what_all_processes_admit() {
    let [one, other] = two_that_lease();
    let now = one.shared.now();
    let rate = Continuous::new(5, Span::from_secs(3600), 5).unwrap();
    let until = now.after(Span::from_secs(3600));
    let _ = one.say(StoreOp::Rate(Some(Own { rate, until })));
    soon();
    let admitted = one.admits(50) + other.admits(50);
    assert!(admitted <= 5, "{admitted}");
    let _ = one.say(StoreOp::Credit(2));
    other.advance(Span::from_secs(2));
    assert_eq!(other.admits(50), 2);
}
