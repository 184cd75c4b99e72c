//! fe2o3-amqp with real messages: what real_clients.py asks for.

use std::collections::VecDeque;
use std::time::Instant;

use fe2o3_amqp::link::delivery::DeliveryFut;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::session::SessionHandle;
use fe2o3_amqp::types::definitions::SenderSettleMode;
use fe2o3_amqp::types::messaging::annotations::OwnedKey;
use fe2o3_amqp::types::messaging::{
    AmqpValue, ApplicationProperties, Data, Message, MessageAnnotations, Outcome, Properties,
};
use fe2o3_amqp::types::primitives::{Binary, OrderedMap, SimpleValue, Symbol, Timestamp, Uuid, Value};
use fe2o3_amqp::{Receiver, Sender};
use serde_json::Value as Json;

use crate::{usage, Bench, IN_FLIGHT};

struct Order {
    order: Json,
    subject: String,
    reply_to: String,
    correlation_id: String,
    content_type: String,
    created: i64,
    properties: Vec<(String, SimpleValue)>,
    annotations: Vec<(String, Value)>,
}

fn text(of: &Json) -> String {
    of.as_str().unwrap().to_string()
}

fn uuid(of: &Json) -> Uuid {
    let digits: String = text(of).chars().filter(|c| *c != '-').collect();
    let mut made = [0u8; 16];
    for (at, octet) in made.iter_mut().enumerate() {
        *octet = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap();
    }
    Uuid::from(made)
}

fn moment(of: &Json) -> Timestamp {
    Timestamp::from_milliseconds(of.as_i64().unwrap())
}

/// The orders and the rows of the file.
fn load(path: &str) -> (Vec<Order>, Vec<OrderedMap<Value, Value>>) {
    let made: Json = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let order = |each: &Json| {
        let p = &each["application_properties"];
        let a = &each["message_annotations"];
        Order {
            order: each["order"].clone(),
            subject: text(&each["subject"]),
            reply_to: text(&each["reply_to"]),
            correlation_id: text(&each["correlation_id"]),
            content_type: text(&each["content_type"]),
            created: each["creation_time"].as_i64().unwrap(),
            properties: vec![
                ("region".into(), SimpleValue::String(text(&p["region"]))),
                ("attempt".into(), SimpleValue::Long(p["attempt"].as_i64().unwrap())),
                ("total".into(), SimpleValue::Double(p["total"].as_f64().unwrap().into())),
                ("express".into(), SimpleValue::Bool(p["express"].as_bool().unwrap())),
                ("due".into(), SimpleValue::Timestamp(moment(&p["due"]))),
                ("trace".into(), SimpleValue::Uuid(uuid(&p["trace"]))),
            ],
            annotations: vec![
                ("x-opt-partition-key".into(), Value::String(text(&a["x-opt-partition-key"]))),
                ("x-opt-sequence-number".into(), Value::Long(a["x-opt-sequence-number"].as_i64().unwrap())),
            ],
        }
    };
    let row = |each: &Json| {
        let mut map = OrderedMap::new();
        for (name, value) in each.as_object().unwrap() {
            let value = match (name.as_str(), value) {
                ("created" | "changed", at) => Value::Timestamp(moment(at)),
                ("session", id) => Value::Uuid(uuid(id)),
                (_, Json::Null) => Value::Null,
                (_, Json::Bool(is)) => Value::Bool(*is),
                (_, Json::String(it)) => Value::String(it.clone()),
                (_, Json::Number(it)) if it.is_i64() => Value::Long(it.as_i64().unwrap()),
                (_, other) => Value::Double(other.as_f64().unwrap().into()),
            };
            map.insert(Value::String(name.clone()), value);
        }
        map
    };
    (
        made["orders"].as_array().unwrap().iter().map(order).collect(),
        made["rows"].as_array().unwrap().iter().map(row).collect(),
    )
}

fn order_message(each: &Order, number: usize) -> Message<Data> {
    let mut properties = ApplicationProperties::builder();
    for (name, value) in &each.properties {
        properties = properties.insert(name.clone(), value.clone());
    }
    let mut annotations = MessageAnnotations::builder();
    for (name, value) in &each.annotations {
        annotations = annotations.insert(OwnedKey::from(Symbol::from(name.as_str())), value.clone());
    }
    Message::builder()
        .message_annotations(annotations.build())
        .properties(
            Properties::builder()
                .message_id(format!("order-{number:012}"))
                .subject(each.subject.as_str())
                .reply_to(each.reply_to.as_str())
                .correlation_id(each.correlation_id.clone())
                .content_type(each.content_type.as_str())
                .creation_time(Timestamp::from_milliseconds(each.created))
                .build(),
        )
        .application_properties(properties.build())
        .data(Binary::from(serde_json::to_vec(&each.order).unwrap()))
        .build()
}

fn row_message(row: &OrderedMap<Value, Value>, number: usize) -> Message<AmqpValue<Value>> {
    Message::builder()
        .properties(Properties::builder().message_id(format!("row-{number:012}")).build())
        .value(Value::Map(row.clone()))
        .build()
}

/// Waits for the oldest outcome where enough are under way.
async fn outcome<E: std::fmt::Debug>(b: &mut Bench, waiting: &mut VecDeque<DeliveryFut<Result<Outcome, E>>>, most: usize)
where
    DeliveryFut<Result<Outcome, E>>: std::future::Future<Output = Result<Outcome, E>>,
{
    while waiting.len() > most {
        assert!(matches!(waiting.pop_front().unwrap().await.unwrap(), Outcome::Accepted(_)));
        b.tick();
    }
}

fn looked_at(order: &Message<Data>) {
    let p = order.properties.as_ref().unwrap();
    let a = order.application_properties.as_ref().unwrap();
    let n = order.message_annotations.as_ref().unwrap();
    assert!(p.message_id.is_some() && p.subject.is_some() && p.reply_to.is_some() && p.correlation_id.is_some());
    assert!(p.content_type.is_some() && p.creation_time.is_some() && !order.body.0.is_empty());
    for name in ["region", "attempt", "total", "express", "due", "trace"] {
        assert!(a.get(name).is_some());
    }
    for name in ["x-opt-partition-key", "x-opt-sequence-number"] {
        assert!(n.get(&OwnedKey::from(Symbol::from(name))).is_some());
    }
}

async fn receiver(session: &mut SessionHandle<()>, address: &str) -> Receiver {
    Receiver::builder()
        .name("bench-receiver")
        .source(address)
        .sender_settle_mode(SenderSettleMode::Unsettled)
        .credit_mode(CreditMode::Auto(1000))
        .attach(session)
        .await
        .unwrap()
}

async fn sender(session: &mut SessionHandle<()>, address: &str) -> Sender {
    Sender::builder()
        .name("bench-sender")
        .target(address)
        .sender_settle_mode(SenderSettleMode::Unsettled)
        .attach(session)
        .await
        .unwrap()
}

fn report(b: &Bench, also: String) {
    let (t0, u0, s0) = b.from;
    let (t, u, s) = usage();
    println!(
        "{{\"count\": {}, \"seconds\": {}, \"cpu_user\": {}, \"cpu_sys\": {}{also}}}",
        b.count, (t - t0).as_secs_f64(), u - u0, s - s0
    );
}

pub async fn run(b: &mut Bench, session: &mut SessionHandle<()>, address: &str, messages: &str) {
    let mut also = String::new();
    match b.mode.as_str() {
        "order-send" => {
            let (orders, _) = load(messages);
            let (_, u0, s0) = usage();
            for (number, each) in orders.iter().enumerate() {
                std::hint::black_box((serde_json::to_vec(&each.order).unwrap(), format!("order-{number:012}")));
            }
            let (_, u, s) = usage();
            also = format!(", \"json\": {}", (u - u0 + s - s0) * 1e6 / orders.len() as f64);
            let mut sender = sender(session, address).await;
            b.started();
            let mut waiting = VecDeque::with_capacity(IN_FLIGHT);
            for number in 0..b.total() {
                outcome(b, &mut waiting, IN_FLIGHT - 1).await;
                let message = order_message(&orders[number % orders.len()], number);
                waiting.push_back(sender.send_batchable(message).await.unwrap());
            }
            outcome(b, &mut waiting, 0).await;
            report(b, also);
            sender.close().await.unwrap();
        }
        "row-send" => {
            let (_, rows) = load(messages);
            let mut sender = sender(session, address).await;
            b.started();
            let mut waiting = VecDeque::with_capacity(IN_FLIGHT);
            for number in 0..b.total() {
                outcome(b, &mut waiting, IN_FLIGHT - 1).await;
                let message = row_message(&rows[number % rows.len()], number);
                waiting.push_back(sender.send_batchable(message).await.unwrap());
            }
            outcome(b, &mut waiting, 0).await;
            report(b, also);
            sender.close().await.unwrap();
        }
        "one" => {
            let mut sender = sender(session, address).await;
            let body: Vec<u8> = vec![b'x'; b.size];
            b.started();
            let mut took = Vec::with_capacity(b.total());
            for _ in 0..b.total() {
                let began = Instant::now();
                let message = Message::builder().data(Binary::from(body.clone())).build();
                assert!(matches!(sender.send(message).await.unwrap(), Outcome::Accepted(_)));
                took.push(began.elapsed().as_nanos() as f64 / 1e3);
                b.tick();
            }
            let mut counted = took.split_off(b.warmup);
            counted.sort_by(|a, b| a.partial_cmp(b).unwrap());
            also = format!(", \"p50\": {}, \"p99\": {}", counted[counted.len() / 2], counted[counted.len() * 99 / 100]);
            report(b, also);
            sender.close().await.unwrap();
        }
        "order-receive" => {
            let mut receiver = receiver(session, address).await;
            b.started();
            for _ in 0..b.total() {
                let delivery = receiver.recv::<Data>().await.unwrap();
                looked_at(delivery.message());
                receiver.accept(&delivery).await.unwrap();
                b.tick();
            }
            report(b, also);
            receiver.close().await.unwrap();
        }
        _ => {
            let mut receiver = receiver(session, address).await;
            b.started();
            for _ in 0..b.total() {
                let delivery = receiver.recv::<AmqpValue<Value>>().await.unwrap();
                assert!(delivery.message().properties.as_ref().unwrap().message_id.is_some());
                match &delivery.body().0 {
                    Value::Map(map) => assert_eq!(map.len(), 19),
                    _ => panic!("no row"),
                }
                receiver.accept(&delivery).await.unwrap();
                b.tick();
            }
            report(b, also);
            receiver.close().await.unwrap();
        }
    }
}
