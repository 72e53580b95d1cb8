package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a killed `crumb dev` leaves behind must not serve beside the worker of the next
// one: a worker that the group's command started, a grandchild, drains and ends.
func TestDev_KilledTakesItsWorkersWithIt(t *testing.T) {
	t.Parallel()
	d := startDev(t, unpacked(t, `
-- crumb.yaml --
groups:
  shell: {command: [sh, -c, 'exec 3<&0; saying one <&3 & echo pid $!; wait']}
-- agents/sayer/agent.yaml --
model: {provider: script, model: main}
-- agents/sayer/scripts/main.yaml --
turns: [{toolCalls: [{name: tool_say}]}, {text: "{{ .results.tool_say }}"}]
-- agents/sayer/tools/say.yaml --
worker: {group: shell, tool: say}
`))
	_, number, _ := strings.Cut(d.says("[shell] pid "), "pid ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	if end := d.run(d.connected(), "sayer", "before"); string(end.Output) != `"one"` {
		t.Errorf("it does not serve: %+v", end)
	}
	if !running(pid) {
		t.Fatalf("%d is not the worker", pid)
	}
	if err := d.cmd.Process.Kill(); err != nil { // kill -9
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // says that it was killed
	for deadline := time.Now().Add(patience); running(pid); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("the worker %d still runs", pid)
		}
	}
}

// running reports whether a process runs; a zombie does not.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
