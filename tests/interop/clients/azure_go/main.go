// Microsoft's Go SDKs for Service Bus and Event Hubs, driven by words: see README.md. One process for all behaviors.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var (
	connection string
	bus        *azservicebus.Client
	ctx        context.Context
)

// check ends a behavior with an error; main says it.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func expect(what string, found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Errorf("%s: %v, not %v", what, found, wanted))
	}
}

func send(queue string, messages ...*azservicebus.Message) {
	sender := must(bus.NewSender(queue, nil))
	for _, message := range messages {
		check(sender.SendMessage(ctx, message, nil))
	}
	check(sender.Close(ctx))
}

func text(body string) *azservicebus.Message { return &azservicebus.Message{Body: []byte(body)} }

type source interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
}

func receive(from source, count int) []*azservicebus.ReceivedMessage {
	var found []*azservicebus.ReceivedMessage
	for len(found) < count {
		found = append(found, must(from.ReceiveMessages(ctx, count-len(found), nil))...)
	}
	return found
}

func bodies(messages []*azservicebus.ReceivedMessage) []string {
	var found []string
	for _, message := range messages {
		found = append(found, string(message.Body))
	}
	return found
}

func queue(name string) *azservicebus.Receiver { return must(bus.NewReceiverForQueue(name, nil)) }

func settle() {
	send("settled", text("complete"), text("abandon"), text("defer"), text("dead"))
	receiver := queue("settled")
	messages := receive(receiver, 4)
	check(receiver.CompleteMessage(ctx, messages[0], nil))
	again := &azservicebus.AbandonMessageOptions{PropertiesToModify: map[string]any{"again": true}}
	check(receiver.AbandonMessage(ctx, messages[1], again))
	check(receiver.DeferMessage(ctx, messages[2], nil))
	why := &azservicebus.DeadLetterOptions{Reason: to.Ptr("bad"), ErrorDescription: to.Ptr("very bad")}
	check(receiver.DeadLetterMessage(ctx, messages[3], why))
	message := receive(receiver, 1)[0]
	expect("abandoned", []any{string(message.Body), message.DeliveryCount, message.ApplicationProperties["again"]}, []any{"abandon", uint32(2), true})
	check(receiver.CompleteMessage(ctx, message, nil))
	deferred := must(receiver.ReceiveDeferredMessages(ctx, []int64{*messages[2].SequenceNumber}, nil))
	expect("deferred", bodies(deferred), []string{"defer"})
	check(receiver.CompleteMessage(ctx, deferred[0], nil))
	expect("left", len(must(receiver.PeekMessages(ctx, 10, nil))), 0)
	dead := must(bus.NewReceiverForQueue("settled", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
	buried := receive(dead, 1)[0]
	expect("reason", []string{*buried.DeadLetterReason, *buried.DeadLetterErrorDescription}, []string{"bad", "very bad"})
	check(dead.CompleteMessage(ctx, buried, nil))
}

func batch() {
	sender := must(bus.NewSender("batched", nil))
	whole := must(sender.NewMessageBatch(ctx, nil))
	var wanted []string
	for number := range 10 {
		wanted = append(wanted, fmt.Sprintf("m%d", number))
		check(whole.AddMessage(text(wanted[number]), nil))
	}
	check(sender.SendMessageBatch(ctx, whole, nil))
	options := &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}
	receiver := must(bus.NewReceiverForQueue("batched", options))
	expect("bodies", bodies(receive(receiver, 10)), wanted)
}

func renew() {
	send("renewed", text("x"))
	receiver := queue("renewed")
	message := receive(receiver, 1)[0]
	before := *message.LockedUntil
	time.Sleep(50 * time.Millisecond)
	check(receiver.RenewMessageLock(ctx, message, nil))
	expect("later", message.LockedUntil.After(before), true)
	check(receiver.CompleteMessage(ctx, message, nil))
}

func lose() {
	send("lost", text("x"))
	receiver := queue("lost")
	message := receive(receiver, 1)[0]
	receive(receiver, 1) // its lock has ended: it comes again
	for what, err := range map[string]error{"complete": receiver.CompleteMessage(ctx, message, nil), "renew": receiver.RenewMessageLock(ctx, message, nil)} {
		expectCode(what, err, azservicebus.CodeLockLost)
	}
}

func expectCode(what string, err error, code azservicebus.Code) {
	var found *azservicebus.Error
	if !errors.As(err, &found) || found.Code != code {
		panic(fmt.Errorf("%s: %v is not %s", what, err, code))
	}
}

func sessions() {
	for number, id := range []string{"even", "odd", "even", "odd"} {
		send("sessions", &azservicebus.Message{Body: []byte(fmt.Sprint(number)), SessionID: to.Ptr(id)})
	}
	pager := bus.NewListSessionsForQueuePager("sessions", nil)
	expect("listed", must(pager.NextPage(ctx)).Sessions, []string{"even", "odd"})
	odd := must(bus.AcceptSessionForQueue(ctx, "sessions", "odd", nil))
	expect("bodies", bodies(receive(odd, 2)), []string{"1", "3"})
	check(odd.SetSessionState(ctx, []byte("half"), nil))
	expect("state", string(must(odd.GetSessionState(ctx, nil))), "half")
	before := odd.LockedUntil()
	time.Sleep(50 * time.Millisecond)
	check(odd.RenewSessionLock(ctx, nil))
	expect("later", odd.LockedUntil().After(before), true)
	next := must(bus.AcceptNextSessionForQueue(ctx, "sessions", nil))
	expect("next", next.SessionID(), "even")
}

func schedule() {
	sender := must(bus.NewSender("scheduled", nil))
	due := time.Now().Add(time.Hour)
	numbers := must(sender.ScheduleMessages(ctx, []*azservicebus.Message{text("keep"), text("drop")}, due, nil))
	check(sender.CancelScheduledMessages(ctx, numbers[1:], nil))
	peeked := must(queue("scheduled").PeekMessages(ctx, 5, nil))
	expect("peeked", []any{bodies(peeked), *peeked[0].SequenceNumber, peeked[0].State}, []any{[]string{"keep"}, numbers[0], azservicebus.MessageStateScheduled})
}

func subscribe() {
	colored := func(body, color string) *azservicebus.Message {
		return &azservicebus.Message{Body: []byte(body), ApplicationProperties: map[string]any{"color": color}}
	}
	send("events", colored("x", "blue"), colored("y", "red"))
	receiver := must(bus.NewReceiverForSubscription("events", "red", nil))
	message := receive(receiver, 1)[0]
	expect("body", string(message.Body), "y")
	check(receiver.CompleteMessage(ctx, message, nil))
}

func missing() {
	sender := must(bus.NewSender("missing", nil))
	var found *azservicebus.Error
	if err := sender.SendMessage(ctx, text("x"), nil); !errors.As(err, &found) || found.Code != azservicebus.CodeNotFound {
		panic(fmt.Errorf("%v does not say that it is missing", err))
	}
}

// Event Hubs

func producer() *azeventhubs.ProducerClient {
	return must(azeventhubs.NewProducerClientFromConnectionString(connection, "telemetry", nil))
}

func consumer() *azeventhubs.ConsumerClient {
	return must(azeventhubs.NewConsumerClientFromConnectionString(connection, "telemetry", azeventhubs.DefaultConsumerGroup, nil))
}

func publish(options *azeventhubs.EventDataBatchOptions, texts ...string) {
	client := producer()
	whole := must(client.NewEventDataBatch(ctx, options))
	for _, each := range texts {
		check(whole.AddEventData(&azeventhubs.EventData{Body: []byte(each)}, nil))
	}
	check(client.SendEventDataBatch(ctx, whole, nil))
	check(client.Close(ctx))
}

func reader(partition string, start azeventhubs.StartPosition, level *int64) *azeventhubs.PartitionClient {
	options := &azeventhubs.PartitionClientOptions{StartPosition: start, OwnerLevel: level}
	return must(consumer().NewPartitionClient(partition, options))
}

func events(from *azeventhubs.PartitionClient, count int) []*azeventhubs.ReceivedEventData {
	var found []*azeventhubs.ReceivedEventData
	for len(found) < count {
		found = append(found, must(from.ReceiveEvents(ctx, count-len(found), nil))...)
	}
	return found
}

func hubProperties() {
	found := must(producer().GetEventHubProperties(ctx, nil))
	expect("hub", []any{found.Name, found.PartitionIDs}, []any{"telemetry", []string{"0", "1", "2", "3"}})
	partition := must(consumer().GetPartitionProperties(ctx, "3", nil))
	expect("partition", []any{partition.PartitionID, partition.IsEmpty}, []any{"3", true})
}

func hubPositions() {
	publish(&azeventhubs.EventDataBatchOptions{PartitionID: to.Ptr("0")}, "a", "b", "c")
	all := events(reader("0", azeventhubs.StartPosition{Earliest: to.Ptr(true)}, nil), 3)
	expect("first", []any{string(all[0].Body), all[0].SequenceNumber}, []any{"a", int64(0)})
	bySequence := events(reader("0", azeventhubs.StartPosition{SequenceNumber: to.Ptr(int64(1)), Inclusive: true}, nil), 1)
	expect("by sequence number", string(bySequence[0].Body), "b")
	byOffset := events(reader("0", azeventhubs.StartPosition{Offset: &all[1].Offset}, nil), 1)
	expect("by offset", string(byOffset[0].Body), "c")
}

func hubKeys() {
	publish(&azeventhubs.EventDataBatchOptions{PartitionKey: to.Ptr("amsterdam")}, "k1")
	publish(&azeventhubs.EventDataBatchOptions{PartitionKey: to.Ptr("amsterdam")}, "k2")
	found := events(reader("1", azeventhubs.StartPosition{Earliest: to.Ptr(true)}, nil), 2)
	expect("key", []any{*found[0].PartitionKey, string(found[0].Body), string(found[1].Body)}, []any{"amsterdam", "k1", "k2"})
}

func hubOwner() {
	publish(&azeventhubs.EventDataBatchOptions{PartitionID: to.Ptr("2")}, "x")
	first := reader("2", azeventhubs.StartPosition{Earliest: to.Ptr(true)}, to.Ptr(int64(1)))
	events(first, 1)
	events(reader("2", azeventhubs.StartPosition{Earliest: to.Ptr(true)}, to.Ptr(int64(2))), 1)
	_, err := first.ReceiveEvents(ctx, 1, nil)
	var found *azeventhubs.Error
	if !errors.As(err, &found) || found.Code != azeventhubs.ErrorCodeOwnershipLost {
		panic(fmt.Errorf("%v is no loss of the ownership", err))
	}
}

var behaviors = map[string]func(){
	"settle": settle, "batch": batch, "renew": renew, "lose": lose, "sessions": sessions, "schedule": schedule,
	"subscribe": subscribe, "missing": missing, "hub-properties": hubProperties, "hub-positions": hubPositions,
	"hub-keys": hubKeys, "hub-owner": hubOwner,
}

func run(behavior string) (failure string) {
	defer func() {
		if found := recover(); found != nil {
			failure = fmt.Sprint(found)
		}
	}()
	behaviors[behavior]()
	return ""
}

func main() {
	connection = os.Args[1]
	bus = must(azservicebus.NewClientFromConnectionString(connection, nil))
	deadline, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	ctx = deadline
	var all sync.WaitGroup
	var writing sync.Mutex
	for _, behavior := range os.Args[2:] {
		all.Go(func() {
			failure := run(behavior)
			writing.Lock()
			defer writing.Unlock()
			check(json.NewEncoder(os.Stdout).Encode(map[string]string{"behavior": behavior, "error": failure}))
		})
	}
	all.Wait()
	fmt.Println(`{"done": true}`)
}
