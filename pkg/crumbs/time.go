package crumbs

import (
	"encoding/json"
	"time"
)

// Time is an instant on the wire: RFC 3339 with milliseconds, UTC. Readers take
// any RFC 3339 time. The zero value is written as "".
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// At returns t truncated to the millisecond, in UTC.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// Add returns the instant d later.
func (t Time) Add(d time.Duration) Time { return At(t.Time.Add(d)) }

// MarshalJSON writes RFC 3339 with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte(`""`), nil
	}
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON reads any RFC 3339 time, or "" as the zero time.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == "" {
		*t = Time{}
		return nil
	}
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return err
	}
	*t = At(v)
	return nil
}
