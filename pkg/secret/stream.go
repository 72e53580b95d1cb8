package secret

// Stream masks a text that comes in pieces: a secret that is cut in two is found.
// It is used by one goroutine.
type Stream struct {
	masker *Masker
	held   string
}

// Stream begins a text.
func (m *Masker) Stream() *Stream { return &Stream{masker: m} }

// Write takes a piece and returns what may go on, "" when nothing may yet. What is
// held back is the beginning of a secret, so shorter than the longest one.
func (s *Stream) Write(piece string) string {
	if s.masker == nil {
		return piece
	}
	out, rest := s.masker.scan(s.held+piece, false)
	s.held = rest
	return out
}

// Flush ends the text and returns what was held back.
func (s *Stream) Flush() string {
	out := s.masker.Text(s.held)
	s.held = ""
	return out
}
