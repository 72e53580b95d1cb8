package cli

import "github.com/crumbmesh/crumbmesh/pkg/crumbs"

type deadCloseCommand struct {
	IDs    []uint64 `arg:"" name:"id" help:"Ids of letters (crumb dead list)."`
	Reason string   `help:"Why nothing more is to be done; it is kept." required:"" placeholder:"TEXT"`
	By     string   `help:"Who does this, when it is not the user of this machine." placeholder:"NAME"`
}

// Help says what the flags do not.
func (deadCloseCommand) Help() string {
	return "For letters that are dealt with elsewhere, or that can be neither redriven nor answered because their run has ended. The letter is kept as long as any, and its run is not touched; it is only open no more, and `crumb doctor` speaks of it no more. Redriving it later is still possible."
}

// Run closes the letters in the order they are named; the first that cannot be closed
// ends it.
func (cmd deadCloseCommand) Run(i *invocation) error {
	mesh, err := i.connect()
	if err != nil {
		return err
	}
	defer mesh.Close()
	for _, id := range cmd.IDs {
		receipt, err := mesh.CloseDead(i.ctx, crumbs.DeadClose{ID: id, By: giver{By: cmd.By}.principal(), Reason: cmd.Reason})
		if err != nil {
			return err
		}
		if err := i.told(receipt); err != nil {
			return err
		}
	}
	return nil
}
