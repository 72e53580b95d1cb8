package client

import (
	"context"
	"encoding/json"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// defaultName is what the server shows for a client without a name.
const defaultName = "crumbmesh-client"

// Config says how to reach a mesh.
type Config struct {
	Server string // URL of NATS; mesh.DefaultServer when empty
	Access mesh.Access
	Name   string // shown by the server
}

// Client speaks to a mesh.
type Client struct {
	conn *mesh.Conn
	own  bool // the connection ends with the client
}

// Connect connects to a mesh. It fails with UNAVAILABLE when no server answers
// and INVALID_CONFIG when a key cannot be read; afterwards it reconnects for ever.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	conn, err := mesh.Connect(ctx, mesh.ConnectConfig{Server: cfg.Server, Access: cfg.Access, Name: cfg.Name})
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, own: true}, nil
}

// New returns a client on a connection that stays the caller's.
func New(conn *mesh.Conn) *Client { return &Client{conn: conn} }

// Close closes the connection that Connect made. What is being followed ends with
// UNAVAILABLE; no run does.
func (c *Client) Close() {
	if c.own {
		c.conn.Close()
	}
}

// request asks an endpoint. A body that no message carries is PAYLOAD_TOO_LARGE.
func (c *Client) request(ctx context.Context, subject string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.InvalidMessage, err, "%s: the body cannot be written as JSON: %v", subject, err)
	}
	if len(body) > mesh.PayloadMax {
		return fault.New(fault.PayloadTooLarge, "%s: %d bytes > limit %d; store large values as files and send their names", subject, len(body), mesh.PayloadMax)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err = c.conn.Request(ctx, subject, json.RawMessage(body), out)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// encode writes a value of the application as JSON, nil as nothing.
func encode(what string, v any) (json.RawMessage, error) {
	if v == nil {
		return nil, nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidInput, err, "%s cannot be written as JSON: %v", what, err)
	}
	return body, nil
}

// Agents lists the agents that are applied.
func (c *Client) Agents(ctx context.Context) (crumbs.AgentsListReply, error) {
	var reply crumbs.AgentsListReply
	err := c.request(ctx, crumbs.EndpointAgentsList, struct{}{}, &reply)
	return reply, err
}

// Agent returns an agent's definition as pkg/agent encodes it; of the current
// revision when none is named. It fails with AGENT_NOT_FOUND.
func (c *Client) Agent(ctx context.Context, agent crumbs.AgentID, revision string) (json.RawMessage, error) {
	var reply json.RawMessage
	err := c.request(ctx, crumbs.EndpointAgentsGet, crumbs.AgentGet{AgentID: agent, Revision: revision}, &reply)
	return reply, err
}

// Apply replaces the project by a whole new one: all of it, or nothing and an
// INVALID_CONFIG that names every fault.
func (c *Client) Apply(ctx context.Context, project crumbs.AgentsApply) (crumbs.AgentsApplyReply, error) {
	var reply crumbs.AgentsApplyReply
	err := c.request(ctx, crumbs.EndpointAgentsApply, project, &reply)
	return reply, err
}

// Tools lists the tools that workers announced.
func (c *Client) Tools(ctx context.Context) (crumbs.ToolsListReply, error) {
	var reply crumbs.ToolsListReply
	err := c.request(ctx, crumbs.EndpointToolsList, struct{}{}, &reply)
	return reply, err
}
