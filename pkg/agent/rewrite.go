package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// rewrite returns raw with every string value replaced by what f makes of it;
// keys, their order and the text of numbers stay. It fails when raw, or what f
// returned, is no JSON.
func rewrite(raw json.RawMessage, at place, f func(at place, s string) json.RawMessage) (json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	w := &rewriter{dec: dec, f: f}
	if err := w.value(at); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON document")
	}
	if !json.Valid(w.out.Bytes()) {
		return nil, errors.New("a template left no JSON")
	}
	return w.out.Bytes(), nil
}

type rewriter struct {
	dec *json.Decoder
	out bytes.Buffer
	f   func(place, string) json.RawMessage
}

func (w *rewriter) value(at place) error {
	t, err := w.dec.Token()
	if err != nil {
		return err
	}
	switch v := t.(type) {
	case json.Delim:
		return w.inside(v, at)
	case string:
		w.out.Write(w.f(at, v))
	default:
		w.out.Write(jsonValue(v))
	}
	return nil
}

// inside writes the items of the list or object that open begins.
func (w *rewriter) inside(open json.Delim, at place) error {
	w.out.WriteString(open.String())
	for i := 0; w.dec.More(); i++ {
		separate(&w.out, i)
		item := at.index(i)
		if open == '{' {
			t, err := w.dec.Token()
			if err != nil {
				return err
			}
			name, _ := t.(string) // a key of valid JSON always is
			w.out.Write(jsonString(name))
			w.out.WriteByte(':')
			item = at.key(name)
		}
		if err := w.value(item); err != nil {
			return err
		}
	}
	end, err := w.dec.Token()
	if err != nil {
		return err
	}
	w.out.WriteString(end.(json.Delim).String())
	return nil
}
