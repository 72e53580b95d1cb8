package crumbs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

func TestReadHookAnswer_WhatAPointTakes(t *testing.T) {
	t.Parallel()
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, c := range []struct {
		point, answer string
		want          *crumbs.HookAnswer
	}{
		{crumbs.HookBeforeRun, `null`, nil},
		{crumbs.HookBeforeRun, ` {} `, nil},
		{crumbs.HookOnError, `{"action":""}`, nil},
		{crumbs.HookOnSuspend, `{"ok":true}`, nil},
		{crumbs.HookBeforeRun, `{"action":"continue","input":null}`, &crumbs.HookAnswer{Action: "continue", Input: raw(`null`)}},
		{crumbs.HookBeforeRun, `{"input":{"a":1}}`, &crumbs.HookAnswer{Action: "continue", Input: raw(`{"a":1}`)}},
		{crumbs.HookBeforeRun, `{"action":"shortCircuit","output":false}`, &crumbs.HookAnswer{Action: "shortCircuit", Output: raw(`false`)}},
		{crumbs.HookAfterRun, `{"output":0}`, &crumbs.HookAnswer{Action: "replace", Output: raw(`0`)}},
		{crumbs.HookOnError, `{"action":"recover","output":""}`, &crumbs.HookAnswer{Action: "recover", Output: raw(`""`)}},
		{crumbs.HookOnError, `{"action":"retry"}`, &crumbs.HookAnswer{Action: "retry"}},
		{crumbs.HookOnError, `{"action":"fail","error":{"message":"no"}}`, &crumbs.HookAnswer{Action: "fail", Error: fault.New(fault.HookError, "no")}},
	} {
		got, err := crumbs.ReadHookAnswer(c.point, raw(c.answer))
		if err != nil {
			t.Errorf("%s %s: %v", c.point, c.answer, err)
		}
		if d := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(fault.Error{})); d != "" {
			t.Errorf("%s %s: %s", c.point, c.answer, d)
		}
	}
}

// What is misunderstood is no consent (F090).
func TestReadHookAnswer_RefusesWhatIsNone_F090(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ point, answer, names string }{
		{crumbs.HookBeforeRun, ``, "no JSON"},
		{crumbs.HookBeforeRun, `false`, "true or false"},
		{crumbs.HookBeforeRun, `[1]`, "an array"},
		{crumbs.HookBeforeRun, `"deny"`, "a string"},
		{crumbs.HookBeforeRun, `{"deny":true}`, "deny"},
		{crumbs.HookBeforeRun, `{"action":"deny"}`, `"deny"`},
		{crumbs.HookBeforeRun, `{"output":1}`, "no action"},
		{crumbs.HookBeforeRun, `{"action":"continue"}`, "lacks its input"},
		{crumbs.HookBeforeRun, `{"action":"continue","input":1,"output":2}`, "output"},
		{crumbs.HookBeforeRun, `{"action":"retry"}`, `"retry"`},
		{crumbs.HookAfterRun, `{"action":"replace"}`, "lacks its output"},
		{crumbs.HookOnError, `{"action":"fail"}`, "lacks its error"},
		{crumbs.HookOnError, `{"action":"fail","error":{}}`, "message"},
		{crumbs.HookOnError, `{"output":1}`, "no action"},
		{"onStart", `null`, "beforeRun"},
	} {
		_, err := crumbs.ReadHookAnswer(c.point, json.RawMessage(c.answer))
		if fault.CodeOf(err) != fault.HookError || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s %s: %v, want HOOK_ERROR naming %s", c.point, c.answer, err, c.names)
		}
	}
}
