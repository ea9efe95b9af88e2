//! Ways around the limits that were found by looking for them, one test for each.

use support::application::{cookie, form, post};
use support::{Gate, Launch, Reply, Upstream};

/// WordPress 6.1 on PHP 8, `tests/recorded/wordpress/wrong-password-breaks-the-page.http`: 500 to a wrong password with
/// an array beside it, and 302 to a right one.
#[test]
fn a_client_that_breaks_the_page_behind_a_wrong_password_pays_for_the_guess() {
    let application = always("500 Oops");
    let gate = Gate::start(&application.file(
        "[route.blog]\npreset = \"wordpress\"\n\
         [limit.address]\nrate = \"5 per 1h\"\ncount = \"failures\"\n",
    ));
    let guess =
        |number: &i32| post("/wp-login.php", "", &format!("log=alice&pwd=wrong{number}&redirect_to[]=x"));
    let reached = (0..50).filter(|number| gate.ask(guess(number)).status == 500).count();
    assert_eq!(reached, 5);
}

/// An application that takes the name from the query at one of its endpoints, and from the body at another.
const TWO_DOORS: &str = r#"
[route.page]
match = "GET /**"
when = "query:account"
user = "query:account"
success = { status = 302 }
[route.form]
match = "POST /login"
user = "form:log"
success = { status = 302 }
[limit.account]
key = "user"
rate = "100 per 1h"
count = "failures"
max_failures = 3
[device]
secret = "${file:{dir}/device.keys}"
"#;

fn two_doors(application: &Upstream) -> Gate {
    Launch::new(&application.file(TWO_DOORS))
        .beside("device.keys", "0123456789abcdef0123456789abcdef")
        .start()
}

fn always(status: &str) -> Upstream {
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
    Upstream::answering(move |_, _| Reply::text(&text))
}

#[test]
fn a_success_at_one_endpoint_is_no_proof_for_the_account_that_another_reads() {
    let application = always("302 Found");
    let gate = two_doors(&application);
    // It reads as a page for alice, and as a form of mallory's that the method is hidden of.
    let both = "GET /login?account=alice&log=mallory&password=x HTTP/1.1\r\nHost: app.test\r\n\r\n";
    let answer = gate.ask(both);
    assert_eq!((answer.status, cookie(&answer, "tollgate_device")), (302, None));
    let own = gate.ask(post("/login", "", &form("mallory", "x")));
    assert!(cookie(&own, "tollgate_device").is_some(), "one endpoint, one account");
}

#[test]
fn a_success_at_one_endpoint_does_not_end_the_row_of_failures_of_the_account_at_another() {
    let application = Upstream::answering(|request, _| {
        let is_own = request.windows(11).any(|window| window == b"log=mallory");
        let status = if is_own { "302 Found" } else { "200 OK" };
        Reply::text(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))
    });
    let gate = two_doors(&application);
    let mut reached = 0;
    for number in 0..20 {
        let guess = format!("GET /x?account=alice&password={number} HTTP/1.1\r\nHost: app.test\r\n\r\n");
        reached += usize::from(gate.ask(guess).status == 200);
        let both = "GET /login?account=alice&log=mallory&password=x HTTP/1.1\r\nHost: app.test\r\n\r\n";
        assert!(matches!(gate.ask(both).status, 302 | 429));
    }
    assert_eq!(reached, 3);
}

#[test]
fn a_route_for_pages_does_not_hide_the_form_behind_it_from_a_read_that_is_taken_as_a_write() {
    let application = Upstream::start();
    let gate = Gate::start(&application.file(
        "[route.pages]\nmatch = \"GET /**\"\nlimits = \"pages\"\n\
         [route.login]\nmatch = \"POST /login\"\nlimits = \"address\"\n\
         [limit.pages]\nrate = \"1000 per 1h\"\n[limit.address]\nrate = \"2 per 1h\"\n",
    ));
    let by_header = "GET /login HTTP/1.1\r\nHost: app.test\r\nX-HTTP-Method-Override: POST\r\n\r\n";
    let by_query = "GET /login?log=alice&pwd=x HTTP/1.1\r\nHost: app.test\r\n\r\n";
    assert_eq!([by_header, by_query, by_header].map(|request| gate.ask(request).status), [200, 200, 429]);
    let page = "GET /login HTTP/1.1\r\nHost: app.test\r\n\r\n";
    assert_eq!(gate.ask(page).status, 200);
}

/// A path has dozens of readings, and whether such a request is a sign-in at all stands in its body: it is free.
#[test]
fn a_path_of_many_readings_does_not_have_a_body_read_as_often() {
    let application = Upstream::start();
    let gate = Gate::start(
        &application.file("[route.wiki]\npreset = \"mediawiki\"\n[limit.address]\nrate = \"500 per 1h\"\n"),
    );
    let body = "%u0061&".repeat(9000);
    let before = gate.processor_time();
    assert_eq!(gate.ask(post("/;x/%2f/\\/login/.///?_method=x", "", &body)).status, 200);
    let hundredths = gate.processor_time() - before;
    assert!(hundredths < 50, "{hundredths} hundredths of a second");
}

#[test]
fn an_answer_that_breaks_off_before_it_says_what_came_of_it_is_paid_for() {
    let page = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<p>Login f";
    let application = Upstream::answering(move |_, _| Reply::BytesAndClose(page.into()));
    let gate = Gate::start(&application.file(
        "[route.login]\nmatch = \"POST /login\"\nfailure = { body = \"Login failed\" }\notherwise = \"success\"\n\
         [limit.address]\nrate = \"5 per 1h\"\ncount = \"failures\"\n",
    ));
    let reached = (0..20)
        .filter(|_| gate.try_ask(post("/login", "", "a=b")).is_none_or(|answer| answer.status == 200))
        .count();
    assert_eq!(reached, 5);
}
