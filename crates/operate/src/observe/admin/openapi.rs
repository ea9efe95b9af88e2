//! The admin API as an OpenAPI 3.1 document, from the types of its pages.
//!
//! Each operation has the role that it needs, `x-role`, and `x-all-sites` where a token for some sites is refused: both
//! from `roles`. The rest of who may ask, and the texts of errors, are left to `docs/admin-api.md`. Health,
//! metrics and the dashboard are no part of the API, and neither are server-sent events, nor the page of this document.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use tollgate_grammar::record::{Described, Schemas};
use tollgate_grammar::schema::Schema;

use super::buckets::BucketsPage;
use super::page_path::AdminPage;
use super::pages::{
    BanRequest, BansPage, CheckPage, ClientsPage, CreditRequest, DrainPage, EndedPage, ExemptionsPage,
    ExplainPage, ExplainedRequest, ForgetPage, ForgetRequest, HistoryPage, LastingRequest, LimitRequest,
    LimitsPage, ModePage, ModeRequest, PrefixPart, PrefixRequest, ProblemPage, RateRequest, RatesPage,
    ReloadPage, ResetRequest, StatusPage,
};
use super::response::{AdminResponse, not_allowed, respond};
use super::token::OperatorRole;
use crate::observe::metrics::RoutesPage;

/// The document.
#[must_use]
pub fn document() -> OpenApi {
    let mut schemas = Schemas::default();
    let problem = ProblemPage::schema(&mut schemas);
    let mut paths: BTreeMap<&str, BTreeMap<&str, OperationDoc>> = BTreeMap::new();
    for operation in operations() {
        let methods = paths.entry(operation.path).or_default();
        methods.insert(operation.method, operation.document(&mut schemas));
    }
    let problems = BTreeMap::from([(
        PROBLEM,
        ResponseDoc { description: "Why it was refused (RFC 9457).", content: media(PROBLEM_JSON, problem) },
    )]);
    let bearer = SecurityScheme { kind: "http", scheme: "bearer" };
    OpenApi {
        openapi: "3.1.0",
        info: Info { title: "The admin API of tollgate", version: env!("CARGO_PKG_VERSION") },
        servers: [ServerDoc { url: "http://127.0.0.1:9180/api/v1" }],
        security: [BTreeMap::from([("token", [])]), BTreeMap::new()],
        paths,
        components: Components {
            schemas: schemas.into_map(),
            responses: problems,
            security_schemes: BTreeMap::from([("token", bearer)]),
        },
    }
}

/// `/api/v1/openapi.json`: the document of the running gate.
pub(super) fn handle(method: &Method) -> AdminResponse {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return not_allowed("GET, HEAD");
    }
    respond(StatusCode::OK, JSON, Bytes::clone(&DOCUMENT))
}

/// Built by the first request for it: most gates get none.
static DOCUMENT: LazyLock<Bytes> =
    LazyLock::new(|| serde_json::to_vec(&document()).unwrap_or_default().into());

/// Something that callers may ask for.
struct Operation {
    method: &'static str,
    path: &'static str,
    about: &'static str,
    parameters: Vec<Parameter>,
    body: Option<BodyOf>,
    status: &'static str,
    page: SchemaOf,
}

type SchemaOf = fn(&mut Schemas) -> Schema;

/// The body of a request, with an example.
struct BodyOf {
    kind: &'static str,
    schema: SchemaOf,
    example: Value,
}

fn operations() -> Vec<Operation> {
    let get = |path, about, page| Operation::new("get", path, about, page);
    let post = |path, about, page| Operation::new("post", path, about, page);
    let put = |path, about, page| Operation::new("put", path, about, page);
    let delete = |path, about, page| Operation::new("delete", path, about, page);
    let bucket = BucketsPage::schema;
    vec![
        get("/status", "The gate as a whole.", StatusPage::schema),
        get("/limits", "The limits in force.", LimitsPage::schema),
        get("/clients", "The clients that attempt most.", ClientsPage::schema)
            .with("by", Schema::words(vec!["refused", "attempts"]))
            .with("minutes", Schema::words(vec!["1", "10", "60"]))
            .with("n", Schema::whole(1, 1000))
            .with("limit", Schema::string())
            .with("key", Schema::string()),
        get("/rates", "Buckets with a temporary rate.", RatesPage::schema),
        get("/history", "Attempts of the last hour.", HistoryPage::schema),
        get("/routes", "What came of attempts.", RoutesPage::schema),
        post("/reload", "Reads the configuration again.", ReloadPage::schema),
        post("/drain", "Finishes what is in flight, and ends.", DrainPage::schema).answering("202"),
        post("/check", "What the text of a configuration would mean.", CheckPage::schema)
            .taking_text("application/toml", "listen = \"http://[::]:8080\"\n"),
        post("/explain", "What a request would meet.", ExplainPage::schema).taking(&explained()),
        post("/forget", "Forgets a person, or counts where they are named.", ForgetPage::schema)
            .answering("202")
            .taking(&forgotten()),
        get("/forget", "How far it is.", ForgetPage::schema),
        get("/exemptions", "Exempt prefixes.", ExemptionsPage::schema),
        // More than `unlock` may do needs `operate`.
        put("/exemptions/{prefix}", "Exempts an address for a while, or a prefix.", PrefixPart::schema)
            .of_address()
            .taking(&lasting_prefix()),
        delete("/exemptions/{prefix}", "Ends it.", EndedPage::schema).of_address(),
        get("/bans", "Banned prefixes.", BansPage::schema),
        put("/bans/{prefix}", "Bans a prefix for a while.", PrefixPart::schema).of_prefix().taking(&ban()),
        delete("/bans/{prefix}", "Ends it.", EndedPage::schema).of_prefix(),
        put("/mode", "The mode of all limits, for a while.", ModePage::schema).taking(&mode()),
        put("/limits/{name}/mode", "The mode of a limit, for a while.", ModePage::schema)
            .named("name", "address")
            .taking(&mode()),
        get("/buckets/{key}", "The buckets of a client or an account.", bucket).of_key(),
        delete("/buckets/{key}", "Fills them.", bucket).of_key().taking(&ResetRequest::default()),
        post("/buckets/{key}/credit", "Gives them tokens.", bucket)
            .of_key()
            .taking(&CreditRequest { tokens: 1, limit: None.into() }),
        put("/buckets/{key}/rate", "Sets a temporary rate.", bucket).of_key().taking(&rate()),
        delete("/buckets/{key}/rate", "Ends it.", bucket).of_key().taking(&LimitRequest::default()),
        put("/buckets/{key}/ban", "Bans it for a while.", bucket)
            .of_key()
            .taking(&LastingRequest { lasts: HOUR.to_owned(), limit: None.into() }),
        delete("/buckets/{key}/ban", "Ends it.", bucket).of_key().taking(&LimitRequest::default()),
        put("/buckets/{key}/exemption", "Exempts it for a while.", bucket)
            .of_key()
            .taking(&LastingRequest { lasts: HOUR.to_owned(), limit: None.into() }),
        delete("/buckets/{key}/exemption", "Ends it.", bucket).of_key().taking(&LimitRequest::default()),
        delete("/buckets/{key}/addresses", "Forgets where an account signed in from.", bucket).of_key(),
    ]
}

impl Operation {
    fn new(method: &'static str, path: &'static str, about: &'static str, page: SchemaOf) -> Self {
        let (parameters, body) = (Vec::new(), None);
        Self { method, path, about, parameters, body, status: "200", page }
    }

    /// With a parameter in the query.
    fn with(mut self, name: &'static str, schema: Schema) -> Self {
        self.parameters.push(Parameter { name, place: "query", required: false, schema });
        self
    }

    /// With a part of the path.
    fn named(mut self, name: &'static str, example: &str) -> Self {
        let schema = Schema { examples: vec![example.into()], ..Schema::string() };
        self.parameters.push(Parameter { name, place: "path", required: true, schema });
        self
    }

    fn of_prefix(self) -> Self {
        self.named("prefix", "203.0.113.0/24")
    }

    fn of_address(self) -> Self {
        self.named("prefix", "203.0.113.9")
    }

    fn of_key(self) -> Self {
        self.named("key", "ip:203.0.113.9")
    }

    /// With a body such as this one.
    fn taking<R: Described + Serialize>(self, example: &R) -> Self {
        let example = serde_json::to_value(example).unwrap_or_default();
        Self { body: Some(BodyOf { kind: JSON, schema: R::schema, example }), ..self }
    }

    fn taking_text(self, kind: &'static str, example: &str) -> Self {
        let body = BodyOf { kind, schema: |_| Schema::string(), example: example.into() };
        Self { body: Some(body), ..self }
    }

    fn answering(self, status: &'static str) -> Self {
        Self { status, ..self }
    }

    fn document(self, schemas: &mut Schemas) -> OperationDoc {
        let page = ResponseDoc { description: self.about, content: media(JSON, (self.page)(schemas)) };
        let problem = || ResponseOrRef::Ref { reference: "#/components/responses/Problem" };
        let mut responses: BTreeMap<&str, ResponseOrRef> =
            PROBLEMS.iter().map(|status| (*status, problem())).collect();
        responses.insert(self.status, ResponseOrRef::Response(page));
        let body = self.body.map(|BodyOf { kind, schema, example }| {
            let media = MediaType { schema: schema(schemas), example: Some(example) };
            BodyDoc { required: true, content: BTreeMap::from([(kind, media)]) }
        });
        let id = format!("{} {}", self.method, self.path);
        let needs = AdminPage::needs_of(self.method, self.path);
        let mut parameters = self.parameters;
        if needs.is_some_and(|needs| needs.role > OperatorRole::Read) {
            let schema = Schema { examples: vec!["ticket 4711".into()], ..Schema::string() };
            parameters.push(Parameter {
                name: "X-Tollgate-Reason",
                place: "header",
                required: false,
                schema,
            });
        }
        OperationDoc {
            operation_id: id,
            summary: self.about,
            role: needs.map(|needs| needs.role.name()),
            all_sites: needs.is_some_and(|needs| !needs.is_narrowed),
            parameters,
            request_body: body,
            responses,
        }
    }
}

fn media(kind: &'static str, schema: Schema) -> BTreeMap<&'static str, MediaType> {
    BTreeMap::from([(kind, MediaType { schema, example: None })])
}

fn explained() -> ExplainedRequest {
    let (method, url) = ("POST".to_owned(), "/login".to_owned());
    ExplainedRequest {
        method,
        url,
        from: Some("203.0.113.9".to_owned()).into(),
        ..ExplainedRequest::default()
    }
}

fn forgotten() -> ForgetRequest {
    let who = vec!["user:alice".to_owned(), "ip:203.0.113.9".to_owned()];
    ForgetRequest { who, dry_run: Some(true).into(), ..ForgetRequest::default() }
}

fn lasting_prefix() -> PrefixRequest {
    PrefixRequest { lasts: HOUR.to_owned(), why: Some("audit".to_owned()).into() }
}

fn ban() -> BanRequest {
    BanRequest { lasts: HOUR.to_owned(), why: Some("scan".to_owned()).into(), all: Some(false).into() }
}

fn mode() -> ModeRequest {
    ModeRequest { mode: "enforce".to_owned(), lasts: Some(HOUR.to_owned()).into() }
}

fn rate() -> RateRequest {
    RateRequest { limit: "address".to_owned(), rate: "60/min".to_owned(), lasts: HOUR.to_owned() }
}

/// An OpenAPI document (<https://spec.openapis.org/oas/v3.1.0>), as far as this one needs it.
#[derive(Serialize)]
pub struct OpenApi {
    openapi: &'static str,
    info: Info,
    servers: [ServerDoc; 1],
    /// Over TCP a token, over a Unix socket nothing.
    security: [BTreeMap<&'static str, [&'static str; 0]>; 2],
    paths: BTreeMap<&'static str, BTreeMap<&'static str, OperationDoc>>,
    components: Components,
}

#[derive(Serialize)]
struct Info {
    title: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct ServerDoc {
    url: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationDoc {
    operation_id: String,
    summary: &'static str,
    /// The least role of a caller.
    #[serde(rename = "x-role", skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    /// Whether a token for some sites is refused.
    #[serde(rename = "x-all-sites", skip_serializing_if = "std::ops::Not::not")]
    all_sites: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Parameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_body: Option<BodyDoc>,
    responses: BTreeMap<&'static str, ResponseOrRef>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    #[serde(rename = "in")]
    place: &'static str,
    required: bool,
    schema: Schema,
}

#[derive(Serialize)]
struct BodyDoc {
    required: bool,
    content: BTreeMap<&'static str, MediaType>,
}

#[derive(Serialize)]
struct MediaType {
    schema: Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<Value>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponseOrRef {
    Response(ResponseDoc),
    Ref {
        #[serde(rename = "$ref")]
        reference: &'static str,
    },
}

#[derive(Serialize)]
struct ResponseDoc {
    description: &'static str,
    content: BTreeMap<&'static str, MediaType>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Components {
    schemas: BTreeMap<&'static str, Schema>,
    responses: BTreeMap<&'static str, ResponseDoc>,
    security_schemes: BTreeMap<&'static str, SecurityScheme>,
}

#[derive(Serialize)]
struct SecurityScheme {
    #[serde(rename = "type")]
    kind: &'static str,
    scheme: &'static str,
}

const HOUR: &str = "1h";
const JSON: &str = "application/json";
const PROBLEM_JSON: &str = "application/problem+json";
const PROBLEM: &str = "Problem";
/// Other statuses that any page may answer.
const PROBLEMS: [&str; 11] = ["400", "401", "403", "404", "405", "409", "413", "415", "422", "429", "503"];
