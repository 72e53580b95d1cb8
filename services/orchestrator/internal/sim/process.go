package sim

import (
	"fmt"
	"iter"
	"time"
)

// killed ends the coroutine of a task whose process crashed.
type killed struct{}

// process is one process of the mesh: it can crash and pause at any await, and
// loses its memory when it crashes.
type process struct {
	w           *world
	name        string
	incarnation int
	up          bool
	downUntil   time.Duration
	pausedUntil time.Duration
	tasks       map[*task]bool
	start       func(*process)
}

func (p *process) id() string { return fmt.Sprintf("%s.%d", p.name, p.incarnation) }

func (w *world) process(name string, start func(*process)) *process {
	p := &process{w: w, name: name, start: start}
	w.processes = append(w.processes, p)
	p.boot()
	return p
}

func (p *process) boot() {
	p.incarnation++
	p.up, p.pausedUntil, p.tasks = true, 0, map[*task]bool{}
	p.w.byID[p.id()] = p
	p.start(p)
}

// crash kills the process; it starts again, without memory, after down. One that
// is down already stays so for longer.
func (p *process) crash(down time.Duration, why string) {
	p.downUntil = max(p.downUntil, p.w.now+down)
	if !p.up {
		return
	}
	p.up, p.w.gone[p.id()] = false, p.w.now
	p.w.troubles++
	p.w.logf("%s crashes at %s, back in %s", p.id(), why, down)
	p.stop()
	p.comeBack()
}

func (p *process) comeBack() {
	p.w.after(p.downUntil-p.w.now, func() {
		if p.w.now < p.downUntil {
			p.comeBack()
			return
		}
		p.boot()
	})
}

func (p *process) stop() {
	for t := range p.tasks {
		t.done = true
	}
	for t := range p.tasks { // each only unwinds: their order says nothing
		t.stop()
	}
	p.tasks = nil
}

func (p *process) pause(d time.Duration) {
	if p.up {
		p.pausedUntil, p.w.gone[p.id()] = p.w.now+d, p.w.now
		p.w.troubles++
		p.w.logf("%s is paused for %s", p.id(), d)
	}
}

// task is a coroutine of a process: one slot of a consume loop.
type task struct {
	*process
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	value any
	err   error
	done  bool
}

// spawn starts a task.
func (p *process) spawn(body func(*task)) {
	t := &task{process: p}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			if r := recover(); r != nil && r != (killed{}) {
				panic(r)
			}
		}()
		body(t)
	})
	p.tasks[t] = true
	p.w.after(p.w.between(0, 200*time.Microsecond), func() { t.resume(nil, nil) })
}

// resume goes on with what a task waits for; a paused process does so later.
func (t *task) resume(value any, err error) {
	if t.done {
		return
	}
	if t.pausedUntil > t.w.now {
		t.w.after(t.pausedUntil-t.w.now, func() { t.resume(value, err) })
		return
	}
	t.value, t.err = value, err
	if _, ok := t.next(); !ok {
		t.done = true
		delete(t.tasks, t)
	}
}

// park waits for resume.
func (t *task) park() (any, error) {
	t.rest()
	return t.value, t.err
}

// rest is park for who expects no answer.
func (t *task) rest() {
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
}

func (t *task) sleep(d time.Duration) {
	t.w.after(d, func() { t.resume(nil, nil) })
	t.rest()
}

// line is a place between two lines of the protocol, where a process may crash.
func (t *task) line(name string) {
	w := t.w
	if w.calm || !w.chance(w.cfg.Faults.Crash) {
		return
	}
	down := w.between(200*time.Millisecond, 6*time.Second)
	if w.chance(w.cfg.Faults.LongDown) {
		down = w.between(130*time.Second, 400*time.Second)
	}
	p := t.process
	w.after(0, func() { p.crash(down, name) })
	t.rest() // for good
}

// request lets the server do op: the request or its answer may be lost, and a
// lost request may arrive much later.
func (t *task) request(what string, op func() (any, error)) (any, error) {
	w := t.w
	there, back := w.between(50*time.Microsecond, 800*time.Microsecond), w.between(50*time.Microsecond, 800*time.Microsecond)
	if w.calm || !w.chance(w.cfg.Faults.Loss) {
		w.after(there, func() {
			value, err := op()
			w.after(back, func() { t.resume(value, err) })
		})
		return t.park()
	}
	w.troubles++
	switch {
	case w.chance(w.cfg.Faults.Late):
		late := w.between(100*time.Second, 500*time.Second)
		w.logf("%s: request %q is %s late", t.id(), what, late)
		w.after(late, func() { _, _ = op() })
	case w.chance(0.5):
		w.logf("%s: answer of %q is lost", t.id(), what)
		w.after(there, func() { _, _ = op() })
	default:
		w.logf("%s: request %q is lost", t.id(), what)
	}
	w.after(requestTimeout, func() { t.resume(nil, errTimeout) })
	return t.park()
}

// locks lets one task of a process at a time handle a run.
type locks map[string][]*task

func (l locks) lock(t *task, run string) {
	waiting, held := l[run]
	if !held {
		l[run] = nil
		return
	}
	l[run] = append(waiting, t)
	t.rest()
}

func (l locks) unlock(w *world, run string) {
	waiting := l[run]
	if len(waiting) == 0 {
		delete(l, run)
		return
	}
	l[run] = waiting[1:]
	w.after(0, func() { waiting[0].resume(nil, nil) })
}
