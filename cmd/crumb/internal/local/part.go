package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// part is something that runs beside others in the mesh: a service, or a command
// kept running.
type part struct {
	name string
	key  string // of what it serves: the same key, the same part

	cancel context.CancelFunc
	ready  chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	check func() error
	err   error // why it ended before it was told to; set before done is closed
}

// hooks are what a service tells its part.
type hooks struct {
	ready  func()
	health func(check func() error)
}

// begin starts a part. failed is called when it ends before it was told to, but
// after it was ready: what ends before is the answer of up.
func begin(name, key string, run func(context.Context, hooks) error, failed func(error)) *part {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, key: key, cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
	once := sync.OnceFunc(func() { close(p.ready) })
	go func() {
		defer close(p.done)
		err := run(ctx, hooks{ready: once, health: p.takeCheck})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("it ended by itself")
		}
		err = fmt.Errorf("%s: %w", name, err)
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		select {
		case <-p.ready:
			failed(err)
		default:
		}
	}()
	return p
}

func (p *part) takeCheck(check func() error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.check = check
}

// up waits until the part is ready. It returns why it is not.
func (p *part) up(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return p.health()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// health returns why the part does not serve, nil when it does.
func (p *part) health() error {
	p.mu.Lock()
	err, check := p.err, p.check
	p.mu.Unlock()
	if err != nil || check == nil {
		return err
	}
	if err := check(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// stop ends the part and waits until it has drained.
func (p *part) stop() {
	p.cancel()
	<-p.done
}

// over reports whether the part has ended.
func (p *part) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
