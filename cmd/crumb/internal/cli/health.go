package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

const (
	// healthTimeout bounds one question: a probe that hangs is a probe that failed.
	healthTimeout = 5 * time.Second
	// healthBytesMax bounds what is read and shown of an answer.
	healthBytesMax = 64 << 10

	readyPath = "/readyz"
	livePath  = "/livez"
)

type healthCommand struct {
	Address string `arg:"" optional:"" env:"CRUMB_HTTP" default:"127.0.0.1:8480" help:"What the process was given as --http: host:port, or a whole URL (default 127.0.0.1:8480)."`
	Live    bool   `help:"Ask whether it lives, not whether it serves."`
}

// health is what `crumb health --json` prints.
type health struct {
	URL string `json:"url"`
	OK  bool   `json:"ok"`
}

// Run asks a service of this machine whether it serves. It fails with UNAVAILABLE,
// exit status 1, saying what the service said: a health check for images that hold
// no other program.
func (cmd healthCommand) Run(i *invocation) error {
	asked, err := cmd.url()
	if err != nil {
		return err
	}
	if err := ask(i.ctx, asked); err != nil {
		return err
	}
	if i.globals.JSON {
		return i.document(health{URL: asked, OK: true})
	}
	return i.print("ok")
}

// url is where to ask. A service that listens everywhere is asked on the loopback.
func (cmd healthCommand) url() (string, error) {
	path := readyPath
	if cmd.Live {
		path = livePath
	}
	if !strings.Contains(cmd.Address, "://") {
		host, port, err := net.SplitHostPort(cmd.Address)
		if err != nil {
			return "", fault.Wrap(fault.InvalidConfig, err, "address %q: expected host:port or a URL, such as 127.0.0.1:8481", cmd.Address)
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		return "http://" + net.JoinHostPort(host, port) + path, nil
	}
	u, err := url.Parse(cmd.Address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", fault.New(fault.InvalidConfig, "address %q: expected host:port or a URL of http or https", cmd.Address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = path
	}
	return u.String(), nil
}

// ask fails unless the answer is 200.
func ask(ctx context.Context, asked string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, asked, http.NoBody)
	if err != nil {
		return fault.Wrap(fault.InvalidConfig, err, "address %s: %v", asked, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "no answer at %s: %v", asked, unwrapped(err))
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	said, err := io.ReadAll(io.LimitReader(answer.Body, healthBytesMax))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "the answer of %s broke off: %v", asked, err)
	}
	if answer.StatusCode != http.StatusOK {
		return fault.New(fault.Unavailable, "%s answers %s: %s", asked, answer.Status, strings.TrimSpace(string(said)))
	}
	return nil
}

// unwrapped is an error of the HTTP client without the method and address that it
// repeats.
func unwrapped(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
