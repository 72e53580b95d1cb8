package cli

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/crumbmesh/crumbmesh/cmd/crumb/internal/terminal"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const description = "crumbmesh: agents on NATS JetStream. Exit status: 0 completed, 1 failed or cancelled, 2 usage or validation, 3 waits for a person."

// servicesHelp stands over the services; the one whose command also lists and answers
// questions is not among them.
const servicesHelp = "Beside `crumb approvals --key-file FILE`, the service that keeps questions and signs answers."

// globals are the flags of every command.
type globals struct {
	Version versionFlag `help:"Print the version."`

	Config string `help:"YAML file of this command's flags, in camelCase." env:"CRUMB_CONFIG" type:"path" placeholder:"FILE" group:"connection"`
	Server string `help:"NATS server of the mesh (default nats://127.0.0.1:4222)." env:"NATS_URL" placeholder:"URL" group:"connection"`
	Creds  string `help:"NATS credentials file." env:"NATS_CREDS" type:"path" placeholder:"FILE" group:"connection"`
	NKey   string `name:"nkey" help:"NATS NKEY seed file." env:"NATS_NKEY" type:"path" placeholder:"FILE" group:"connection"`

	TLSCA       string `name:"tls-ca" help:"Certificate authorities that the server's certificate may be from." env:"CRUMB_TLS_CA" type:"path" placeholder:"FILE" group:"connection"`
	TLSCert     string `name:"tls-cert" help:"Certificate to show the server." env:"CRUMB_TLS_CERT" type:"path" placeholder:"FILE" group:"connection"`
	TLSKey      string `name:"tls-key" help:"Key of --tls-cert." env:"CRUMB_TLS_KEY" type:"path" placeholder:"FILE" group:"connection"`
	JSAPIPrefix string `name:"js-api-prefix" help:"Where this account imports JetStream's API ($$JS.API)." env:"CRUMB_JS_API_PREFIX" placeholder:"SUBJECT" group:"connection"`
	InboxPrefix string `name:"inbox-prefix" help:"Where answers to this role come (_INBOX)." env:"CRUMB_INBOX_PREFIX" placeholder:"SUBJECT" group:"connection"`

	JSON bool `name:"json" help:"One JSON document a line on standard output, nothing else there."`
}

// access is who the command is to NATS.
func (g *globals) access() mesh.Access {
	return mesh.Access{Creds: g.Creds, NKey: g.NKey, CA: g.TLSCA, Cert: g.TLSCert, Key: g.TLSKey, APIPrefix: g.JSAPIPrefix, InboxPrefix: g.InboxPrefix}
}

// commands is the command line. What is not built yet is not here.
type commands struct {
	globals

	Demo      demoCommand      `cmd:"" help:"Run the example end to end, without a network."`
	Dev       devCommand       `cmd:"" help:"Serve a project folder: a whole mesh in one process."`
	Run       runCommand       `cmd:"" help:"Start a run of an agent and follow it."`
	Watch     watchCommand     `cmd:"" help:"Follow the crumbs of a run, or of all."`
	Approvals approvalsCommand `cmd:"" help:"Questions to people and their answers."`
	Runs      runsCommand      `cmd:"" help:"Look at runs, cancel one."`
	Dead      deadCommand      `cmd:"" help:"What was given up: look at it, redrive it, answer in its place."`
	Explain   explainCommand   `cmd:"" help:"Say what a run waits for, who has it in hand, and what to do."`
	Files     filesCommand     `cmd:"" help:"Fetch a file that a tool or a model stored."`
	Tools     toolsCommand     `cmd:"" help:"Look at the tools that workers announced."`
	Agents    agentsCommand    `cmd:"" help:"Look at agents, validate and apply a folder of them."`
	Init      initCommand      `cmd:"" help:"Make the streams, buckets and queues of a mesh on NATS."`
	Restore   restoreCommand   `cmd:"" help:"Make the streams of a backup again on empty servers, and see that all is there."`
	Doctor    doctorCommand    `cmd:"" help:"Look at the mesh and say what is wrong with it and what mends it."`
	Health    healthCommand    `cmd:"" help:"Ask a process of this machine whether it serves; what health checks call."`

	Orchestrator orchestratorCommand `cmd:"" help:"Run the service that drives runs." group:"services"`
	Toolexec     toolexecCommand     `cmd:"" help:"Run the service that executes a folder's tools." group:"services"`
	Modelgw      modelgwCommand      `cmd:"" help:"Run the service that asks LLM providers." group:"services"`

	Version versionCommand `cmd:"" help:"Print the version."`
}

// exited carries the status of kong's own exits (--help) up to Main.
type exited int

// Main runs one command line and returns the exit status.
func Main(ctx context.Context, args []string, std terminal.Stdio) (status int) {
	defer func() {
		if r := recover(); r != nil {
			code, ok := r.(exited)
			if !ok {
				panic(r)
			}
			status = int(code)
		}
	}()
	var line commands
	inv := &invocation{ctx: ctx, std: std, globals: &line.globals}
	app, err := kong.New(&line,
		kong.Resolvers(&configFile{}),
		kong.ExplicitGroups([]kong.Group{{Key: "connection", Title: "Connection:"}, {Key: "services", Title: "Services of a deployment:", Description: servicesHelp}}),
		kong.Name("crumb"), kong.Description(description), kong.Writers(std.Out, std.Err),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Bind(inv),
	)
	if err != nil {
		return inv.report(err)
	}
	parsed, err := app.Parse(args)
	if err != nil {
		line.JSON = line.JSON || slices.Contains(args, "--json") // parsing may have stopped before it
		return inv.report(usage(err))
	}
	inv.connection = connectionFlags(parsed)
	if err := checkVariables(app.Model, os.Environ()); err != nil {
		return inv.report(err)
	}
	return inv.report(parsed.Run())
}

// usage is what is wrong with a command line, and where the right one is shown.
func usage(err error) error {
	var known *fault.Error // of the file of --config: it says all; kong would put a flag before it that is not at fault
	if errors.As(err, &known) {
		return known
	}
	help := "crumb --help"
	var p *kong.ParseError
	if errors.As(err, &p) && p.Context != nil && p.Context.Command() != "" {
		help = "crumb " + commandWords(p.Context) + " --help"
	}
	return fault.New(fault.InvalidConfig, "%s; see `%s`", err, help)
}

// commandWords is the command that was recognized, without its arguments.
func commandWords(c *kong.Context) string {
	words := ""
	for _, p := range c.Path {
		if p.Command != nil {
			if words != "" {
				words += " "
			}
			words += p.Command.Name
		}
	}
	return words
}
