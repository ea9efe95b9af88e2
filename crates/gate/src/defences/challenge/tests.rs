use super::*;

#[test]
fn address_limits_are_lifted_and_no_others() {
    let spec =
        |debt| Spec::Continuous(Continuous::new(5, Span::from_secs(60), 5).unwrap().with_debt(debt).unwrap());
    let of = |key: &[KeyPart]| Limit { key: key.to_vec(), ..Limit::new("one", spec(0)) };
    assert!(lifts(&of(&[KeyPart::Ip])) && lifts(&of(&[KeyPart::Ip, KeyPart::Host])));
    let others = [
        of(&[KeyPart::User]),
        of(&[KeyPart::User, KeyPart::Ip]),
        of(&[KeyPart::All]),
        of(&[KeyPart::Cookie("c".to_owned()), KeyPart::Ip]),
        Limit::new("one", spec(1)),
        Limit { unit: Unit::Users, ..of(&[KeyPart::Ip]) },
        Limit { kind: LimitKind::Escalation, ..of(&[KeyPart::Ip]) },
        Limit { mode: Mode::Observe, ..of(&[KeyPart::Ip]) },
    ];
    assert!(!others.iter().any(lifts));
}

#[test]
fn the_work_grows_with_what_was_earned_and_with_the_load_up_to_a_bound() {
    let table = [
        (0, 0, 19),
        (0, 63, 19),
        (0, 64, 20),
        (0, 255, 20),
        (0, 256, 21),
        (1, 0, 20),
        (3, 64, 23),
        (9, 9_999, 23),
    ];
    for (tokens, load, bits) in table {
        assert_eq!(zero_bits(&given(tokens, load)), bits, "{tokens} earned, {load} a second");
    }
    assert_eq!(zero_bits(&given(u32::MAX - 30, u32::MAX)), MAX_BITS);
}

fn given(tokens: u32, load: u32) -> GivenSoFar<'static> {
    let wait = Some(Span::from_secs(3600));
    GivenSoFar { tokens, used_for: Span::ZERO, load, wait, voucher: None }
}

#[test]
fn the_pause_grows_with_the_load_and_outlasts_the_voucher_of_one_that_was_used() {
    let table = [
        (0, 0, 30),
        (0, 64, 60),
        (0, 256, 120),
        (1, 0, 61),
        (360, 0, 420),
        (360, 64, 420),
        (0, u32::MAX, 480),
        (360, u32::MAX, 480),
    ];
    for (used, load, seconds) in table {
        let so_far = GivenSoFar { used_for: Span::from_secs(used), ..given(5, load) };
        assert_eq!(pause(&so_far), Span::from_secs(seconds), "used for {used} seconds, {load} a second");
    }
}

/// L18: a ticket from before the file was changed counts no longer.
#[test]
fn a_rule_without_pauses_offers_none_and_takes_no_ticket() {
    let (hasher, now) = (KeyHasher::seeded(7), Time::from_nanos(1_800_000_000_000_000_000));
    let to = OfferRecipient { client: std::net::IpAddr::from([192, 0, 2, 7]), route: "login" };
    let rate = Continuous::new(5, Span::from_secs(3600), 5).unwrap();
    let [with, without] = [true, false].map(|pauses| ChallengeRule::new(rate, pauses).unwrap());
    let offer = with.offer(&hasher, &to, &given(0, 0), now);
    let (ticket, later) = (offer.pause.unwrap().ticket, now.after(Span::from_secs(31)));
    assert!(with.redeem(&hasher, &to, &ticket, later).is_some());
    assert_eq!(without.redeem(&hasher, &to, &ticket, later), None);
    assert_eq!(without.pause_voucher(&hasher, &to), None);
    let offer = without.offer(&hasher, &to, &given(0, 0), now);
    assert!(offer.pause.is_none() && !offer.task.is_empty());
}

#[test]
fn a_pause_is_offered_where_it_is_shorter_than_the_wait_and_goes_on_for_who_comes_early() {
    let (hasher, now) = (KeyHasher::seeded(7), Time::from_nanos(1_800_000_000_000_000_000));
    let to = OfferRecipient { client: std::net::IpAddr::from([192, 0, 2, 7]), route: "login" };
    let offered = |so_far: &GivenSoFar<'_>, now| offered_pause(&hasher, &to, so_far, now);
    for wait in [None, Some(Span::ZERO), Some(Span::from_secs(30))] {
        assert_eq!(offered(&GivenSoFar { wait, ..given(0, 0) }, now), None, "{wait:?}");
    }
    let first = offered(&given(0, 0), now).unwrap();
    assert_eq!(first.left, Span::from_secs(30));
    let later = |seconds| now.after(Span::from_secs(seconds));
    let early = GivenSoFar { voucher: Some(&first.ticket), ..given(0, 0) };
    let again = offered(&early, later(12)).unwrap();
    assert_eq!((&again.ticket, again.left), (&first.ticket, Span::from_secs(18)));
    let used = GivenSoFar { used_for: Span::from_secs(100), ..early };
    assert_eq!(offered(&used, later(12)).unwrap().left, Span::from_secs(160), "it would be in vain");
    assert_eq!(offered(&early, later(40)).unwrap().left, Span::from_secs(30), "it is over");
    let forged = GivenSoFar { voucher: Some("pause-1-1"), ..given(0, 0) };
    assert_eq!(offered(&forged, later(12)).unwrap().left, Span::from_secs(30));
}
