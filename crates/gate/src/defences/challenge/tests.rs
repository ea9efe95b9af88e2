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
        assert_eq!(zero_bits(GivenSoFar { tokens, load }), bits, "{tokens} earned, {load} a second");
    }
    assert_eq!(zero_bits(GivenSoFar { tokens: u32::MAX - 30, load: u32::MAX }), MAX_BITS);
}
