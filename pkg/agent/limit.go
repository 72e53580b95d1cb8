package agent

import "github.com/crumbmesh/crumbmesh/pkg/crumbs"

// Defaults of a definition. Load and Decode fill them in, so that a stored
// revision says what it does without them.
const (
	DefaultStepsMax          = 20                 // CF-O16
	DefaultBackoffMs         = 500                // CF-R09
	DefaultBackoffMultiplier = 2                  // CF-R09
	DefaultTimeoutMs         = 60_000             // of a tool call: a minute
	DefaultHookTimeoutMs     = 10_000             // of a hook and of a parser: ten seconds
	DefaultExpiresMs         = 24 * 3600_000      // of a question: a day
	DefaultStartBeforeMs     = 10 * 60_000        // of a call in its queue: ten minutes
	DefaultMaxInFlight       = 10_000             // calls of a group that run at once
	DefaultGroup             = "scripts"          // of exec tools
	DefaultFormat            = FormatText         // of an agent's output
	ScriptProvider           = "script"           // the provider that needs no entry in crumb.yaml
	OwnProvider              = crumbs.ProviderOwn // the queue of calls to instances that are an agent's own
)

// Bounds of a project and of what it holds.
const (
	AgentsMax          = 1_000
	GroupsMax          = 256
	ProvidersMax       = 64
	ModelsMax          = 64 // aliases of a project
	PluginsMax         = 64
	HooksMax           = 16        // at one point of one file
	RepairMax          = 10        // times that a model is asked to mend its answer
	SharedBytesMax     = 256 << 10 // of a project's hooks and plugins as JSON
	ToolsMax           = 128       // of an agent: what model providers take
	ScriptsMax         = 64        // of an agent
	TurnsMax           = 1_000
	ChunksMax          = 1_000
	CallsMax           = 64        // of a turn (DESIGN §4)
	DefinitionBytesMax = 768 << 10 // of a definition as JSON: it must fit one message of NATS
	DescriptionMax     = 4_096     // bytes: every model call repeats it
	PromptMax          = 16 << 10  // bytes of a question
	ModelNameMax       = 128
	ArgvMax            = 64       // words of a command
	ArgvBytesMax       = 16 << 10 // of a command
	EnvMax             = 64       // names of an exec tool's environment
	WatchMax           = 64       // paths of a group's command
	StepsMax           = 10_000
	AttemptsMax        = 100
	BackoffMsMax       = 3600_000 // an hour
	MultiplierMax      = 10
	TimeoutMsMax       = 24 * 3600_000 // a day: claims of a call live two
	ExpiresMsMax       = 7 * 24 * 3600_000
	StartBeforeMsMax   = 24 * 3600_000
	MaxInFlightMax     = 10_000
	DelayMsMax         = 60_000    // between the chunks of a script
	RetryAfterMsMax    = 3600_000  // of a script's error
	RenderBytesMax     = 256 << 10 // of each text a script's template makes
)
