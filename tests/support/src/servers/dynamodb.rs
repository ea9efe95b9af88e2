//! dynalite, which answers as DynamoDB does, in a process of node; `scripts/fetch-dynalite` gets it.
//!
//! It keeps everything in memory. Unlike DynamoDB it has no time to live and does not return the stored item when a
//! condition fails, so the tests of both stand beside the backend.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Process, Server, wait_for};
use crate::{eventually, free_port, installed, root};

/// A process of dynalite.
pub struct Dynalite {
    port: u16,
    process: Option<Process>,
}

impl Server for Dynalite {
    const NAME: &'static str = "dynalite";

    fn start() -> Result<Self, String> {
        let mut server = Self { port: free_port(), process: None };
        server.process = Some(server.spawn()?);
        wait_for(server.address());
        Ok(server)
    }

    fn url(&self) -> String {
        // It requires a signature, but does not check it.
        format!("dynamodb://KEY:SECRET@{TABLE}?region=eu-central-1&endpoint=http://{}", self.address())
    }

    fn pause(&mut self) {
        self.process.as_ref().unwrap().signal(Signal::STOP);
    }

    fn resume(&mut self) {
        self.process.as_ref().unwrap().signal(Signal::CONT);
    }

    fn kill(&mut self) {
        self.process = None;
    }

    fn start_again(&mut self) {
        self.process = Some(self.spawn().unwrap());
        wait_for(self.address());
        self.ask(
            "CreateTable",
            &json!({
                "TableName": TABLE,
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{ "AttributeName": "bucket", "AttributeType": "S" }],
                "KeySchema": [{ "AttributeName": "bucket", "KeyType": "HASH" }],
            }),
        );
        let is_active =
            || self.ask("DescribeTable", &json!({ "TableName": TABLE }))["Table"]["TableStatus"] == "ACTIVE";
        assert!(eventually(Duration::from_secs(10), is_active), "the table does not become active");
    }

    fn questions(&mut self) -> u64 {
        self.exchange("GET /questions HTTP/1.0\r\n\r\n").trim().parse().unwrap()
    }

    fn spoil(&mut self, bytes: &[u8]) {
        use base64::Engine;
        let other = base64::engine::general_purpose::STANDARD.encode(bytes);
        let items = self.ask("Scan", &json!({ "TableName": TABLE, "ConsistentRead": true }))["Items"].clone();
        let items = items.as_array().unwrap();
        assert!(!items.is_empty(), "there is nothing to spoil");
        for item in items {
            let mut item = item.clone();
            item["state"] = json!({ "B": other });
            self.ask("PutItem", &json!({ "TableName": TABLE, "Item": item }));
        }
    }
}

impl Dynalite {
    /// Removes the table of the buckets.
    pub fn drop_table(&self) {
        self.ask("DeleteTable", &json!({ "TableName": TABLE }));
    }

    /// The item of a bucket, expired or not.
    pub fn item(&self, bucket: &str) -> Option<Value> {
        let key = json!({ "bucket": { "S": bucket } });
        let question = json!({ "TableName": TABLE, "Key": key, "ConsistentRead": true });
        self.ask("GetItem", &question).get("Item").cloned()
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn spawn(&self) -> Result<Process, String> {
        let dynalite = root().join("target/tools/dynalite/node_modules/dynalite");
        if !dynalite.is_dir() {
            return Err("scripts/fetch-dynalite was not run".to_owned());
        }
        let script = root().join("tests/support/src/servers/dynalite.js");
        Process::spawn(installed("node", "nodejs").arg(script).arg(dynalite).arg(self.port.to_string()))
    }

    /// Asks as a DBA would, past the backend.
    fn ask(&self, operation: &str, question: &Value) -> Value {
        let body = question.to_string();
        let answer = self.exchange(&format!(
            "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n\
             X-Amz-Target: DynamoDB_20120810.{operation}\r\nX-Amz-Date: 20261121T000000Z\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=K/20261121/r/dynamodb/aws4_request, SignedHeaders=host, \
             Signature=0\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert!(answer.get("__type").is_none(), "{operation}: {answer}");
        answer
    }

    /// Sends a request and returns the body of the answer.
    fn exchange(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }
}

const TABLE: &str = "tollgate-buckets";
