package mesh

import (
	"cmp"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/crumbmesh/crumbmesh/pkg/secret"
)

// Names that stand for the connection's own secrets.
const (
	passwordName = "NATS_PASSWORD"
	credsName    = "NATS_CREDS"
	nkeyName     = "NATS_NKEY"
)

// conceal makes what the connection authenticates with secrets of the process, and
// the log one that masks them. It fails with INVALID_CONFIG for a file that is too
// large to be a credential; one that cannot be read is found when it is used.
func (c *Conn) conceal(cfg ConnectConfig) error {
	c.Secrets = cfg.Secrets
	if c.Secrets == nil {
		c.Secrets = secret.NewBook(nil)
	}
	c.Log = slog.New(lines{Handler: c.Secrets.Logger(c.Log).Handler()})
	for one := range strings.SplitSeq(cfg.Server, ",") {
		if err := c.Secrets.Add(passwordName, passwordOf(one)); err != nil {
			return err
		}
	}
	for name, path := range map[string]string{credsName: cfg.Access.Creds, nkeyName: cfg.Access.NKey} {
		if path == "" {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if err := c.Secrets.Add(name, string(content)); err != nil {
			return err
		}
	}
	return nil
}

// userInfo is what stands between `//` and `@` of a URL, also of one that does not
// parse.
func userInfo(server string) (before, info, after string) {
	_, rest, ok := strings.Cut(server, "://")
	if !ok {
		rest = server
	}
	end := strings.LastIndexByte(rest, '@')
	if end < 0 {
		return server, "", ""
	}
	return server[:len(server)-len(rest)], rest[:end], rest[end:]
}

// passwordOf is the password in a server's URL, or the token that stands alone.
func passwordOf(server string) string {
	_, info, _ := userInfo(server)
	_, password, ok := strings.Cut(info, ":")
	if !ok {
		password = info
	}
	if plain, err := url.PathUnescape(password); err == nil {
		return plain
	}
	return password
}

// redact is servers, as a comma separates them, without their passwords.
func redact(servers string) string {
	all := strings.Split(servers, ",")
	for i, one := range all {
		before, info, after := userInfo(one)
		if info == "" {
			continue
		}
		user, _, ok := strings.Cut(info, ":")
		if ok {
			user += ":"
		} else {
			user = ""
		}
		all[i] = before + user + "[" + passwordName + "]" + after
	}
	return strings.Join(all, ",")
}

// said is the text of an error of the client, which quotes URLs.
func (c *Conn) said(err error, servers string) string {
	text := err.Error()
	all := append(strings.Split(servers, ","), servers)
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, one := range all {
		if one != "" {
			text = strings.ReplaceAll(text, one, redact(one))
		}
	}
	return c.Secrets.Masker().Text(text)
}
