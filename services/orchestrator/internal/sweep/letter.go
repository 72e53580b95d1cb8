package sweep

import (
	"context"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// letters looks at the dead letters since the last pass, that nobody may have heard
// of.
func (s *Sweeper) letters(ctx context.Context) error {
	last, err := s.conn.LastSequence(ctx, crumbs.StreamDead)
	if err != nil || last <= s.letter {
		return err
	}
	from := s.letter + 1
	if s.letter == 0 && last > lettersBack {
		from = last - lettersBack
	}
	var subjects []string
	err = s.conn.DeadLetters(ctx, crumbs.DeadFilter("", ""), from, last+1, func(m mesh.Stored, _ int) {
		if len(subjects) < lettersBack {
			subjects, last = append(subjects, m.Subject), max(m.Sequence, from)
		}
	})
	if err != nil {
		return err
	}
	for _, subject := range subjects {
		if err := s.givenUp(ctx, subject); err != nil {
			return err
		}
	}
	s.letter = last
	return nil
}

// givenUp tells the run of a call whose message a worker gave up. A letter speaks
// for the queue in its subject only, where nobody else may write.
func (s *Sweeper) givenUp(ctx context.Context, subject string) error {
	stream, queue, _ := strings.Cut(crumbs.Token(subject, 1), "-")
	run, code, of := crumbs.DeadRun(subject), fault.ToolLost, callOn{}
	switch stream {
	case crumbs.StreamToolCalls:
		of.subject = crumbs.ToolCallSubject(queue, run)
	case crumbs.StreamModelCalls:
		of.subject, code = crumbs.ModelCallSubject(queue, run), fault.ModelError
	default:
		return nil
	}
	m, err := s.conn.Last(ctx, crumbs.StreamDead, subject)
	if err != nil || m == nil {
		return err
	}
	of.call, of.attempt = crumbs.ParseAttempt(m.Header.Get("ce-id"))
	if of.call == "" || of.call.Run() != run {
		return nil // its call ends at its deadline
	}
	st, err := s.stands(ctx, of)
	if err != nil || st.held || !st.waits {
		return err
	}
	return s.tell(ctx, of, fault.New(code, "%s gave the message of the call up: %s: %s", m.Header.Get(crumbs.DeadBy), m.Header.Get(crumbs.DeadCode), m.Header.Get(crumbs.DeadReason)).
		With("deadLetter", m.Sequence))
}
