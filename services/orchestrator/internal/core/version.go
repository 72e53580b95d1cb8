package core

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Versions of a run's record. A release writes only what the release before it
// reads: a record is written as the lowest version that can express it (ADR 0013).
const (
	Version    = 3 // the newest that this release reads
	versionTwo = 2 // without hooks, parsers and retries of calls
	versionOne = 1 // and without orders: Call.Started and Rulings
)

// written is the version a State is recorded as: the lowest that can express it.
func (s State) written() int {
	if s.Opening != nil || s.Chain != nil || s.Closing != nil || s.Parse != nil || s.Ending != nil || len(s.Notices) > 0 ||
		s.Errands > 0 || s.Repeated || s.Repairs > 0 || s.Run.Unserved != nil {
		return Version
	}
	two := len(s.Rulings) > 0
	for _, c := range s.Calls {
		if c.Phase == Hooking || c.Phase == Waiting || c.Errands > 0 || c.Repeated {
			return Version
		}
		two = two || c.Started
	}
	if two {
		return versionTwo
	}
	return versionOne
}

// Encode renders the record. It fails with STATE_TOO_LARGE over RecordMax.
func (s State) Encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fault.Wrap(fault.InternalError, err, "the run's record does not encode")
	}
	if len(b) > RecordMax {
		return nil, fault.New(fault.StateTooLarge, "the run's record would be %d bytes > limit %d", len(b), RecordMax)
	}
	return b, nil
}

// Decode reads a record of any version up to Version. It fails with STATE_TOO_NEW
// for a later one and INTERNAL_ERROR for bytes that are no record.
func Decode(b []byte) (State, error) {
	v, err := versionOf(b)
	if err != nil {
		return State{}, err
	}
	if v > Version {
		return State{}, fault.New(fault.StateTooNew, "the record has version %d, this release reads up to %d", v, Version)
	}
	if b, err = upcast(b, v, upcasters()); err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, undecodable(err)
	}
	return s, nil
}

// versionOf is the version a record states. Encode writes it first, so that most
// records are not read twice for it.
func versionOf(record []byte) (int, error) {
	if rest, ok := bytes.CutPrefix(record, []byte(`{"version":`)); ok {
		if digits, _, ok := bytes.Cut(rest, []byte(",")); ok {
			if v, err := strconv.Atoi(string(digits)); err == nil {
				return v, nil
			}
		}
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(record, &head); err != nil {
		return 0, undecodable(err)
	}
	return head.Version, nil
}

func undecodable(err error) error {
	return fault.Wrap(fault.InternalError, err, "the run's record does not decode")
}

// upcaster turns a record of one version into one of the next.
type upcaster func(record []byte) ([]byte, error)

// upcasters is the chain, beginning with the one that reads version 1. A change of
// the State's shape appends one, raises Version and adds records of the version
// before to testdata/records; none is ever changed or removed while a record of its
// version may be alive (RunTTL).
func upcasters() []upcaster { return []upcaster{oneToTwo, twoToThree} }

// upcast applies the chain from version v on.
func upcast(record []byte, v int, chain []upcaster) ([]byte, error) {
	for _, next := range chain[min(max(v, versionOne)-versionOne, len(chain)):] {
		var err error
		if record, err = next(record); err != nil {
			return nil, undecodable(err)
		}
	}
	return record, nil
}

// oneToTwo: version 2 only adds fields, and their absence means what it meant in
// version 1: no order was given.
func oneToTwo(record []byte) ([]byte, error) { return record, nil }

// twoToThree: version 3 only adds fields, and their absence means that no hook, no
// parser and no retry of a call is under way.
func twoToThree(record []byte) ([]byte, error) { return record, nil }
