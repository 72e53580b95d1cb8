package crumbs

// EndpointMeshGet shows what the mesh holds at the moment, to who may not look at
// its buckets. Its request is an empty object.
const EndpointMeshGet = "crumbmesh.mesh.get"

// MeshView answers mesh.get.
type MeshView struct {
	At        Time         `json:"at"`              // of this answer
	Groups    []string     `json:"groups"`          // that the applied project names
	Providers []string     `json:"providers"`       // that the applied agents use
	Tools     []MeshTools  `json:"tools,omitempty"` // of the applied agents, by group
	Workers   []MeshWorker `json:"workers"`
	Queues    []MeshQueue  `json:"queues"`
	Dead      MeshDead     `json:"dead"`
	Signer    *MeshSigner  `json:"signer,omitempty"`  // absent while no approvals service has run
	Refused   []MeshAnswer `json:"refused,omitempty"` // answers whose runs go on waiting
}

// MeshSigner is the key that decisions are signed with.
type MeshSigner struct {
	KeyID     string `json:"kid"`
	Public    string `json:"public"`
	Since     Time   `json:"since"`
	Untrusted bool   `json:"untrusted,omitempty"` // by the orchestrator that answers
}

// MeshAnswer is an answer to a question that is recorded and refused, as the
// orchestrator that says so does not believe its signature.
type MeshAnswer struct {
	CheckpointID CheckpointID `json:"checkpointId"`
	RunID        RunID        `json:"runId"`
	KeyID        string       `json:"kid"`                 // of the key that signed it
	Untrusted    bool         `json:"untrusted,omitempty"` // else the signature is wrong
}

// MeshTools are the tools of one group: what kind of worker it needs, and what is
// not known yet of those.
type MeshTools struct {
	Group   string `json:"group"`
	Exec    int    `json:"exec"`              // commands of the project, which `crumb toolexec` serves
	Worker  int    `json:"worker"`            // tools of a worker of one's own
	Unknown int    `json:"unknown,omitempty"` // of Worker: never announced, so that runs with them fail with TOOL_NOT_FOUND
}

// MeshWorker is a worker that is present.
type MeshWorker struct {
	Worker     string `json:"worker"`
	Service    string `json:"service"` // toolexec, modelgw or starting
	Queue      string `json:"queue"`   // group or provider
	Host       string `json:"host,omitempty"`
	Version    string `json:"version,omitempty"`
	Since      Time   `json:"since"`
	At         Time   `json:"at,omitzero"` // its last heartbeat, by its own clock
	Stored     Time   `json:"stored"`      // … and by the server's
	Violations int64  `json:"violations,omitempty"`
}

// MeshQueue is the oldest message of a consumer that is not done.
type MeshQueue struct {
	Stream   string `json:"stream"`
	Consumer string `json:"consumer"`
	Subject  string `json:"subject"`
	Sequence uint64 `json:"sequence"`
	Stored   Time   `json:"stored"`
}

// MeshDead is what was given up.
type MeshDead struct {
	Letters uint64 `json:"letters"`         // without the notes on them
	Open    uint64 `json:"open,omitempty"`  // of these: nothing was done about them, or only an edit
	Newest  Time   `json:"newest,omitzero"` // when the newest of the open ones was given up
}
