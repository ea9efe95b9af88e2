//! A voucher in a request, by which a client answers an offer: a parameter of the query that is the gate's own.
//!
//! Such a request is never forwarded. What a voucher is and what it gives is left to the policy's pardon and `engine`.

use http::{HeaderValue, Uri};

use crate::defences::OFFER;

/// The voucher of a query; `None` if it has none, and an empty text if it has several.
pub(in crate::proxy) fn in_query(query: Option<&str>) -> Option<&str> {
    let mut vouchers = query?.split('&').filter_map(|pair| pair.strip_prefix(OFFER.parameter));
    let first = vouchers.next()?;
    Some(if vouchers.next().is_some() { "" } else { first })
}

/// The way back to the form: the same target without the voucher, relative to it, so that no target leads elsewhere.
pub(in crate::proxy) fn way_back(target: &Uri) -> Option<HeaderValue> {
    let (_, page) = target.path().rsplit_once('/')?;
    let mut location = format!("./{page}");
    for (number, pair) in others(target.query()).enumerate() {
        location.push(if number == 0 { '?' } else { '&' });
        location.push_str(pair);
    }
    HeaderValue::try_from(location).ok()
}

/// The query with this voucher, for a form that has no script: relative to the page, so that it leads nowhere else.
pub(in crate::proxy) fn query_with(query: Option<&str>, voucher: &str) -> String {
    let rest: String = others(query).filter(|pair| !pair.is_empty()).map(|pair| format!("{pair}&")).collect();
    format!("?{rest}{}{voucher}", OFFER.parameter)
}

fn others(query: Option<&str>) -> impl Iterator<Item = &str> {
    query.unwrap_or_default().split('&').filter(|pair| !pair.starts_with(OFFER.parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_gates_own_parameter_is_a_proof() {
        let table = [
            (None, None),
            (Some(""), None),
            (Some("a=b&tollgate-proof=1-2"), Some("1-2")),
            (Some("tollgate-proof="), Some("")),
            (Some("tollgate-proof=1&tollgate-proof=2"), Some("")),
            (Some("xtollgate-proof=1&Tollgate-Proof=2&tollgate%2Dproof=3&tollgate-proof"), None),
        ];
        for (query, proof) in table {
            assert_eq!(in_query(query), proof, "{query:?}");
        }
    }

    #[test]
    fn a_voucher_takes_the_place_of_another_one_and_leaves_the_rest() {
        let table = [
            (None, "?tollgate-proof=v"),
            (Some("a=b"), "?a=b&tollgate-proof=v"),
            (Some("tollgate-proof=u&next=%2Fx&"), "?next=%2Fx&tollgate-proof=v"),
        ];
        for (query, with) in table {
            assert_eq!(query_with(query, "v"), with, "{query:?}");
        }
    }

    #[test]
    fn the_way_back_is_the_same_page_of_the_same_site_without_the_proof() {
        let table = [
            ("/login?tollgate-proof=1", "./login"),
            ("/a/b?next=%2Fx&tollgate-proof=1&c", "./b?next=%2Fx&c"),
            ("/?tollgate-proof=1", "./"),
            ("//evil.example/x:y?tollgate-proof=1", "./x:y"),
            ("//evil.example?tollgate-proof=1", "./evil.example"),
            ("/a/?tollgate-proof=1&tollgate-proof=2", "./"),
        ];
        for (target, location) in table {
            assert_eq!(way_back(&target.parse().unwrap()).unwrap(), location, "{target}");
        }
        assert_eq!(way_back(&Uri::from_static("*")), None);
    }
}
