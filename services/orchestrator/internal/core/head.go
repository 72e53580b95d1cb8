package core

import (
	"strconv"
	"time"
)

// Headers of a record: what every version can read when it cannot read the value,
// and what a list needs of records that it does not show.
const (
	HeadVersion = "crumb-version"
	HeadAgent   = "crumb-agent"
	HeadSession = "crumb-session"
	HeadSeq     = "crumb-seq"
	HeadStarted = "crumb-started" // unix milliseconds
	HeadStatus  = "crumb-status"  // absent from records of older releases
	HeadOpen    = "crumb-open"    // questions that wait for a person; absent when none does
	HeadAsked   = "crumb-asked"   // when the oldest of them was asked, unix milliseconds
)

// Head returns the headers of a record.
func (s State) Head() map[string]string {
	h := map[string]string{HeadVersion: strconv.Itoa(s.Version), HeadSeq: strconv.FormatUint(s.Seq, 10), HeadStatus: string(s.Status)}
	if s.Run.Agent != "" {
		h[HeadAgent], h[HeadSession] = string(s.Run.Agent), string(s.Run.Session)
		h[HeadStarted] = strconv.FormatInt(s.Run.StartedAt.UnixMilli(), 10)
	}
	if open, oldest := s.questions(); open > 0 {
		h[HeadOpen], h[HeadAsked] = strconv.Itoa(open), strconv.FormatInt(oldest.UnixMilli(), 10)
	}
	return h
}

// questions are how many wait for a person, and when the oldest was asked.
func (s State) questions() (open int, oldest time.Time) {
	for _, c := range s.Calls {
		if c.Phase != Asking {
			continue
		}
		if open++; oldest.IsZero() || c.Question.AskedAt.Before(oldest) {
			oldest = c.Question.AskedAt.Time
		}
	}
	return open, oldest
}
