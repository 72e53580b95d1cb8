package crumbs

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// RunID names a run: `[A-Za-z0-9_-]{1,64}`; ours are `run_` + UUIDv7.
type RunID string

// SessionID names a session; ours are `ses_` + UUIDv7.
type SessionID string

// AgentID names an agent: `[a-z][a-z0-9_-]{0,63}`.
type AgentID string

// CallID names a call of a run: `<run>.<step>.<i>`, model calls `<run>.<step>.m`.
// A checkpoint has the id of its call.
type CallID string

// CheckpointID names a question to a person: the CallID of the call that waits.
type CheckpointID = CallID

// Bounds of names; schemas/common.v1.json has the same.
const (
	RunIDMax  = 64
	LeafMax   = 64
	AgentMax  = 64
	NameMax   = 32 // group, provider instance, tool, skill, plugin, hook
	AttrMax   = 256
	MetaMax   = 16 // entries of run.request metadata
	callParts = 3
)

var (
	runRE   = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	agentRE = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	nameRE  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,31}$`)
	// callRE: .m a model call, .<i> a tool call, x an escalation, h a hook, r a
	// resolve, p a parse, e an ended.
	callRE = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}\.(0|[1-9][0-9]{0,8})\.(m|(0|[1-9][0-9]{0,8})(h[0-9]{1,9})?|[xhrpe][0-9]{1,9})$`)
)

// CheckRunID returns INVALID_NAME unless id fits the grammar of run and session ids.
func CheckRunID(kind, id string) error {
	if runRE.MatchString(id) {
		return nil
	}
	return badName(kind, id, "1 to 64 of A-Z a-z 0-9 _ -")
}

// CheckAgentID returns INVALID_NAME unless id fits the grammar of agent ids.
func CheckAgentID(id string) error {
	if agentRE.MatchString(id) {
		return nil
	}
	return badName("agent", id, "a lowercase letter, then up to 63 of a-z 0-9 _ -")
}

// CheckName returns INVALID_NAME unless name is lowercase snake_case of at most
// 32 characters; the message proposes the right spelling.
func CheckName(kind, name string) error {
	if nameRE.MatchString(name) {
		return nil
	}
	return badName(kind, name, "lowercase snake_case, at most 32 characters")
}

func badName(kind, value, want string) error {
	e := fault.New(fault.InvalidName, "%s name %q: expected %s", kind, clip(value, RunIDMax), want).
		With("kind", kind).With("value", clip(value, AttrMax))
	if s := snake(value); s != "" && s != value && nameRE.MatchString(s) {
		e.Message += fmt.Sprintf("; did you mean %q?", s)
	}
	return e
}

// clip bounds s to n bytes of valid UTF-8, and says when it cut.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n] + "…"
	}
	return strings.ToValidUTF8(s, "�")
}

// snake proposes the snake_case spelling of a name, "" when there is none.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r >= 'A' && r <= 'Z':
			if i > 0 && b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
				b.WriteByte('_')
			}
			b.WriteRune(r + 'a' - 'A')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case r == '-', r == ' ', r == '.':
			b.WriteByte('_')
		}
	}
	return strings.Trim(b.String(), "_")
}

// NewRunID returns a fresh run id.
func NewRunID() RunID { return RunID("run_" + uuid.Must(uuid.NewV7()).String()) }

// NewSessionID returns a fresh session id.
func NewSessionID() SessionID { return SessionID("ses_" + uuid.Must(uuid.NewV7()).String()) }

// DerivedRunID returns the run id of a bare request without one: a UUIDv7 of the
// message's stored time, its remaining bits from the stream sequence, so that a
// redelivery derives the same id.
func DerivedRunID(stored time.Time, stream string, sequence uint64) RunID {
	return RunID("run_" + derived(stored, stream+"/run", sequence))
}

// DerivedSessionID returns the session id of a request without one.
func DerivedSessionID(run RunID, stored time.Time) SessionID {
	return SessionID("ses_" + derived(stored, string(run), 0))
}

func derived(stored time.Time, salt string, sequence uint64) string {
	var u uuid.UUID
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", salt, sequence))
	copy(u[:], sum[:])
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(stored.UnixMilli()))
	copy(u[:6], ms[2:])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}

// ToolCallID returns the id of the i-th call (from 0) of a step.
func ToolCallID(run RunID, step, i int) CallID {
	return CallID(string(run) + "." + strconv.Itoa(step) + "." + strconv.Itoa(i))
}

// ModelCallID returns the id of the model call of a step.
func ModelCallID(run RunID, step int) CallID {
	return CallID(string(run) + "." + strconv.Itoa(step) + ".m")
}

// HookCallID returns the id of the n-th hook (from 1) that is called for a tool
// call.
func HookCallID(call CallID, n int) CallID { return CallID(string(call) + "h" + strconv.Itoa(n)) }

// RunHookCallID returns the id of the n-th hook (from 1) that is called for the run
// itself in a step.
func RunHookCallID(run RunID, step, n int) CallID {
	return CallID(string(run) + "." + strconv.Itoa(step) + ".h" + strconv.Itoa(n))
}

// ParseCallID returns the id of the n-th parse (from 1) in a step.
func ParseCallID(run RunID, step, n int) CallID {
	return CallID(string(run) + "." + strconv.Itoa(step) + ".p" + strconv.Itoa(n))
}

// Run returns the run of a call. An id without exactly three parts yields "";
// CheckCallID says whether the parts are right.
func (c CallID) Run() RunID {
	run, rest, ok := strings.Cut(string(c), ".")
	if !ok || strings.Count(rest, ".") != callParts-2 {
		return ""
	}
	return RunID(run)
}

// Token returns the id as one subject token: dots written as dashes.
func (c CallID) Token() string { return strings.ReplaceAll(string(c), ".", "-") }

// Attempt names attempt n of a call: `<call>.<n>`, the key of its claim and the
// Msg-Id of its command.
func (c CallID) Attempt(n int) string { return string(c) + "." + strconv.Itoa(n) }

// ParseAttempt takes a name of Attempt apart; "" and 0 when it is none.
func ParseAttempt(name string) (CallID, int) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return "", 0
	}
	n, err := strconv.Atoi(name[i+1:])
	if call := CallID(name[:i]); err == nil && n > 0 && CheckCallID(call) == nil {
		return call, n
	}
	return "", 0
}

// CheckCallID returns INVALID_NAME unless id has the form `<run>.<step>.<i>`, or
// that of another kind of call (callRE).
func CheckCallID(id CallID) error {
	if callRE.MatchString(string(id)) {
		return nil
	}
	return fault.New(fault.InvalidName, "call id %q: expected <run>.<step>.<i>", clip(string(id), AttrMax))
}

// CrumbID is the ce-id of a crumb: `<run>/<seq>`.
func CrumbID(run RunID, seq uint64) string {
	return string(run) + "/" + strconv.FormatUint(seq, 10)
}
