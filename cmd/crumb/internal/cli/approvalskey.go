package cli

import "github.com/crumbmesh/crumbmesh/pkg/decision"

type approvalsKeyCommand struct {
	File string `arg:"" help:"Seed file of the key." type:"path"`
}

// signingKey is what `crumb approvals key --json` prints.
type signingKey struct {
	KeyID  string `json:"kid"`
	Public string `json:"public"`
}

// Run shows a key, which it makes when it is not there.
func (cmd approvalsKeyCommand) Run(i *invocation) error {
	key, err := decision.LoadOrCreate(cmd.File)
	if err != nil {
		return err
	}
	if i.globals.JSON {
		return i.document(signingKey{key.ID(), key.Public()})
	}
	i.say("kid %s", key.ID())
	return i.print("%s", key.Public())
}
