package worker

import (
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/tool"
)

// textMax is how much of a document read_document returns, in bytes: a model
// reads every one of them.
const textMax = 32 << 10

// Selection names a document.
type Selection struct {
	Path string `json:"path" jsonschema:"minLength=1,description=Of the document below the project's folder"`
}

// Document is a document as the model sees it. Text is cut at 32 KiB; Truncated
// then says so.
type Document struct {
	Title     string `json:"title"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated,omitempty"`
}

func (f Folder) read(_ tool.Context, in Selection) (Document, error) {
	root, err := beneath(f.Documents)
	if err != nil {
		return Document{}, err
	}
	defer func() { _ = root.Close() }() // only read
	file, err := root.Open(in.Path)
	if err != nil {
		return Document{}, unusable(in.Path, err)
	}
	defer func() { _ = file.Close() }() // only read
	raw, err := io.ReadAll(io.LimitReader(file, textMax+1))
	if err != nil {
		return Document{}, unusable(in.Path, err)
	}
	text, truncated := cut(string(raw))
	if !utf8.ValidString(text) {
		return Document{}, fault.New(fault.ToolError, "%s is not UTF-8 text", path.Base(in.Path))
	}
	return Document{Title: title(text, in.Path), Text: text, Truncated: truncated}, nil
}

// cut bounds a text without breaking a rune.
func cut(text string) (string, bool) {
	if len(text) <= textMax {
		return text, false
	}
	end := textMax
	for end > textMax-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end], true
}

// title is the first Markdown heading, else the file's name.
func title(text, name string) string {
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutPrefix(line, "# "); ok && strings.TrimSpace(heading) != "" {
			return strings.TrimSpace(heading)
		}
	}
	return strings.TrimSuffix(path.Base(name), path.Ext(name))
}
