package process

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// /livez says that the process runs, /readyz why it does not serve.
func TestProbe_ReadyIsNotLive(t *testing.T) {
	t.Parallel()
	var health error
	handler := probeHandler(func() error { return health }, nil)
	ask := func(path string) (int, string) {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer.Code, answer.Body.String()
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if code, body := ask(path); code != http.StatusOK || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	health = errors.Join(fault.New(fault.Unavailable, "a"), fault.New(fault.Unavailable, "b"))
	if code, body := ask("/readyz"); code != http.StatusServiceUnavailable || body != "UNAVAILABLE: a\nUNAVAILABLE: b\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, _ := ask("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d, although the process runs", code)
	}
	if code, _ := ask("/metrics"); code != http.StatusNotFound {
		t.Errorf("/metrics: %d, expected 404: there are none", code)
	}
}

// An address that is none is told as such, not as one that is taken.
func TestListen_AddressThatIsNone(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"nonsense", "127.0.0.1:99999", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:-1"} {
		_, err := Listen("CRUMB_HTTP", address, func() error { return nil }, nil)
		if fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), "CRUMB_HTTP \""+address+"\": expected HOST:PORT") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
