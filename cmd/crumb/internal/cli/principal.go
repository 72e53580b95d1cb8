package cli

import (
	"cmp"
	"os/user"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
)

// localIssuer says that nobody but this machine vouches for the name.
const localIssuer = "local"

// principal is who sits here: the user of the operating system.
func principal() crumbs.Principal {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return crumbs.Principal{Issuer: localIssuer, Subject: cmp.Or(name, "local")}
}
