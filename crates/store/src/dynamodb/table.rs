//! The table: creates it, and checks it for the operator.
//!
//! It is billed by the request, because the number of attackers is not known beforehand. A server without time to live
//! (some imitations have none) is accepted: expired items are only not deleted.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{DynamoDbClient, DynamoDbError, NO_TABLE};
use super::item::{KEY, TTL};
use crate::{Clocked, StoreError};

/// Creates the table and turns its time to live on, as far as that was not done.
pub(super) async fn migrate(client: &DynamoDbClient) -> Result<Clocked<()>, StoreError> {
    let table = &client.address.table;
    if describe(client).await?.value.is_none() {
        let reply = client.call("CreateTable", &definition(table), TABLE_TIMEOUT).await?;
        // If two gates migrate at once, one of them is late.
        if let Err(error) = reply.value
            && !error.is("ResourceInUseException")
        {
            return Err(error.into_error(table));
        }
    }
    let clock = await_active(client).await?.clock;
    turn_time_to_live_on(client).await?;
    Ok(Clocked { value: (), clock })
}

/// What is wrong with the table, one sentence each.
pub(super) async fn inspect(client: &DynamoDbClient) -> Result<Clocked<Vec<String>>, StoreError> {
    let table = &client.address.table;
    let Clocked { value: description, clock } = match describe(client).await {
        Err(StoreError::Refused(why)) => {
            return Ok(Clocked::without_clock(vec![format!("the table cannot be checked: {why}")]));
        }
        described => described?,
    };
    let mut sentences = Vec::new();
    match description {
        None => sentences.push(format!("there is no table `{table}`: run `tollgate migrate`")),
        Some(description) => {
            if !has_our_key(&description) {
                sentences.push(format!(
                    "the table `{table}` has another key than the string `{KEY}`: it is not ours"
                ));
            }
            if description["TableStatus"] != "ACTIVE" {
                sentences.push(format!("the table `{table}` is not active"));
            }
            sentences.extend(time_to_live_is_off(client).await?);
        }
    }
    Ok(Clocked { value: sentences, clock })
}

/// What [`migrate`] does, as commands of Amazon's command line.
pub(super) fn schema(client: &DynamoDbClient) -> Vec<String> {
    let address = &client.address;
    let scheme = if address.server.is_https { "https" } else { "http" };
    let target = format!(
        "--region {} --endpoint-url {scheme}://{} --table-name {}",
        address.region, address.server.authority, address.table
    );
    vec![
        format!(
            "aws dynamodb create-table {target} --billing-mode PAY_PER_REQUEST \
             --attribute-definitions AttributeName={KEY},AttributeType=S --key-schema AttributeName={KEY},KeyType=HASH"
        ),
        format!("aws dynamodb wait table-exists {target}"),
        format!(
            "aws dynamodb update-time-to-live {target} \
             --time-to-live-specification Enabled=true,AttributeName={TTL}"
        ),
    ]
}

fn definition(table: &str) -> Value {
    json!({
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{ "AttributeName": KEY, "AttributeType": "S" }],
        "KeySchema": [{ "AttributeName": KEY, "KeyType": "HASH" }],
    })
}

async fn await_active(client: &DynamoDbClient) -> Result<Clocked<()>, StoreError> {
    let table = &client.address.table;
    let mut pause = Duration::from_millis(50);
    for _ in 0..MAX_POLLS {
        if let Clocked { value: Some(description), clock } = describe(client).await? {
            if !has_our_key(&description) {
                let wrong =
                    format!("the table `{table}` is there already, and its key is not the string `{KEY}`");
                return Err(StoreError::Refused(wrong));
            }
            if matches!(description["TableStatus"].as_str(), Some("ACTIVE" | "UPDATING")) {
                return Ok(Clocked { value: (), clock });
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    Err(StoreError::Refused(format!("the table `{table}` does not become active")))
}

async fn turn_time_to_live_on(client: &DynamoDbClient) -> Result<(), StoreError> {
    let table = &client.address.table;
    if time_to_live_is_off(client).await?.is_none() {
        return Ok(());
    }
    let request = json!({
        "TableName": table,
        "TimeToLiveSpecification": { "Enabled": true, "AttributeName": TTL },
    });
    let reply = client.call("UpdateTimeToLive", &request, TABLE_TIMEOUT).await?;
    reply.value.map(drop).or_else(|error| {
        if error.is("UnknownOperationException") { Ok(()) } else { Err(error.into_error(table)) }
    })
}

/// A warning, if it is off.
async fn time_to_live_is_off(client: &DynamoDbClient) -> Result<Option<String>, StoreError> {
    let table = &client.address.table;
    let reply = client.call("DescribeTimeToLive", &json!({ "TableName": table }), TABLE_TIMEOUT).await?;
    let description = match reply.value {
        Ok(value) => value["TimeToLiveDescription"].clone(),
        Err(error) if error.is("UnknownOperationException") => Value::Null,
        Err(error) => return Err(error.into_error(table)),
    };
    let is_on = matches!(description["TimeToLiveStatus"].as_str(), Some("ENABLED" | "ENABLING"));
    let off = format!(
        "time to live by the attribute `{TTL}` is off for the table `{table}`: expired items stay there and \
         are paid for; run `tollgate migrate`"
    );
    Ok((!is_on || description["AttributeName"] != TTL).then_some(off))
}

/// `None` if there is no table.
async fn describe(client: &DynamoDbClient) -> Result<Clocked<Option<Value>>, StoreError> {
    let table = &client.address.table;
    let reply = client.call("DescribeTable", &json!({ "TableName": table }), TABLE_TIMEOUT).await?;
    let value = match reply.value {
        Ok(value) => Some(value["Table"].clone()),
        Err(DynamoDbError { kind, .. }) if kind == NO_TABLE => None,
        Err(error) => return Err(error.into_error(table)),
    };
    Ok(Clocked { value, clock: reply.clock })
}

fn has_our_key(description: &Value) -> bool {
    description["KeySchema"] == definition("")["KeySchema"]
        && description["AttributeDefinitions"].as_array().is_some_and(|attributes| {
            attributes.iter().any(|one| one["AttributeName"] == KEY && one["AttributeType"] == "S")
        })
}

/// For requests about tables, which are slow.
const TABLE_TIMEOUT: Duration = Duration::from_secs(10);
/// A new table usually takes some seconds.
const MAX_POLLS: u32 = 60;
