// go-amqp with real messages: what real_clients.py asks for.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/go-amqp"
)

var (
	messages = flag.String("messages", "", "the JSON file with what to send")
	links    = flag.Int("links", 1, "links of the mode real-links")
	variant  = flag.String("variant", "", "task: relay with a goroutine a message")
	durable  = flag.Bool("durable", false, "broker-send: ask for each message to be kept")
)

const atATime, linkCredit = 100, 10

type order struct {
	Order       map[string]any `json:"order"`
	Subject     string         `json:"subject"`
	ReplyTo     string         `json:"reply_to"`
	Correlation string         `json:"correlation_id"`
	ContentType string         `json:"content_type"`
	Created     int64          `json:"creation_time"`
	Properties  map[string]any `json:"application_properties"`
	Annotations map[string]any `json:"message_annotations"`
}

type kept struct {
	Orders []order          `json:"orders"`
	Rows   []map[string]any `json:"rows"`
}

func moment(milliseconds any) time.Time { return time.UnixMilli(int64(milliseconds.(float64))) }

func uuid(text any) amqp.UUID {
	var made amqp.UUID
	at := 0
	for i := 0; i < len(made); i++ {
		if text.(string)[at] == '-' {
			at++
		}
		fmt.Sscanf(text.(string)[at:at+2], "%02x", &made[i])
		at += 2
	}
	return made
}

func load() kept {
	data, err := os.ReadFile(*messages)
	check(err)
	var made kept
	check(json.Unmarshal(data, &made))
	whole := func(in map[string]any, names ...string) {
		for _, name := range names {
			in[name] = int64(in[name].(float64))
		}
	}
	for _, each := range made.Orders {
		each.Properties["due"] = moment(each.Properties["due"])
		each.Properties["trace"] = uuid(each.Properties["trace"])
		whole(each.Properties, "attempt")
		whole(each.Annotations, "x-opt-sequence-number")
	}
	for _, row := range made.Rows {
		row["created"], row["changed"] = moment(row["created"]), moment(row["changed"])
		row["session"] = uuid(row["session"])
		whole(row, "id", "quantity", "clicks")
	}
	return made
}

func orderMessage(each *order, number int) *amqp.Message {
	body, err := json.Marshal(each.Order)
	check(err)
	made := amqp.NewMessage(body)
	created := time.UnixMilli(each.Created)
	made.Properties = &amqp.MessageProperties{
		MessageID: fmt.Sprintf("order-%012d", number), Subject: &each.Subject, ReplyTo: &each.ReplyTo,
		CorrelationID: each.Correlation, ContentType: &each.ContentType, CreationTime: &created,
	}
	made.ApplicationProperties = make(map[string]any, len(each.Properties))
	for name, value := range each.Properties {
		made.ApplicationProperties[name] = value
	}
	made.Annotations = make(amqp.Annotations, len(each.Annotations))
	for name, value := range each.Annotations {
		made.Annotations[name] = value
	}
	return made
}

func rowMessage(row map[string]any, number int) *amqp.Message {
	return &amqp.Message{
		Properties: &amqp.MessageProperties{MessageID: fmt.Sprintf("row-%012d", number)},
		Value:      row,
	}
}

func readOrder(message *amqp.Message) {
	p, a, ann := message.Properties, message.ApplicationProperties, message.Annotations
	ok := p.MessageID != nil && *p.Subject != "" && *p.ReplyTo != "" && p.CorrelationID != nil &&
		*p.ContentType != "" && !p.CreationTime.IsZero() && len(message.GetData()) > 0 &&
		a["region"] != nil && a["attempt"] != nil && a["total"] != nil && a["express"] != nil && a["due"] != nil &&
		a["trace"] != nil && ann["x-opt-partition-key"] != nil && ann["x-opt-sequence-number"] != nil
	if !ok {
		log.Fatal("wrong order")
	}
}

func readRow(message *amqp.Message) {
	// a map whose keys are all strings comes as this
	if message.Properties.MessageID == nil || len(message.Value.(map[string]any)) != 19 {
		log.Fatal("wrong row")
	}
}

func derived(message *amqp.Message) *amqp.Message {
	subject := "relayed." + *message.Properties.Subject
	made := amqp.NewMessage(message.GetData())
	made.Properties = &amqp.MessageProperties{Subject: &subject, CorrelationID: message.Properties.MessageID}
	made.ApplicationProperties = map[string]any{"region": message.ApplicationProperties["region"]}
	return made
}

func accepted(receipt amqp.SendReceipt, ctx context.Context) {
	state, err := receipt.Wait(ctx)
	check(err)
	if _, ok := state.(*amqp.StateAccepted); !ok {
		log.Fatalf("not accepted: %v", state)
	}
}

func sendReal(ctx context.Context, sender *amqp.Sender, made func(int) *amqp.Message) {
	receipts := make(chan amqp.SendReceipt, inFlight)
	go func() {
		for number := range total {
			receipt, err := sender.SendWithReceipt(ctx, made(number), nil)
			check(err)
			receipts <- receipt
		}
	}()
	for range total {
		accepted(<-receipts, ctx)
		tick()
	}
}

// made in advance: what is measured is the broker, and the machine is to have time for it.
func ordersInAdvance() func(int) *amqp.Message {
	made := load()
	ready := make([]*amqp.Message, len(made.Orders))
	for number := range ready {
		ready[number] = orderMessage(&made.Orders[number], number)
		ready[number].Header = &amqp.MessageHeader{Durable: *durable, Priority: 4}
	}
	return func(number int) *amqp.Message {
		message := ready[number%len(ready)]
		message.Properties.MessageID = fmt.Sprintf("order-%012d", number)
		return message
	}
}

func relay(ctx context.Context, receiver *amqp.Receiver, sender *amqp.Sender) {
	if *variant == "task" {
		var all sync.WaitGroup
		var counting sync.Mutex
		room := make(chan struct{}, atATime)
		for range total {
			message, err := receiver.Receive(ctx, nil)
			check(err)
			room <- struct{}{}
			all.Add(1)
			go func() {
				defer all.Done()
				check(sender.Send(ctx, derived(message), nil))
				check(receiver.AcceptMessage(ctx, message))
				counting.Lock()
				tick()
				counting.Unlock()
				<-room
			}()
		}
		all.Wait()
		return
	}
	type pair struct {
		message *amqp.Message
		receipt amqp.SendReceipt
	}
	sent := make(chan pair, atATime)
	go func() {
		for range total {
			message, err := receiver.Receive(ctx, nil)
			check(err)
			receipt, err := sender.SendWithReceipt(ctx, derived(message), nil)
			check(err)
			sent <- pair{message, receipt}
		}
	}()
	for range total {
		each := <-sent
		accepted(each.receipt, ctx)
		check(receiver.AcceptMessage(ctx, each.message))
		tick()
	}
}

func manyLinks(ctx context.Context, session *amqp.Session, address string) {
	var all sync.WaitGroup
	var counting sync.Mutex
	for range *links {
		receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Credit: linkCredit})
		check(err)
		all.Add(1)
		go func() {
			defer all.Done()
			for range total / *links {
				message, err := receiver.Receive(ctx, nil)
				check(err)
				readOrder(message)
				check(receiver.AcceptMessage(ctx, message))
				counting.Lock()
				tick()
				counting.Unlock()
			}
		}()
	}
	all.Wait()
}

func reportReal(also string) {
	took := time.Since(from).Seconds()
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	fmt.Printf(`{"count": %d, "seconds": %f, "cpu_user": %f, "cpu_sys": %f%s}`+"\n", *count, took,
		seconds(u.Utime)-seconds(fromUsage.Utime), seconds(u.Stime)-seconds(fromUsage.Stime), also)
}

// real does what real_clients.py asks for.
func real(ctx context.Context, session *amqp.Session, address string) {
	attachSender := func(address string) *amqp.Sender {
		options := &amqp.SenderOptions{SettlementMode: amqp.SenderSettleModeUnsettled.Ptr()}
		sender, err := session.NewSender(ctx, address, options)
		check(err)
		return sender
	}
	attachReceiver := func() *amqp.Receiver {
		receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Credit: inFlight})
		check(err)
		return receiver
	}
	also := ""
	switch *mode {
	case "order-send":
		made := load()
		var before, after syscall.Rusage
		syscall.Getrusage(syscall.RUSAGE_SELF, &before)
		for number := range made.Orders {
			_, err := json.Marshal(made.Orders[number].Order)
			check(err)
			_ = fmt.Sprintf("order-%012d", number)
		}
		syscall.Getrusage(syscall.RUSAGE_SELF, &after)
		spent := seconds(after.Utime) - seconds(before.Utime) + seconds(after.Stime) - seconds(before.Stime)
		also = fmt.Sprintf(`, "json": %f`, spent*1e6/float64(len(made.Orders)))
		sender := attachSender(address)
		sendReal(ctx, sender, func(number int) *amqp.Message {
			return orderMessage(&made.Orders[number%len(made.Orders)], number)
		})
	case "row-send":
		made := load()
		sender := attachSender(address)
		sendReal(ctx, sender, func(number int) *amqp.Message {
			return rowMessage(made.Rows[number%len(made.Rows)], number)
		})
	case "broker-send":
		made := ordersInAdvance()
		sendReal(ctx, attachSender(address), made)
	case "one":
		sender := attachSender(address)
		body := make([]byte, *size)
		took := make([]float64, 0, total)
		for range total {
			began := time.Now()
			check(sender.Send(ctx, amqp.NewMessage(body), nil))
			took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
			tick()
		}
		counted := took[*warmup:]
		slices.Sort(counted)
		also = fmt.Sprintf(`, "p50": %f, "p99": %f`, counted[len(counted)/2], counted[len(counted)*99/100])
	case "relay":
		relay(ctx, attachReceiver(), attachSender("relayed"))
	case "links":
		manyLinks(ctx, session, address)
	default:
		receiver := attachReceiver()
		for range total {
			message, err := receiver.Receive(ctx, nil)
			check(err)
			switch *mode {
			case "order-receive", "broker-receive":
				readOrder(message)
			default:
				readRow(message)
			}
			check(receiver.AcceptMessage(ctx, message))
			tick()
		}
	}
	reportReal(also)
}
