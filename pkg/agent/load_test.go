package agent_test

import (
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/agent"
)

func TestSmoke(t *testing.T) {
	dir := unpack(t, "testdata/load/publisher.txtar")
	p, err := agent.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(p.Warnings, p.Agents[0].Revision(), p.Groups)
}
