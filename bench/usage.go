package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// cpu is the processor time this process has used, user and system.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic("getrusage of this process: " + err.Error())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// Machine says where numbers come from.
type Machine struct {
	OS         string `json:"os"`
	CPUs       int    `json:"cpus"`
	Go         string `json:"go"`
	NATS       string `json:"natsServer"`
	LoadBefore string `json:"loadBefore"` // averages over 1, 5 and 15 minutes
	LoadAfter  string `json:"loadAfter"`
}

func machine() Machine {
	return Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), NATS: server.VERSION, LoadBefore: loadAverage()}
}

// loadAverage is "" where the system does not tell.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.Join(strings.Fields(string(b))[:3], " ")
}

// ticksPerSecond is the unit of /proc/<pid>/stat on every Linux that Go runs on.
const ticksPerSecond = 100

// usageOf reads the processor time and resident bytes of another process.
func usageOf(pid int) (used time.Duration, resident int64, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("this row needs /proc: %w", err)
	}
	// The second field, the name, may hold spaces; it ends with the last parenthesis.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const utime, stime, rss = 11, 12, 21 // after the name
	if len(fields) <= rss {
		return 0, 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var n [3]int64
	for i, f := range []int{utime, stime, rss} {
		if n[i], err = strconv.ParseInt(fields[f], 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(n[0]+n[1]) * time.Second / ticksPerSecond, n[2] * int64(os.Getpagesize()), nil
}
