package program_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A worker that is killed takes the program with it: what follows in the
// program does not happen beside another worker's attempt.
func TestProgram_DiesWithItsWorker(t *testing.T) {
	t.Parallel()
	life, hold := filepath.Join(t.TempDir(), "life"), filepath.Join(t.TempDir(), "hold")
	for _, path := range []string{life, hold} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	held, err := os.OpenFile(hold, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() }) // a program that lives on ends
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	worker := exec.Command(self, "work", life, hold)
	worker.Stderr = os.Stderr
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	})
	defer kill()

	f, err := os.Open(life) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	said := bufio.NewReader(f)
	if line, err := said.ReadString('\n'); line != "up\n" {
		t.Fatalf("the program said %q, %v", line, err)
	}
	kill()
	// The end of file is the end of the program, the only one that has life open.
	if err := f.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(said); err != nil || len(rest) > 0 {
		t.Errorf("the program lives on: it said %q, %v", rest, err)
	}
}

// The runtime ends a thread when a goroutine ends that is locked to it. That is
// not the death of the worker, whichever thread started the program.
func TestProgram_OutlivesOtherThreads(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var churn, calls sync.WaitGroup
	for range 4 {
		churn.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					runtime.LockOSThread()
					runtime.Gosched()
				}()
				<-ended
			}
		})
	}
	for range 8 {
		calls.Go(func() {
			for range 20 {
				if got, _, err := run(t, sh(`sleep 0.01; echo 1`).Tool("p", "d"), `{}`); err != nil || got != "1" {
					t.Errorf("got %s, %v", got, err)
				}
			}
		})
	}
	calls.Wait()
	close(stop)
	churn.Wait()
}
