package decision_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/decision"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// full returns a decision in which every field is set.
func full() crumbs.Decision {
	return crumbs.Decision{
		Type: crumbs.TypeDecision, RunID: "run_1", CheckpointID: "run_1.1.0", ToolCallID: "run_1.1.0",
		ArgsHash: strings.Repeat("5f", 32), Outcome: crumbs.DecideApprove, Args: json.RawMessage(`{"amount": 10}`),
		Response: json.RawMessage(`false`), Reason: "checked", By: crumbs.Principal{Issuer: "local", Subject: "ada", Tenant: "acme"},
		Via: decision.ViaCLI, At: crumbs.At(time.UnixMilli(1_772_600_767_008)),
	}
}

func verifier(t *testing.T, keys ...string) *decision.Verifier {
	t.Helper()
	v, err := decision.NewVerifier(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantInvalid(t *testing.T, err error, says string) {
	t.Helper()
	if fault.CodeOf(err) != fault.DecisionInvalid || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %s that says %q", err, fault.DecisionInvalid, says)
	}
}

func TestVerify_SurvivesTheWire(t *testing.T) {
	t.Parallel()
	k, d := decision.NewKey(), full()
	d.Reason = "a < b & c > d \u2028 é"
	if err := k.Sign(&d); err != nil {
		t.Fatal(err)
	}
	body, err := json.MarshalIndent(d, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	var read crumbs.Decision
	if err := json.Unmarshal(body, &read); err != nil {
		t.Fatal(err)
	}
	if err := verifier(t, decision.NewKey().Public(), k.Public()).Verify(read); err != nil {
		t.Error(err)
	}
	read.Signature += "=="
	if err := verifier(t, k.Public()).Verify(read); err != nil {
		t.Errorf("a padded signature: %v", err)
	}
}

// TestVerify_TamperedField changes each field that there is, nested ones too.
func TestVerify_TamperedField(t *testing.T) {
	t.Parallel()
	k := decision.NewKey()
	v := verifier(t, k.Public())
	n := 0
	var walk func(path []int, typ reflect.Type)
	walk = func(path []int, typ reflect.Type) {
		for i := range typ.NumField() {
			at, f := append(path[:len(path):len(path)], i), typ.Field(i)
			if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[crumbs.Time]() {
				walk(at, f.Type)
				continue
			}
			for name, change := range tampering(t, f) {
				d := full()
				if err := k.Sign(&d); err != nil {
					t.Fatal(err)
				}
				if err := v.Verify(d); err != nil {
					t.Fatal(err)
				}
				change(reflect.ValueOf(&d).Elem().FieldByIndex(at))
				if err := v.Verify(d); fault.CodeOf(err) != fault.DecisionInvalid {
					t.Errorf("%s %s: %v, want %s", f.Name, name, err, fault.DecisionInvalid)
				}
				n++
			}
		}
	}
	walk(nil, reflect.TypeFor[crumbs.Decision]())
	if n < 2*reflect.TypeFor[crumbs.Decision]().NumField() {
		t.Errorf("only %d changes were tried", n)
	}
}

func tampering(t *testing.T, f reflect.StructField) map[string]func(reflect.Value) {
	t.Helper()
	cleared := func(v reflect.Value) { v.SetZero() }
	switch {
	case f.Type == reflect.TypeFor[crumbs.Time]():
		return map[string]func(reflect.Value){"cleared": cleared, "later": func(v reflect.Value) {
			v.Set(reflect.ValueOf(v.Interface().(crumbs.Time).Add(time.Millisecond)))
		}}
	case f.Type == reflect.TypeFor[json.RawMessage]():
		return map[string]func(reflect.Value){"cleared": cleared,
			"null":      func(v reflect.Value) { v.SetBytes([]byte(`null`)) },
			"other":     func(v reflect.Value) { v.SetBytes([]byte(`{"amount": 11}`)) },
			"duplicate": func(v reflect.Value) { v.SetBytes([]byte(`{"amount": 11, "amount": 10}`)) },
			"malformed": func(v reflect.Value) { v.SetBytes([]byte(`{"amount": 10`)) }}
	case f.Type.Kind() == reflect.String:
		return map[string]func(reflect.Value){"cleared": cleared, "longer": func(v reflect.Value) { v.SetString(v.String() + "A") },
			"first changed": func(v reflect.Value) { v.SetString("~" + v.String()[1:]) }}
	}
	t.Fatalf("field %s has type %s: teach this test to change it", f.Name, f.Type)
	return nil
}

func TestVerify_SaysWhy(t *testing.T) {
	t.Parallel()
	k, other, d := decision.NewKey(), decision.NewKey(), full()
	if err := k.Sign(&d); err != nil {
		t.Fatal(err)
	}
	wantInvalid(t, verifier(t, other.Public()).Verify(d), "unknown key")
	wantInvalid(t, (&decision.Verifier{}).Verify(d), "unknown key")
	forged := d
	forged.KeyID = other.ID()
	wantInvalid(t, verifier(t, other.Public(), k.Public()).Verify(forged), "bad signature")
	forged = d
	forged.Signature = ""
	wantInvalid(t, verifier(t, k.Public()).Verify(forged), "bad signature")
}

// TestSign_InexactNumber: both spellings have one canonical form, so a signature
// over one would hold for the other.
func TestSign_InexactNumber(t *testing.T) {
	t.Parallel()
	k, d := decision.NewKey(), full()
	d.Response = json.RawMessage(`9007199254740993`)
	wantInvalid(t, k.Sign(&d), "9007199254740993")
	if d.Signature != "" || d.KeyID != "" {
		t.Errorf("a refused decision was changed: kid %q, sig %q", d.KeyID, d.Signature)
	}
}

func TestSign_Refuses(t *testing.T) {
	t.Parallel()
	d := full()
	if err := (decision.Key{}).Sign(&d); fault.CodeOf(err) != fault.InvalidConfig {
		t.Errorf("the zero key: %v", err)
	}
	d.Type = crumbs.TypeToolCall
	wantInvalid(t, decision.NewKey().Sign(&d), crumbs.TypeToolCall)
}

func TestNewVerifier_BadKey(t *testing.T) {
	t.Parallel()
	good := decision.NewKey().Public()
	for name, keys := range map[string][]string{
		"none": nil, "empty": {good, ""}, "short": {good[:40]}, "padded": {good + "="}, "too many": make([]string, decision.KeysMax+1),
	} {
		if _, err := decision.NewVerifier(keys...); fault.CodeOf(err) != fault.InvalidConfig {
			t.Errorf("%s: %v, want %s", name, err, fault.InvalidConfig)
		}
	}
}

func TestLoadOrCreate_OneKeyForAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys", "decision.seed")
	ids := make([]string, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			k, err := decision.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
			}
			ids[i] = k.ID()
		})
	}
	all.Wait()
	loaded, err := decision.LoadSeed(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if id != loaded.ID() {
			t.Errorf("key %s, the file holds %s", id, loaded.ID())
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %04o, want 0600", info.Mode().Perm())
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files in the folder, want the seed only (%v)", len(left), err)
	}
}

func TestLoadSeed_Refuses(t *testing.T) {
	t.Parallel()
	seed := strings.Repeat("A", 43)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		ok   bool
	}{
		"good": {seed + "\n", 0o600, true}, "readable by its group": {seed, 0o640, true}, "readable by all": {seed, 0o644, false},
		"writable by its group": {seed, 0o660, false}, "empty": {"", 0o600, false}, "short": {seed[:42], 0o600, false}, "no base64url": {"+" + seed[1:], 0o600, false},
	} {
		path := filepath.Join(t.TempDir(), "seed")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := decision.LoadSeed(path)
		if c.ok != (err == nil) || !c.ok && (fault.CodeOf(err) != fault.InvalidConfig || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v", name, err)
		}
		if !c.ok {
			if _, err := decision.LoadOrCreate(path); err == nil {
				t.Errorf("%s: LoadOrCreate replaced a file it could not use", name)
			}
		}
	}
	if _, err := decision.LoadSeed(filepath.Join(t.TempDir(), "none")); fault.CodeOf(err) != fault.InvalidConfig || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestKey_PrintsNoSecret(t *testing.T) {
	t.Parallel()
	k := decision.NewKey()
	want := "decision key " + k.ID()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != want {
			t.Errorf("%s prints %q, want %q", verb, got, want)
		}
	}
}

func TestSame(t *testing.T) {
	t.Parallel()
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, c := range []struct {
		a, b json.RawMessage
		want bool
	}{
		{nil, nil, true}, {nil, raw(`null`), false}, {raw(`null`), raw(` null`), true}, {raw(`false`), raw(`0`), false}, {raw(`""`), raw(`null`), false},
		{raw(`{"a":1,"b":2}`), raw(`{ "b": 2.0, "a": 1 }`), true}, {raw(`{"a":1}`), raw(`{"a":2}`), false},
		{raw(`9007199254740993`), raw(`9007199254740992`), false},
	} {
		if got := decision.Same(c.a, c.b); got != c.want {
			t.Errorf("Same(%s, %s) = %t", c.a, c.b, got)
		}
	}
}
