package crumbs

import (
	"encoding/hex"
	"mime"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/crumbmesh/crumbmesh/pkg/fault"
)

// Bounds of a file.
const (
	FileBytesMax = 32 << 20 // of its content
	FileNameMax  = 255      // of its name, in bytes
	FilesMax     = 64       // that one call may store
)

// KindFile is the kind of a File.
const KindFile = "file"

// AreaFile is all files: what everybody may read who follows runs or works for them.
const AreaFile Area = "file"

// AreaToolFile is of the workers of a group: files that tools store.
func AreaToolFile(group string) Area { return AreaFile + "." + AreaTool(group) }

// AreaModelFile is of the gateways of a provider instance: files that models make.
func AreaModelFile(provider string) Area { return AreaFile + "." + AreaModel(provider) }

// fileScheme begins every URI of a file.
const fileScheme = "files:"

// fileURIRE is `files:<owner>/<run>/<sha256>`; the owner is the area without `file.`.
var fileURIRE = regexp.MustCompile(`^files:((?:tool|model)\.[a-z][a-z0-9_]{0,31})/([A-Za-z0-9_-]{1,64})/([0-9a-f]{64})$`)

// FileURI names a file of an area by its run and the SHA-256 of its content in hex.
func FileURI(area Area, run RunID, digest string) string {
	return fileScheme + strings.TrimPrefix(string(area), string(AreaFile)+".") + "/" + string(run) + "/" + digest
}

// ReadFileURI is what a URI says: where the file stands. It returns
// FILE_NOT_FOUND for a text that names no file.
func ReadFileURI(uri string) (area Area, run RunID, digest string, err error) {
	m := fileURIRE.FindStringSubmatch(uri)
	if m == nil {
		return "", "", "", fault.New(fault.FileNotFound, "%.200q is no file of the mesh: expected `files:<tool or model>.<name>/<run>/<sha256 in hex>`, as a result or a crumb names it", uri)
	}
	if _, err := hex.DecodeString(m[3]); err != nil {
		return "", "", "", fault.Wrap(fault.FileNotFound, err, "%.200q is no file of the mesh", uri)
	}
	return AreaFile + "." + Area(m[1]), RunID(m[2]), m[3], nil
}

// CheckFile returns INVALID_NAME unless name and mimeType are those of a file: 1 to
// FileNameMax bytes without slash and control characters, and a media type such as
// `text/markdown; charset=utf-8`, or none.
func CheckFile(name, mimeType string) error {
	control := func(r rune) bool { return unicode.IsControl(r) || r == '/' || r == '\\' }
	if name == "" || name == "." || name == ".." || len(name) > FileNameMax || !utf8.ValidString(name) || strings.ContainsFunc(name, control) {
		return badName("file", name, "1 to 255 bytes without slashes and control characters")
	}
	if mimeType == "" {
		return nil
	}
	if _, _, err := mime.ParseMediaType(mimeType); err != nil || len(mimeType) > FileNameMax || !strings.Contains(mimeType, "/") {
		return badName("media type", mimeType, "one such as text/plain or application/pdf")
	}
	return nil
}
