package worker_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/argument"
	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
	"github.com/crumbmesh/crumbmesh/pkg/tool/worker"
)

func hashOf(t *testing.T, args string) string {
	t.Helper()
	h, err := argument.Hash(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// approve makes a call one that a person approved.
func approve(change ...func(*crumbs.Decision)) func(*crumbs.ToolCall) {
	return func(c *crumbs.ToolCall) {
		d := crumbs.Decision{Type: crumbs.TypeDecision, RunID: c.RunID, CheckpointID: c.CallID, ToolCallID: c.CallID, ArgsHash: c.ArgsHash,
			Outcome: crumbs.DecideApprove, By: crumbs.Principal{Issuer: "i", Subject: "s"}, Via: "cli", Signature: "good"}
		for _, f := range change {
			f(&d)
		}
		c.Permission = crumbs.Permission{Verdict: crumbs.VerdictApproved, Decision: &d}
	}
}

// edited is an approval with other arguments than the question's.
func edited(t *testing.T, args string) func(*crumbs.ToolCall) {
	return approve(func(d *crumbs.Decision) { d.Args, d.ArgsHash = json.RawMessage(args), hashOf(t, `{"n":999}`) })
}

// An approval is bound to what really runs.
func TestWorker_ChecksThePermissionAgain(t *testing.T) {
	t.Parallel()
	type change = func(*crumbs.ToolCall)
	for name, tc := range map[string]struct {
		change change
		code   fault.Code // "" = runs
		say    string
	}{
		"allowed":                 {func(*crumbs.ToolCall) {}, "", ""},
		"approved":                {approve(), "", ""},
		"approved, no toolCallId": {approve(func(d *crumbs.Decision) { d.ToolCallID = "" }), "", ""},
		"edited":                  {edited(t, `{"n":7}`), "", ""},
		"edited, defaults left":   {edited(t, `{}`), "", ""}, // n is 7 by default
		"edited, other arguments": {edited(t, `{"n":8}`), fault.DecisionInvalid, "arguments"},
		"edited, no arguments":    {edited(t, `[]`), fault.DecisionInvalid, "arguments"},
		"other arguments":         {approve(func(d *crumbs.Decision) { d.ArgsHash = hashOf(t, `{"n":8}`) }), fault.DecisionInvalid, "other arguments"},
		"args changed, hash too": {func(c *crumbs.ToolCall) {
			approve()(c)
			c.Args, c.ArgsHash = json.RawMessage(`{"n":8}`), hashOf(t, `{"n":8}`)
		}, fault.DecisionInvalid, "other arguments"},
		"args changed, hash not":   {func(c *crumbs.ToolCall) { approve()(c); c.Args = json.RawMessage(`{"n":8}`) }, fault.InvalidMessage, "argsHash"},
		"allowed, hash wrong":      {func(c *crumbs.ToolCall) { c.ArgsHash = "0" }, fault.InvalidMessage, "argsHash"},
		"rejected":                 {approve(func(d *crumbs.Decision) { d.Outcome = crumbs.DecideReject }), fault.DecisionInvalid, "reject"},
		"answer":                   {approve(func(d *crumbs.Decision) { d.Outcome = crumbs.DecideAnswer }), fault.DecisionInvalid, "answer"},
		"other run":                {approve(func(d *crumbs.Decision) { d.RunID = "run_2" }), fault.DecisionInvalid, "another run"},
		"other checkpoint":         {approve(func(d *crumbs.Decision) { d.CheckpointID = "run_1.1.9" }), fault.DecisionInvalid, "another call"},
		"other call":               {approve(func(d *crumbs.Decision) { d.ToolCallID = "run_1.1.9" }), fault.DecisionInvalid, "another call"},
		"signature":                {approve(func(d *crumbs.Decision) { d.Signature = "bad" }), fault.DecisionInvalid, "signature"},
		"no decision":              {func(c *crumbs.ToolCall) { c.Permission.Verdict = crumbs.VerdictApproved }, fault.DecisionInvalid, "no decision"},
		"no verdict":               {func(c *crumbs.ToolCall) { c.Permission.Verdict = "" }, fault.ToolDenied, "verdict"},
		"verdict ask":              {func(c *crumbs.ToolCall) { c.Permission.Verdict = "ask" }, fault.ToolDenied, `"ask"`},
		"arguments off the schema": {func(c *crumbs.ToolCall) { c.Args, c.ArgsHash = json.RawMessage(`{"n":"x"}`), hashOf(t, `{"n":"x"}`) }, fault.InvalidArguments, "n must be an integer"},
		"unsafe number":            {func(c *crumbs.ToolCall) { c.Args = json.RawMessage(`{"n":9007199254740993}`) }, fault.InvalidArguments, "string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := counting("pay", crumbs.EffectOnce, double)
			req := call(t, c.Tool, `{"n":7}`, tc.change)
			err := worker.Admit(req, c.Tool, verify)
			if fault.CodeOf(err) != tc.code {
				t.Fatalf("got %v, want %q", err, tc.code)
			}
			if tc.code != "" && !strings.Contains(err.Error(), tc.say) {
				t.Errorf("message %q does not say %q", err, tc.say)
			}
		})
	}
	t.Run("no key", func(t *testing.T) {
		t.Parallel()
		c := counting("pay", crumbs.EffectOnce, double)
		if err := worker.Admit(call(t, c.Tool, `{"n":7}`, approve()), c.Tool, nil); fault.CodeOf(err) != fault.DecisionInvalid {
			t.Errorf("a worker without a key took an approval: %v", err)
		}
	})
}

// A refused call is answered once, holds the claim, and never reaches the handler.
func TestWorker_RefusedCallNeverRuns(t *testing.T) {
	t.Parallel()
	inLab(t, func(t *testing.T, l *lab) {
		missing := fault.New(fault.CredentialMissing, "TOKEN is not set")
		c := counting("pay", crumbs.EffectOnce, double, tool.Ready(func(ctx tool.Context) error {
			if ctx.CallID == "run_1.1.1" {
				return missing
			}
			return nil
		}))
		l.serve(worker.Config{}, c.Tool)
		for i, tc := range []struct {
			change func(*crumbs.ToolCall)
			code   fault.Code
		}{
			{approve(func(d *crumbs.Decision) { d.Signature = "bad" }), fault.DecisionInvalid},
			{func(*crumbs.ToolCall) {}, fault.CredentialMissing},
		} {
			req := call(t, c.Tool, `{"n":7}`, func(c *crumbs.ToolCall) { c.CallID = crumbs.ToolCallID(run, 1, i) }, tc.change)
			l.send(req)
			wantStatus(t, l.result(), crumbs.StatusError, tc.code)
			if claim := l.claim(req); claim.State != mesh.ClaimStarted {
				t.Errorf("claim %+v", claim)
			}
			l.send(req) // a copy
			l.quiet(10 * time.Second)
		}
		c.want(t, 0)
		l.settled()
	})
}
