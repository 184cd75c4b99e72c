// go-amqp: send and receive. The words and answers are in ../README.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	check(err)
	return n
}

func say(line any) {
	check(json.NewEncoder(os.Stdout).Encode(line))
}

func body(n, size int) []byte {
	text := fmt.Sprintf("message %d", n)
	return []byte(text + strings.Repeat("x", max(0, size-len(text))))
}

func outcome(state amqp.DeliveryState) string {
	switch state.(type) {
	case *amqp.StateAccepted:
		return "accepted"
	case *amqp.StateRejected:
		return "rejected"
	case *amqp.StateReleased:
		return "released"
	case *amqp.StateModified:
		return "modified"
	}
	return fmt.Sprint(state)
}

func send(ctx context.Context, session *amqp.Session, address string, count, size int) {
	sender, err := session.NewSender(ctx, address, nil)
	check(err)
	receipts := make([]amqp.SendReceipt, 0, count)
	for n := range count {
		receipt, err := sender.SendWithReceipt(ctx, amqp.NewMessage(body(n, size)), nil)
		check(err)
		receipts = append(receipts, receipt)
	}
	for _, receipt := range receipts {
		state, err := receipt.Wait(ctx)
		check(err)
		say(map[string]any{"outcome": outcome(state)})
	}
	check(sender.Close(ctx))
}

func receive(ctx context.Context, session *amqp.Session, address string, count int, end string) {
	receiver, err := session.NewReceiver(ctx, address, &amqp.ReceiverOptions{Credit: -1})
	check(err)
	check(receiver.IssueCredit(uint32(count)))
	for range count {
		message, err := receiver.Receive(ctx, nil)
		check(err)
		data := message.GetData()
		var failed uint32
		if message.Header != nil {
			failed = message.Header.DeliveryCount
		}
		say(map[string]any{"body": string(data[:min(20, len(data))]), "size": len(data), "deliveryCount": failed})
		switch end {
		case "accept":
			err = receiver.AcceptMessage(ctx, message)
		case "reject":
			err = receiver.RejectMessage(ctx, message, &amqp.Error{Condition: "test:rejected", Description: "not wanted"})
		case "release":
			err = receiver.ReleaseMessage(ctx, message)
		default:
			err = receiver.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true})
		}
		check(err)
	}
	check(receiver.Close(ctx))
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	command, address, count, last := os.Args[1], os.Args[3], number(os.Args[4]), os.Args[5]
	at, err := url.Parse(os.Args[2])
	check(err)
	options := &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous()}
	if at.User != nil {
		password, _ := at.User.Password()
		options.SASLType = amqp.SASLTypePlain(at.User.Username(), password)
	}
	at.User = nil
	conn, err := amqp.Dial(ctx, at.String(), options)
	check(err)
	session, err := conn.NewSession(ctx, nil)
	check(err)
	if command == "send" {
		send(ctx, session, address, count, number(last))
	} else {
		receive(ctx, session, address, count, last)
	}
	check(conn.Close())
	say(map[string]any{"done": true})
}
