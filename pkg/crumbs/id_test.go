package crumbs_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Names that could cross a subject are refused wherever a name is checked.
func TestNames_F162_SubjectSyntaxIsRefused(t *testing.T) {
	t.Parallel()
	checks := map[string]func(string) error{
		"run":     func(s string) error { return crumbs.CheckRunID("run", s) },
		"session": func(s string) error { return crumbs.CheckRunID("session", s) },
		"agent":   crumbs.CheckAgentID,
		"group":   func(s string) error { return crumbs.CheckName("group", s) },
		"tool":    func(s string) error { return crumbs.CheckName("tool", s) },
		"call":    func(s string) error { return crumbs.CheckCallID(crumbs.CallID(s)) },
		"call's run": func(s string) error {
			return crumbs.CheckCallID(crumbs.ToolCallID(crumbs.RunID(s), 1, 0))
		},
	}
	for kind, check := range checks {
		for _, name := range []string{"", "a.b", "*", ">", "x >", "a b", "a\r\nb", "a\n", "a\tb", "a\x00b", "ü", "a/b", "$SYS", strings.Repeat("a", 300)} {
			err := check(name)
			if !errors.Is(err, fault.Of(fault.InvalidName)) {
				t.Errorf("%s %q: got %v, want INVALID_NAME", kind, name, err)
				continue
			}
			if len(err.Error()) > 512 || strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%s %q: the message is long or of two lines: %s", kind, name, err)
			}
		}
	}
}

func TestNames_RightOnesPass(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		crumbs.CheckRunID("run", string(crumbs.NewRunID())), crumbs.CheckRunID("session", string(crumbs.NewSessionID())),
		crumbs.CheckRunID("run", "Order-42_x"), crumbs.CheckRunID("run", strings.Repeat("a", crumbs.RunIDMax)),
		crumbs.CheckAgentID("blog-writer"), crumbs.CheckAgentID(strings.Repeat("a", crumbs.AgentMax)),
		crumbs.CheckName("tool", "read_document"), crumbs.CheckName("tool", strings.Repeat("a", crumbs.NameMax)),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func TestNames_RefusalProposesTheRightSpelling(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"readDocument": "read_document", "read-document": "read_document", "Read Document": "read_document", "read.document": "read_document",
	} {
		if err := crumbs.CheckName("tool", name); err == nil || !strings.Contains(err.Error(), `did you mean "`+want+`"`) {
			t.Errorf("%q: got %v, want a proposal of %s", name, err, want)
		}
	}
	err := crumbs.CheckName("tool", strings.Repeat("ü", 200))
	if !utf8.ValidString(err.Error()) || strings.Contains(err.Error(), `\x`) {
		t.Errorf("a character was cut: %s", err)
	}
}

// A request without an id gets the same one at each delivery, and another one
// for another message.
func TestDerivedRunID_SameOnRedelivery(t *testing.T) {
	t.Parallel()
	stored := time.Date(2026, 3, 4, 5, 6, 7, 8_123_456, time.UTC)
	first := crumbs.DerivedRunID(stored, crumbs.StreamRequests, 42)
	if again := crumbs.DerivedRunID(stored.In(time.FixedZone("", 3600)), crumbs.StreamRequests, 42); again != first {
		t.Errorf("redelivery derives %s, first %s", again, first)
	}
	for name, other := range map[string]crumbs.RunID{
		"sequence": crumbs.DerivedRunID(stored, crumbs.StreamRequests, 43),
		"stream":   crumbs.DerivedRunID(stored, crumbs.StreamInbox, 42),
		"time":     crumbs.DerivedRunID(stored.Add(time.Millisecond), crumbs.StreamRequests, 42),
	} {
		if other == first {
			t.Errorf("another %s derives the same id", name)
		}
	}
	if err := crumbs.CheckRunID("run", string(first)); err != nil {
		t.Error(err)
	}
	id, err := uuid.Parse(strings.TrimPrefix(string(first), "run_"))
	if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
		t.Fatalf("%s is no UUIDv7: %v", first, err)
	}
	if sec, nsec := id.Time().UnixTime(); time.Unix(sec, nsec).UnixMilli() != stored.UnixMilli() {
		t.Errorf("%s has the time %v, want %v", id, time.Unix(sec, nsec).UTC(), stored)
	}
	session := crumbs.DerivedSessionID(first, stored)
	if session != crumbs.DerivedSessionID(first, stored) || session == crumbs.DerivedSessionID("run_other", stored) {
		t.Error("the session is not that of its run")
	}
	if err := crumbs.CheckRunID("session", string(session)); err != nil || strings.TrimPrefix(string(session), "ses_") == strings.TrimPrefix(string(first), "run_") {
		t.Errorf("session %s of run %s: %v", session, first, err)
	}
}

// In time order, ids sort as they were stored.
func TestDerivedRunID_SortsByTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<45).Draw(t, "ms")
		later := ms + rapid.Int64Range(1, 1<<40).Draw(t, "later")
		seq := rapid.Uint64().Draw(t, "seq")
		a := crumbs.DerivedRunID(time.UnixMilli(ms), crumbs.StreamRequests, seq)
		b := crumbs.DerivedRunID(time.UnixMilli(later), crumbs.StreamRequests, seq)
		if a >= b {
			t.Fatalf("%s (%d) sorts after %s (%d)", a, ms, b, later)
		}
	})
}

func TestCallID_PartsAndTokens(t *testing.T) {
	t.Parallel()
	call := crumbs.ToolCallID("run_1-a", 12, 3)
	if call != "run_1-a.12.3" || call.Run() != "run_1-a" || call.Token() != "run_1-a-12-3" || call.Attempt(2) != "run_1-a.12.3.2" {
		t.Errorf("got %s, run %s, token %s, attempt %s", call, call.Run(), call.Token(), call.Attempt(2))
	}
	if model := crumbs.ModelCallID("run_1", 4); model != "run_1.4.m" || model.Run() != "run_1" {
		t.Errorf("got %s of %s", model, model.Run())
	}
	for _, bad := range []crumbs.CallID{"", "run_1", "run_1.1", "run_1.1.0.1", "run_1-1-0"} {
		if run := bad.Run(); run != "" {
			t.Errorf("Run of %q is %q, want none", bad, run)
		}
	}
}

// Every kind of call, and what only looks like one.
func TestCheckCallID_Grammar(t *testing.T) {
	t.Parallel()
	for _, id := range []crumbs.CallID{"r.1.0", "r.1.63", "r.1.m", "r.1.x2", "r.1.0h1", "r.1.h1", "r.0.r1", "r.1.p1", "r.1.e1",
		crumbs.ToolCallID(crumbs.NewRunID(), 20, 63), crumbs.ModelCallID(crumbs.NewRunID(), 1)} {
		if err := crumbs.CheckCallID(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, id := range []crumbs.CallID{"", ".1.0", "r..0", "r.1.", "r.1", "r.1.0.1", "r.a.0", "r.01.0", "r.1.00", "r.-1.0", "r.1.-1", "r.1.M", "r.1.m1",
		"r.1.x", "r.1.0h", "r.1.z1", "r.1.1e9999999999", "r.99999999999.0", crumbs.CallID(strings.Repeat("r", 65) + ".1.0")} {
		if err := crumbs.CheckCallID(id); !errors.Is(err, fault.Of(fault.InvalidName)) {
			t.Errorf("%q: got %v, want INVALID_NAME", id, err)
		}
	}
}

// In the subjects of one run no two calls share a token.
func TestCallID_TokensAreInjectiveInARun(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := crumbs.RunID(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "run"))
		call := func(label string) crumbs.CallID {
			return crumbs.CallID(fmt.Sprintf("%s.%d.%s", run, rapid.IntRange(0, 999).Draw(t, label+" step"),
				rapid.StringMatching(`m|[1-9][0-9]?(h[1-9])?|[xhrpe][1-9]`).Draw(t, label+" leaf")))
		}
		a, b := call("a"), call("b")
		attemptA, attemptB := rapid.IntRange(1, 99).Draw(t, "attempt a"), rapid.IntRange(1, 99).Draw(t, "attempt b")
		if crumbs.CheckCallID(a) != nil || crumbs.CheckCallID(b) != nil {
			t.Fatalf("%s or %s is refused", a, b)
		}
		same := a == b && attemptA == attemptB
		if got := crumbs.ToolResultSubject("g", a, attemptA) == crumbs.ToolResultSubject("g", b, attemptB); got != same {
			t.Fatalf("%s attempt %d and %s attempt %d: same subject is %t", a, attemptA, b, attemptB, got)
		}
	})
}

// Every subject built from checked names has the tokens its pattern says.
func TestSubjects_CheckedNamesStayOneToken(t *testing.T) {
	t.Parallel()
	token := regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	rapid.Check(t, func(t *rapid.T) {
		run := crumbs.RunID(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "run"))
		agent := crumbs.AgentID(rapid.StringMatching(`[a-z][a-z0-9_-]{0,63}`).Draw(t, "agent"))
		group := rapid.StringMatching(`[a-z][a-z0-9_]{0,31}`).Draw(t, "group")
		call := crumbs.ToolCallID(run, 1, 2)
		for subject, tokens := range map[string]int{
			crumbs.RequestSubject(agent): 3, crumbs.ControlSubject(run): 3, crumbs.ModelCallSubject(group, run): 4, crumbs.ToolCallSubject(group, run): 4,
			crumbs.ModelResultSubject(group, call, 1): 5, crumbs.ToolResultSubject(group, call, 1): 5, crumbs.DecisionSubject(run, call): 4, crumbs.OrderSubject(call, 1): 4,
			crumbs.TimerSetSubject(run, 3): 4, crumbs.TimerDueSubject(run, 3): 4, crumbs.CrumbSubject(agent, run, crumbs.TypeToolCalled): 5,
			crumbs.ModelDeltaSubject(agent, run, crumbs.TypeTextDelta): 4, crumbs.ModelDeltaSubject(agent, run, crumbs.TypeInputDelta): 5,
			crumbs.PartialSubject(agent, run, group): 6, crumbs.CancelSubject(run): 3, crumbs.DeadSubject(crumbs.StreamInbox, run, 7): 4,
			crumbs.BlobSubject(crumbs.AreaTool(group), run, "00", 1): 6,
		} {
			parts := strings.Split(subject, ".")
			if len(parts) != tokens {
				t.Fatalf("%s has %d tokens, want %d", subject, len(parts), tokens)
			}
			for _, p := range parts {
				if !token.MatchString(p) {
					t.Fatalf("%s: token %q", subject, p)
				}
			}
		}
	})
}

// Times are written in UTC with milliseconds and read in any zone.
func TestTime_MillisecondsUTC(t *testing.T) {
	t.Parallel()
	at := crumbs.At(time.Date(2026, 3, 4, 6, 6, 7, 8_999_999, time.FixedZone("", 3600)))
	text, err := at.MarshalJSON()
	if err != nil || string(text) != `"2026-03-04T05:06:07.008Z"` {
		t.Fatalf("wrote %s, %v", text, err)
	}
	for in, want := range map[string]crumbs.Time{
		`"2026-03-04T05:06:07.008Z"`: at, `"2026-03-04T06:06:07.008999+01:00"`: at, `""`: {},
	} {
		var got crumbs.Time
		if err := got.UnmarshalJSON([]byte(in)); err != nil || !got.Equal(want.Time) {
			t.Errorf("%s: got %v, %v", in, got, err)
		}
	}
	var got crumbs.Time
	if err := got.UnmarshalJSON([]byte(`"tomorrow"`)); err == nil {
		t.Error("reads a time that is none")
	}
}
