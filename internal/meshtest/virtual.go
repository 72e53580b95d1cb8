package meshtest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Servers of one process share a clock goroutine. It belongs to the bubble of
// whichever server started first, and its time is that bubble's. So a server in
// virtual time and any other server never run at once: a test in virtual time
// waits until it is alone, others wait until it is done.
var alone = newTurns()

type turns struct {
	mu      sync.Mutex
	changed *sync.Cond
	real    int  // servers in real time
	virtual bool // a test in virtual time runs
}

func newTurns() *turns {
	t := &turns{}
	t.changed = sync.NewCond(&t.mu)
	return t
}

func (t *turns) enterReal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.virtual {
		t.changed.Wait()
	}
	t.real++
}

func (t *turns) leaveReal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.real--
	t.changed.Broadcast()
}

func (t *turns) enterVirtual() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.virtual || t.real > 0 {
		t.changed.Wait()
	}
	t.virtual = true
}

func (t *turns) leaveVirtual() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.virtual = false
	t.changed.Broadcast()
}

// Virtual is synctest.Test for tests that start servers (with Start) inside. They
// must close connections and stop the server before they return; Bubble does.
//
// Inside, use Flush and NextMsg of nats.go only with a context: their plain forms
// share a pool of timers with the rest of the process, and a bubble's timer must
// not serve outside of it. What nats.go itself takes from there, to drain
// subscriptions, is collected before the next test may find it.
func Virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	alone.enterVirtual()
	defer alone.leaveVirtual()
	defer emptyPools()
	synctest.Test(t, test)
}

// emptyPools collects what lies in any sync.Pool, which takes two generations.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// virtualYear is where a bubble's clock starts.
const virtualYear = 2000

// inBubble reports whether the caller is in virtual time.
func inBubble() bool { return time.Now().UTC().Year() < virtualYear+20 }

// Bubble runs test in virtual time on a mesh of its own, whose connections and
// server are gone when it ends.
func Bubble(t *testing.T, test func(t *testing.T, m *Mesh), opts ...Option) {
	t.Helper()
	Virtual(t, func(t *testing.T) {
		m := Start(t, opts...)
		defer m.close()
		test(t, m)
	})
}

// Real holds back tests in virtual time until t ends: for a test that starts a
// server by other means than Start.
func Real(t testing.TB) {
	alone.enterReal()
	t.Cleanup(alone.leaveReal)
}
