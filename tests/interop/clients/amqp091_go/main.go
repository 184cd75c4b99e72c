// amqp091-go: what a program of AMQP 0-9-1 does. The words and answers are in ../README.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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

func say(line map[string]any) {
	check(json.NewEncoder(os.Stdout).Encode(line))
}

func body(n, size int) []byte {
	text := fmt.Sprintf("message %d", n)
	return []byte(text + strings.Repeat("x", max(0, size-len(text))))
}

func declare(channel *amqp.Channel, queue string) {
	_, err := channel.QueueDeclare(queue, false, false, false, false, nil)
	check(err)
}

func publish(ctx context.Context, channel *amqp.Channel, queue string, count, size int) {
	declare(channel, queue)
	check(channel.Confirm(false))
	confirmations := make([]*amqp.DeferredConfirmation, 0, count)
	for n := range count {
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(
			ctx, "", queue, false, false, amqp.Publishing{Body: body(n, size), DeliveryMode: amqp.Persistent})
		check(err)
		confirmations = append(confirmations, confirmation)
	}
	for _, confirmation := range confirmations {
		confirmed, err := confirmation.WaitContext(ctx)
		check(err)
		say(map[string]any{"tag": confirmation.DeliveryTag, "confirmed": confirmed})
	}
}

func consume(ctx context.Context, channel *amqp.Channel, queue string, count int, end string) {
	declare(channel, queue)
	check(channel.Qos(2, 0, false))
	deliveries, err := channel.ConsumeWithContext(ctx, queue, "reader", false, false, false, false, nil)
	check(err)
	for range count {
		delivery := <-deliveries
		say(map[string]any{
			"body": string(delivery.Body[:min(20, len(delivery.Body))]), "size": len(delivery.Body),
			"redelivered": delivery.Redelivered,
		})
		switch end {
		case "ack":
			err = delivery.Ack(false)
		case "nack":
			err = delivery.Nack(false, false)
		default:
			err = delivery.Reject(false)
		}
		check(err)
	}
	check(channel.Cancel("reader", false))
	if delivery, more := <-deliveries; more {
		log.Fatalf("one more: %s", delivery.Body)
	}
}

// Mandatory messages for nobody: what is returned, and what is confirmed after that.
func unroutable(ctx context.Context, channel *amqp.Channel, exchange string, count int) {
	check(channel.Confirm(false))
	returns := channel.NotifyReturn(make(chan amqp.Return, count))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, count))
	for n := range count {
		check(channel.PublishWithContext(ctx, exchange, "nobody", true, false, amqp.Publishing{Body: body(n, 0)}))
	}
	for range count {
		returned, confirmation := <-returns, <-confirms
		say(map[string]any{
			"code": returned.ReplyCode, "exchange": returned.Exchange, "body": string(returned.Body),
			"tag": confirmation.DeliveryTag, "confirmed": confirmation.Ack,
		})
	}
}

func transact(ctx context.Context, channel *amqp.Channel, queue string, count int, end string) {
	declare(channel, queue)
	check(channel.Tx())
	for n := range count {
		check(channel.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: body(n, 0)}))
	}
	if end == "commit" {
		check(channel.TxCommit())
	} else {
		check(channel.TxRollback())
	}
}

// A topic exchange with two queues, bound and unbound; messages are fetched one by one.
func route(ctx context.Context, channel *amqp.Channel, exchange string, count int) {
	check(channel.ExchangeDeclare(exchange, amqp.ExchangeTopic, false, true, false, false, nil))
	queues := make([]string, 0, 2)
	for _, key := range []string{"*.error", "#"} {
		queue, err := channel.QueueDeclare("", false, true, true, false, nil)
		check(err)
		check(channel.QueueBind(queue.Name, key, exchange, false, nil))
		queues = append(queues, queue.Name)
	}
	check(channel.Confirm(false))
	for n := range count {
		key := []string{"db.error", "db.info"}[n%2]
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, false, false,
			amqp.Publishing{Body: body(n, 0), Headers: amqp.Table{"n": int32(n), "nested": amqp.Table{"list": []any{true, "two"}}}})
		check(err)
		confirmation.Wait()
	}
	for place, queue := range queues {
		for {
			delivery, there, err := channel.Get(queue, true)
			check(err)
			if !there {
				break
			}
			say(map[string]any{
				"queue": place, "key": delivery.RoutingKey, "left": delivery.MessageCount, "headers": delivery.Headers,
			})
		}
	}
	check(channel.QueueUnbind(queues[1], "#", exchange, nil))
	_, err := channel.QueueDelete(queues[0], false, false, false)
	check(err)
	err = channel.ExchangeDeclarePassive(exchange, amqp.ExchangeTopic, false, true, false, false, nil)
	var refusal *amqp.Error
	if !errors.As(err, &refusal) {
		log.Fatalf("the exchange should be gone: %v", err)
	}
	say(map[string]any{"code": refusal.Code})
}

func declareStream(channel *amqp.Channel, stream string) {
	_, err := channel.QueueDeclare(stream, true, false, false, false, amqp.Table{"x-queue-type": "stream"})
	check(err)
}

// A stream with so many messages, each confirmed before the next, so that each is a chunk.
func fill(ctx context.Context, channel *amqp.Channel, stream string, first, count int) {
	declareStream(channel, stream)
	check(channel.Confirm(false))
	for n := first; n < first+count; n++ {
		confirmation, err := channel.PublishWithDeferredConfirmWithContext(
			ctx, "", stream, false, false, amqp.Publishing{Body: body(n, 0)})
		check(err)
		confirmation.Wait()
	}
}

// An offset as consumers say it: a word, a number, an interval, or "@" and seconds since 1970.
func offset(text string) any {
	if text[0] == '@' {
		return time.Unix(int64(number(text[1:])), 0)
	}
	if n, err := strconv.Atoi(text); err == nil {
		return int64(n)
	}
	return text
}

// So many messages of a stream from there; with "next" those that are published when the consumer is there.
func read(ctx context.Context, channel *amqp.Channel, stream string, count int, where string) {
	check(channel.Qos(10, 0, false))
	deliveries, err := channel.ConsumeWithContext(
		ctx, stream, "reader", false, false, false, false, amqp.Table{"x-stream-offset": offset(where)})
	check(err)
	if where == "next" {
		fill(ctx, channel, stream, 100, count)
	}
	for range count {
		delivery := <-deliveries
		say(map[string]any{"body": string(delivery.Body), "offset": delivery.Headers["x-stream-offset"]})
		check(delivery.Ack(false))
	}
	check(channel.Cancel("reader", false))
	if delivery, more := <-deliveries; more {
		log.Fatalf("one more: %s", delivery.Body)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	command, name, count, last := os.Args[1], os.Args[3], number(os.Args[4]), os.Args[5]
	conn, err := amqp.Dial(os.Args[2])
	check(err)
	channel, err := conn.Channel()
	check(err)
	switch command {
	case "publish":
		publish(ctx, channel, name, count, number(last))
	case "consume":
		consume(ctx, channel, name, count, last)
	case "unroutable":
		unroutable(ctx, channel, name, count)
	case "transact":
		transact(ctx, channel, name, count, last)
	case "route":
		route(ctx, channel, name, count)
	case "fill":
		fill(ctx, channel, name, 0, count)
	case "read":
		read(ctx, channel, name, count, last)
	}
	check(conn.Close())
	say(map[string]any{"done": true})
}
