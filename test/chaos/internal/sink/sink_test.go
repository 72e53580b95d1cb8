package sink_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/crumbmesh/crumbmesh/test/chaos/internal/sink"
)

func post(t *testing.T, url, key, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set(sink.KeyHeader, key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// Every execution counts, also the second of one call: that is what is looked for.
func TestSink_CountsEveryExecution(t *testing.T) {
	t.Parallel()
	s, err := sink.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, key := range []string{"", "r.1.0", "r.1.0"} {
		if code := post(t, s.URL, key, `{"tool":"pay","call":"r.1.0","args":{"cents":1}}`); code != http.StatusCreated {
			t.Fatalf("answered %d", code)
		}
	}
	if code := post(t, s.URL, "", `{`); code != http.StatusBadRequest {
		t.Errorf("no JSON: answered %d", code)
	}
	all := s.Effects()
	if len(all) != 3 || all[0].Key != "" || all[2].Key != "r.1.0" || all[2].Call != "r.1.0" || string(all[2].Args) != `{"cents":1}` || all[2].At.IsZero() {
		t.Errorf("got %+v", all)
	}
}
