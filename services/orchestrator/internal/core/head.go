package core

import "strconv"

// Headers of a record: what every version can read when it cannot read the value,
// and what a list needs of records that it does not show.
const (
	HeadVersion = "crumb-version"
	HeadAgent   = "crumb-agent"
	HeadSession = "crumb-session"
	HeadSeq     = "crumb-seq"
	HeadStarted = "crumb-started" // unix milliseconds
	HeadStatus  = "crumb-status"  // absent from records of older releases
)

// Head returns the headers of a record.
func (s State) Head() map[string]string {
	h := map[string]string{HeadVersion: strconv.Itoa(s.Version), HeadSeq: strconv.FormatUint(s.Seq, 10), HeadStatus: string(s.Status)}
	if s.Run.Agent != "" {
		h[HeadAgent], h[HeadSession] = string(s.Run.Agent), string(s.Run.Session)
		h[HeadStarted] = strconv.FormatInt(s.Run.StartedAt.UnixMilli(), 10)
	}
	return h
}
