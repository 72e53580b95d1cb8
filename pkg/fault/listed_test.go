package fault_test

import (
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// A code that a program of somebody's own gives stays readable, under one of the
// catalogue.
func TestListed(t *testing.T) {
	t.Parallel()
	known := fault.New(fault.ToolDenied, "no")
	if known.Listed(fault.ToolError) != known {
		t.Error("a code of the catalogue does not stay")
	}
	own := fault.New("SHOP_CLOSED", "come back").Listed(fault.HookError)
	if own.Code != fault.HookError || own.Message != "SHOP_CLOSED: come back" || own.Context["code"] != "SHOP_CLOSED" {
		t.Errorf("%+v", own)
	}
	if none := (&fault.Error{Message: "what"}).Listed(fault.ToolError); none.Code != fault.ToolError || none.Message != "what" {
		t.Errorf("%+v", none)
	}
}
