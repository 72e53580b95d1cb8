package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Version of the services on the bus, as `nats micro ls` shows it.
const Version = "0.1.0"

const (
	endpointTimeout  = 10 * time.Second
	endpointInFlight = 64 // requests of one endpoint worked on at once
	errorCodeHeader  = "Nats-Service-Error-Code"
	errorHeader      = "Nats-Service-Error"
)

// Endpoint answers requests on subject `crumbmesh.<noun>.<Name>`.
type Endpoint struct {
	Name   string
	Handle func(ctx context.Context, body json.RawMessage) (any, error)
}

// Service is a running micro service.
type Service struct {
	conn  *Conn
	micro micro.Service
	slots []chan struct{} // of each endpoint; a request that is worked on has a place
}

// Stop takes no more requests and returns when those in hand are answered: their
// callers have no other way to learn what was done. Without a connection no answer can
// reach them, and nothing is waited for.
func (s *Service) Stop() error {
	err := s.micro.Stop()
	if !s.conn.NATS.IsConnected() {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), endpointTimeout)
	defer cancel()
	if flushed := s.conn.NATS.FlushWithContext(ctx); flushed != nil { // from here on no request comes
		return errors.Join(err, flushed)
	}
	for _, slots := range s.slots {
		for range cap(slots) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done(): // no handler has longer
				return err
			}
		}
	}
	return err
}

// Serve makes the endpoints of a noun a NATS micro service `crumbmesh-<noun>`
// until Stop. Errors are answered with the fault's code in the headers and the
// fault as body.
func (c *Conn) Serve(noun, description string, endpoints ...Endpoint) (*Service, error) {
	svc, err := micro.AddService(c.NATS, micro.Config{Name: "crumbmesh-" + noun, Version: Version, Description: description})
	if err != nil {
		return nil, fault.From(err)
	}
	out := &Service{conn: c, micro: svc}
	group := svc.AddGroup("crumbmesh." + noun)
	for _, e := range endpoints {
		slots := make(chan struct{}, endpointInFlight)
		out.slots = append(out.slots, slots)
		h := func(req micro.Request) {
			slots <- struct{}{}
			subject, reply, header, body := req.Subject(), req.Reply(), nats.Header(req.Headers()), req.Data()
			go func() {
				defer func() { <-slots }()
				c.answer(e, subject, reply, header, body)
			}()
		}
		if err := group.AddEndpoint(strings.ReplaceAll(e.Name, ".", "_"), micro.HandlerFunc(h), micro.WithEndpointSubject(e.Name)); err != nil {
			return nil, fault.From(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	if err := c.NATS.FlushWithContext(ctx); err != nil { // the server knows the endpoints before anybody is told
		return nil, unavailable(err, "endpoints of "+noun)
	}
	return out, nil
}

// answer works on one request outside of micro's handler, which reads its request
// after it returned: so the reply is published here.
func (c *Conn) answer(e Endpoint, subject, reply string, header nats.Header, body []byte) {
	ctx, cancel := context.WithTimeout(ExtractTrace(context.Background(), header), endpointTimeout)
	defer cancel()
	if reply != "" && header.Get(pingHeader) != "" {
		c.pinged(reply)
		return
	}
	msg := &nats.Msg{Subject: reply}
	out, err := c.guardEndpoint(ctx, e, body)
	if err == nil {
		msg.Data, err = json.Marshal(out)
	}
	if err != nil {
		f := fault.From(err)
		msg.Header = nats.Header{errorCodeHeader: {string(f.Code)}, errorHeader: {headerText(f.Message)}}
		if msg.Data, err = json.Marshal(f); err != nil {
			msg.Data = []byte("{}") // a fault's context that does not encode is left out
		}
		if f.Code == fault.InternalError {
			c.Log.Error("endpoint", "subject", subject, "error", errors.Unwrap(f))
		}
	}
	if reply == "" {
		return
	}
	if err := c.NATS.PublishMsg(msg); err != nil {
		c.Log.Warn("answer", "subject", subject, "error", err)
		c.tooLarge(reply, len(msg.Data), err)
	}
}

// tooLarge tells the caller that the answer did not fit, instead of leaving it to
// wait.
func (c *Conn) tooLarge(reply string, bytes int, cause error) {
	f := fault.Wrap(fault.PayloadTooLarge, cause, "the answer has %d bytes, more than NATS takes", bytes)
	body, err := json.Marshal(f)
	if err == nil {
		err = c.NATS.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{errorCodeHeader: {string(f.Code)}, errorHeader: {headerText(f.Message)}}, Data: body})
	}
	if err != nil {
		c.Log.Warn("answer", "subject", reply, "error", err)
	}
}

func (c *Conn) guardEndpoint(ctx context.Context, e Endpoint, body []byte) (out any, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.Log.Error("panic", "endpoint", e.Name, "panic", r)
			err = fault.New(fault.InternalError, "the endpoint %s panicked", e.Name)
		}
	}()
	if len(body) == 0 {
		body = []byte("{}")
	}
	return e.Handle(ctx, body)
}

// Request asks an endpoint and decodes its answer into out. The fault of the
// endpoint is returned as it is; UNAVAILABLE when nobody serves it.
func (c *Conn) Request(ctx context.Context, subject string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fault.From(err)
	}
	msg := &nats.Msg{Subject: subject, Data: body}
	InjectTrace(ctx, msg)
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	ctx, done := c.refusable(ctx, subject)
	defer done()
	reply, err := c.NATS.RequestMsgWithContext(ctx, msg)
	if err != nil && fault.CodeOf(context.Cause(ctx)) == fault.PermissionsViolation {
		return context.Cause(ctx)
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return fault.Wrap(fault.Unavailable, err, "nobody serves %s; is the mesh running?", subject)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		return fault.Wrap(fault.PayloadTooLarge, err, "%s: the request has %d bytes, NATS takes %d; store large values elsewhere and send a reference", subject, len(body), c.NATS.MaxPayload())
	}
	if err != nil {
		return unavailable(err, subject)
	}
	if len(reply.Header[errorCodeHeader]) > 0 {
		f := &fault.Error{}
		if json.Unmarshal(reply.Data, f) != nil || f.Code == "" {
			f = fault.New(fault.Code(reply.Header.Get(errorCodeHeader)), "%s", reply.Header.Get(errorHeader))
		}
		return f
	}
	if err := json.Unmarshal(reply.Data, out); err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "%s: the answer is not what was expected", subject)
	}
	return nil
}
