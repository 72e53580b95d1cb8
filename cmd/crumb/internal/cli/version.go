package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

type versionCommand struct{}

// versionFlag is --version, the form that every other program has too.
type versionFlag bool

// BeforeApply prints the version and ends the command line there. Flags have no
// values yet, so --json is looked for among what was parsed.
func (versionFlag) BeforeApply(app *kong.Kong, parsed *kong.Context, i *invocation) error {
	for _, p := range parsed.Path {
		if p.Flag != nil && p.Flag.Name == "json" {
			i.globals.JSON = true
		}
	}
	if err := (versionCommand{}).Run(i); err != nil {
		return err
	}
	app.Exit(statusCompleted)
	return nil
}

// build is what `crumb version --json` prints.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the sources, where the build knew it
	Modified bool   `json:"modified,omitempty"` // the sources had changes beyond it
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Run prints the version.
func (versionCommand) Run(i *invocation) error {
	b := thisBuild()
	if i.globals.JSON {
		return i.document(b)
	}
	text := "crumb " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision + ")"
	}
	return i.print("%s %s %s", text, b.Go, b.Platform)
}

func thisBuild() build {
	b := build{Version: mesh.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
