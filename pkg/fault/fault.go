// Package fault holds the one error type that crosses a subject and the closed
// catalogue of its codes.
//
// An Error says what was expected, what came and what to do. Causes, stacks and
// secrets never cross a subject: Wrap keeps the cause for errors.Is in this
// process only, and marshalling drops it. Codes are append-only (codes.go) and
// mirrored by the enum of schemas/common.v1.json.
package fault

import (
	"errors"
	"fmt"
	"maps"
)

// Error is a failure with a stable code. It is the `Error` of the wire.
type Error struct {
	Code         Code           `json:"code"`
	Message      string         `json:"message"`
	RetryAfterMs int64          `json:"retryAfterMs,omitempty"` // milliseconds after which another try may work
	Context      map[string]any `json:"context,omitempty"`      // small facts for a program: names, limits, allowed values

	cause error
}

// New returns an Error with a formatted message.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap returns an Error whose cause stays in this process.
func Wrap(code Code, cause error, format string, args ...any) *Error {
	e := New(code, format, args...)
	e.cause = cause
	return e
}

// With returns a copy of e with one more fact in its Context.
func (e *Error) With(key string, value any) *Error {
	c := *e
	c.Context = maps.Clone(e.Context)
	if c.Context == nil {
		c.Context = map[string]any{}
	}
	c.Context[key] = value
	return &c
}

// Error renders `CODE: message`.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause, which is never marshalled.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is a fault of the same code, so that
// errors.Is(err, fault.Of(fault.RunNotFound)) holds through wrapping.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t == e)
}

// Of returns a bare fault to compare with errors.Is.
func Of(code Code) *Error { return &Error{Code: code} }

// From returns err as a fault: itself when it is one, else INTERNAL_ERROR with
// a message that names nothing of this process.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Wrap(InternalError, err, "an internal error occurred; the service's log has the details")
}

// Listed is e with a code of the catalogue: one that is not in it, as a program of
// somebody's own may give, becomes otherwise, and stays in message and context.
func (e *Error) Listed(otherwise Code) *Error {
	for _, entry := range catalogue {
		if entry.Code == e.Code {
			return e
		}
	}
	c := *e
	c.Code = otherwise
	if e.Code == "" {
		return &c
	}
	c.Message = string(e.Code) + ": " + e.Message
	return c.With("code", string(e.Code))
}

// CodeOf returns the code of err, or "" when err is no fault.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
