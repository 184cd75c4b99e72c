// Microsoft's Rust SDK for Event Hubs, driven by words: see README.md. One process for all behaviors.

use azure_core::time::Duration;
use azure_messaging_eventhubs::models::{EventData, ReceivedEventData};
use azure_messaging_eventhubs::{
    ConsumerClient, EventDataBatchOptions, EventReceiver, OpenReceiverOptions, ProducerClient, StartLocation,
    StartPosition,
};
use futures::StreamExt;
use std::error::Error;
use std::fmt::Debug;
use std::time::{Duration as Span, SystemTime};

type Done = Result<(), Box<dyn Error>>;

/// Where the emulator is. The SDK takes the host alone from a connection string, and TLS at the port of AMQP: the
/// custom endpoint says the rest.
struct Place {
    connection: String,
    endpoint: String,
}

impl Place {
    fn new(connection: String) -> Self {
        let endpoint = connection
            .split(';')
            .find_map(|part| part.strip_prefix("Endpoint=sb://"))
            .expect("a connection string has an endpoint");
        let endpoint = format!("amqp://{}", endpoint.trim_end_matches('/'));
        Place { connection, endpoint }
    }

    async fn producer(&self, hub: &str) -> Result<ProducerClient, Box<dyn Error>> {
        let builder = ProducerClient::builder().with_custom_endpoint(self.endpoint.clone());
        Ok(builder.open_with_connection_string(&self.connection, Some(hub)).await?)
    }

    async fn consumer(&self) -> Result<ConsumerClient, Box<dyn Error>> {
        let builder = ConsumerClient::builder().with_custom_endpoint(self.endpoint.clone());
        Ok(builder.open_with_connection_string(&self.connection, Some("telemetry")).await?)
    }
}

fn expect<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Done {
    if found == wanted {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, not {wanted:?}").into())
}

async fn publish(from: &ProducerClient, options: EventDataBatchOptions, texts: &[&str]) -> Done {
    let batch = from.create_batch(Some(options)).await?;
    for each in texts {
        expect("room in a batch", batch.try_add_event_data(*each, None)?, true)?;
    }
    Ok(from.send_batch(batch, None).await?)
}

fn to_partition(id: &str) -> EventDataBatchOptions {
    EventDataBatchOptions { partition_id: Some(id.to_string()), ..Default::default() }
}

/// Open a reader with a client of its own: those of one client share a link, and with it where the first one began.
async fn reader(
    place: &Place, partition: &str, location: StartLocation, inclusive: bool, level: Option<i64>,
) -> Result<EventReceiver, Box<dyn Error>> {
    let of = place.consumer().await?;
    let options = OpenReceiverOptions {
        owner_level: level,
        start_position: Some(StartPosition { location, inclusive }),
        receive_timeout: Some(Duration::seconds(30)),
        ..Default::default()
    };
    Ok(of.open_receiver_on_partition(partition.to_string(), Some(options)).await?)
}

async fn events(from: &EventReceiver, count: usize) -> Result<Vec<ReceivedEventData>, Box<dyn Error>> {
    let mut found = Vec::new();
    let mut stream = Box::pin(from.stream_events());
    while found.len() < count {
        found.push(stream.next().await.ok_or("the events ended")??);
    }
    Ok(found)
}

fn texts(events: &[ReceivedEventData]) -> Vec<String> {
    let octets = events.iter().map(|each| each.event_data().body().unwrap_or_default().to_vec());
    octets.map(|each| String::from_utf8(each).unwrap()).collect()
}

async fn properties(place: &Place) -> Done {
    let client = place.producer("telemetry").await?;
    let hub = client.get_eventhub_properties().await?;
    expect("hub", (hub.name, hub.partition_ids.join(" ")), ("telemetry".into(), "0 1 2 3".into()))?;
    let partition = client.get_partition_properties("3").await?;
    expect("partition", (partition.id, partition.eventhub), ("3".into(), "telemetry".into()))?;
    expect("nothing there", (partition.is_empty, partition.last_enqueued_sequence_number), (true, -1))
}

async fn positions(place: &Place) -> Done {
    let begun = SystemTime::now() - Span::from_secs(60);
    let producer = place.producer("telemetry").await?;
    publish(&producer, to_partition("0"), &["a", "b", "c"]).await?;
    let all = events(&reader(place, "0", StartLocation::Earliest, false, None).await?, 3).await?;
    expect("from the first", texts(&all), vec!["a".into(), "b".into(), "c".into()])?;
    let numbers: Vec<_> = all.iter().map(|each| each.sequence_number()).collect();
    expect("numbers", numbers, vec![Some(0), Some(1), Some(2)])?;
    expect("times", all.iter().all(|each| each.enqueued_time().is_some()), true)?;
    let offset = all[1].offset().clone().ok_or("no offset")?;
    for (what, location, inclusive, wanted) in [
        ("from a number", StartLocation::SequenceNumber(1), true, "b"),
        ("behind a number", StartLocation::SequenceNumber(1), false, "c"),
        ("behind an offset", StartLocation::Offset(offset), false, "c"),
        ("from a time", StartLocation::EnqueuedTime(begun), true, "a"),
    ] {
        let found = events(&reader(place, "0", location, inclusive, None).await?, 1).await?;
        expect(what, texts(&found), vec![wanted.into()])?;
    }
    Ok(())
}

async fn event(place: &Place) -> Done {
    let producer = place.producer("telemetry").await?;
    let said = EventData::builder().with_body("whole").with_content_type("text/plain".into());
    let said = said.with_message_id("m-1").with_correlation_id("c-1").add_property("color".into(), "red").build();
    let batch = producer.create_batch(Some(to_partition("1"))).await?;
    expect("room in a batch", batch.try_add_event_data(said, None)?, true)?;
    producer.send_batch(batch, None).await?;
    let found = events(&reader(place, "1", StartLocation::Earliest, false, None).await?, 1).await?;
    let event = found[0].event_data();
    expect("type", event.content_type(), Some("text/plain"))?;
    expect("id", event.message_id().map(|each| String::from(each.clone())), Some("m-1".into()))?;
    expect("correlation", event.correlation_id().map(|each| String::from(each.clone())), Some("c-1".into()))?;
    let color = event.properties().and_then(|each| each.get("color")).cloned();
    expect("properties", color, Some("red".into()))?;
    expect("number", found[0].sequence_number(), Some(0))
}

async fn keys(place: &Place) -> Done {
    let producer = place.producer("keyed").await?;
    for each in ["k1", "k2"] {
        let options = EventDataBatchOptions { partition_key: Some("amsterdam".into()), ..Default::default() };
        publish(&producer, options, &[each]).await?;
    }
    let mut filled = Vec::new();
    for id in producer.get_eventhub_properties().await?.partition_ids {
        let count = producer.get_partition_properties(&id).await?.last_enqueued_sequence_number + 1;
        if count > 0 {
            filled.push(count);
        }
    }
    expect("events of a key in one partition", filled, vec![2])
}

async fn owner(place: &Place) -> Done {
    let producer = place.producer("telemetry").await?;
    publish(&producer, to_partition("2"), &["x"]).await?;
    let first = reader(place, "2", StartLocation::Earliest, false, Some(1)).await?;
    events(&first, 1).await?;
    let second = reader(place, "2", StartLocation::Earliest, false, Some(2)).await?;
    events(&second, 1).await?;
    match events(&first, 1).await {
        // Now and then it drops its connection in place of saying so: its AMQP forgets a session before the end of it is
        // answered, and takes the answer for an error.
        Err(error) if ["stolen", "dropped"].iter().any(|each| error.to_string().contains(each)) => Ok(()),
        Err(error) => Err(format!("lost for another reason: {error}").into()),
        Ok(_) => Err("the first reader goes on".into()),
    }
}

async fn missing(place: &Place) -> Done {
    let client = place.producer("nowhere").await?;
    match client.get_eventhub_properties().await {
        // $cbs answers 404, which the SDK takes for a wrong login.
        Err(error) if error.to_string().contains("Error authorizing") => Ok(()),
        Err(error) => Err(format!("another error: {error}").into()),
        Ok(_) => Err("it is there".into()),
    }
}

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let place = Place::new(words.next().expect("CONNECTION_STRING BEHAVIOR..."));
    for name in words {
        let ended = match name.as_str() {
            "properties" => properties(&place).await,
            "event" => event(&place).await,
            "positions" => positions(&place).await,
            "keys" => keys(&place).await,
            "owner" => owner(&place).await,
            "missing" => missing(&place).await,
            _ => Err("no such behavior".into()),
        };
        let error = ended.err().map(|each| each.to_string()).unwrap_or_default();
        println!("{{\"behavior\": {name:?}, \"error\": {}}}", quoted(&error));
    }
    println!("{{\"done\": true}}");
}

/// Return a text as JSON has it.
fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|each| match each {
        '"' | '\\' => format!("\\{each}"),
        each if each < ' ' => format!("\\u{:04x}", each as u32),
        each => each.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}
