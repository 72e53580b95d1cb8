package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/fault"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

// Level is how bad a finding is.
type Level string

// The levels; only what is broken makes a mesh unhealthy.
const (
	Broken  Level = "broken"  // the mesh does not do its work
	Warning Level = "warning" // it does, and will not for long or not well
	Hint    Level = "hint"
)

// Finding is one thing that was found.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	What    string `json:"what"`
	Why     string `json:"why"`
	Command string `json:"command,omitempty"` // that mends it, or shows more
}

// The checks, in the order they are made.
const (
	CheckServer    = "server"
	CheckJetStream = "jetstream"
	CheckTopology  = "topology"
	CheckStorage   = "storage"
	CheckServices  = "services"
	CheckConsumers = "consumers"
	CheckWorkers   = "workers"
	CheckVersions  = "versions"
	CheckClocks    = "clocks"
	CheckAccess    = "access"
	CheckAnswers   = "answers"
	CheckDead      = "dead letters"
)

// Checks lists all of them.
func Checks() []string {
	return []string{CheckServer, CheckJetStream, CheckTopology, CheckStorage, CheckServices, CheckConsumers, CheckWorkers, CheckVersions, CheckClocks, CheckAccess, CheckAnswers, CheckDead}
}

// Thresholds.
const (
	skewMax      = time.Second      // of two clocks; deadlines and claims are compared over them
	fullShare    = 0.8              // of a stream's or an account's bytes
	serviceAge   = 30 * time.Second // of the oldest message of a service's own consumer
	workersAge   = 5 * time.Minute  // of the oldest call of a group with workers
	deadRecently = 24 * time.Hour
)

// Diagnose judges. No finding that is broken means a healthy mesh.
func Diagnose(f Facts) []Finding {
	d := &diagnosis{Facts: f}
	d.server()
	if !f.Server.JetStream {
		d.add(CheckJetStream, Broken, "JetStream is not enabled for this account", "everything that the mesh keeps is in JetStream", "nats-server -js, or `jetstream: enabled` for the account")
		return d.found
	}
	d.topology()
	d.storage()
	d.services()
	d.consumers()
	d.strays()
	d.workers()
	d.versions()
	d.clocks()
	d.access()
	d.answers()
	d.dead()
	return d.found
}

// Healthy reports whether nothing is broken.
func Healthy(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Broken })
}

type diagnosis struct {
	Facts
	found []Finding
}

func (d *diagnosis) add(check string, level Level, what, why, command string) {
	d.found = append(d.found, Finding{check, level, what, why, command})
}

func (d *diagnosis) server() {
	s := d.Server
	if older(s.Version, mesh.ServerVersionMin) {
		d.add(CheckServer, Broken, fmt.Sprintf("nats-server %s at %s is older than %s", s.Version, s.URL, mesh.ServerVersionMin),
			"older servers lose messages that the mesh relies on (message schedules, TTLs, max-deliver bookkeeping)", "install nats-server "+mesh.ServerVersionMin+" or newer")
	}
	if s.JetStream {
		d.add(CheckServer, Hint, "what `sync_interval` is cannot be seen from here", "by default NATS writes to the disk every 2 minutes: an acknowledged message survives the end of a process, not the loss of power. Set `sync_interval: always` in the jetstream block of nats-server; well is what says \"sync_always\": true", syncCommand)
	}
}

// older compares versions by their numbers; what is no version is not older.
func older(have, least string) bool {
	number := func(v string) (out [3]int, ok bool) {
		v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
		for i, part := range strings.SplitN(v, ".", 3) {
			n, err := strconv.Atoi(part)
			if err != nil {
				return out, false
			}
			out[i] = n
		}
		return out, true
	}
	h, ok := number(have)
	l, okLeast := number(least)
	if !ok || !okLeast {
		return false
	}
	return slices.Compare(h[:], l[:]) < 0
}

const initCommand = "crumb init"

// syncCommand shows what the server really does; of its protocol it does not say.
const syncCommand = "curl -s http://NATS-SERVER:8222/varz | grep sync_   (each server, at its monitoring port)"

func (d *diagnosis) topology() {
	for _, what := range []string{"streams", "streams and consumers", "consumers", "sizes of streams", "ends of streams", "subjects of calls"} {
		if e := d.because(what); e != nil {
			d.add(CheckTopology, Broken, fmt.Sprintf("%s cannot be read: %s", what, e.Message), "NATS does not answer, has no leader for them, or this role may not ask", "nats server report jetstream")
		}
	}
	if len(d.Streams) == 0 && len(d.Drift) > 0 && d.because("sizes of streams") == nil {
		d.add(CheckTopology, Broken, "there is no mesh on this server: none of its streams is there", "what is sent there is refused; but a mesh that had no accounts until now is still in the account $G, and a new one would be a second, empty one", "a new mesh: crumb init. One that got accounts: do not; restore it into them (docs/operations.md, \"Accounts for a mesh that has none\")")
		return
	}
	late := map[string][]string{} // streams by what is behind of them
	for _, one := range d.Drift {
		if one.Behind != "" {
			late[one.Behind] = append(late[one.Behind], strings.TrimPrefix(one.What, "stream "))
			continue
		}
		if one.Missing {
			d.add(CheckTopology, Broken, one.What+" is missing", missingMeans(one.What), repair(one.What))
			continue
		}
		d.add(CheckTopology, Warning, fmt.Sprintf("%s is not as this release makes it: %s", one.What, strings.Join(one.Differs, "; ")),
			"somebody changed it by hand, or another release made it", repair(one.What))
	}
	for _, why := range slices.Sorted(maps.Keys(late)) {
		d.add(CheckTopology, Warning, why+": "+strings.Join(late[why], ", "), "readers that it answers may not see what is stored, and the loss of one more server may stop or lose the stream; after a start or a restore that is usual for a moment",
			"crumb doctor, again in a minute; then look at that server, or why the stream has no leader: nats stream info "+late[why][0])
	}
	for _, s := range d.Streams {
		if s.Name == crumbs.StreamInbox && d.Server.Cluster != "" && s.Replicas < 2 {
			d.add(CheckTopology, Warning, "the streams have one replica on a cluster ("+d.Server.Cluster+")", "the loss of one server takes the mesh with it", "crumb init --replicas 3")
		}
	}
}

func missingMeans(what string) string {
	switch {
	case strings.HasSuffix(what, crumbs.StreamDeltas):
		return "live text is lost; it is kept in memory, and a server that restarts alone forgets it"
	case strings.HasPrefix(what, "consumer"):
		return "nobody takes what is meant for it"
	}
	return "what is sent there is refused"
}

// repair is the command that makes a stream or a consumer.
func repair(what string) string {
	name := strings.Fields(what)[1]
	service, queue, ok := mesh.QueueOf(name)
	switch {
	case ok && service == mesh.ServiceTools:
		return initCommand + " --group " + queue
	case ok && queue != crumbs.ProviderOwn:
		return initCommand + " --provider " + queue
	}
	return initCommand
}

func (d *diagnosis) storage() {
	for _, s := range d.Streams {
		if s.Limit <= 0 || float64(s.Bytes) < fullShare*float64(s.Limit) {
			continue
		}
		what := fmt.Sprintf("%s holds %d MiB of %d", s.Name, s.Bytes>>20, s.Limit>>20)
		switch s.Name {
		case crumbs.StreamInbox:
			d.add(CheckStorage, Broken, what, "answers to accepted work come there; when it is full, results are not stored and calls end as lost", "crumb init --size standard, or see why the orchestrator does not take them")
		case crumbs.StreamCrumbs, crumbs.StreamDeltas, crumbs.StreamDead:
			d.add(CheckStorage, Hint, what, "when it is full its oldest messages go", "")
		default:
			d.add(CheckStorage, Warning, what, "when it is full the mesh refuses new work (QUEUE_FULL)", "start more workers, or crumb init --size standard")
		}
	}
	if a := d.Server; a.StoredMax > 0 && float64(a.Stored) > fullShare*float64(a.StoredMax) {
		d.add(CheckStorage, Warning, fmt.Sprintf("the account stores %d MiB of %d", a.Stored>>20, a.StoredMax>>20), "a full account refuses every message, answers too", "raise max_file_store of the account")
	}
}

func (d *diagnosis) services() {
	for service, why := range map[string]string{"orchestrator": "no run moves", "approvals": "nobody can answer a question"} {
		if d.silent(service) {
			reason := ""
			if e := d.because("service " + service); e != nil {
				reason = ": " + e.Message
			}
			d.add(CheckServices, Broken, "no "+service+" answers"+reason, why, "crumb "+service)
		}
	}
	for _, p := range d.Pings {
		if p.Problem == nil {
			continue
		}
		command := "look at /readyz and the log of that process"
		if p.Problem.Code == fault.StateTooNew {
			command = "upgrade that process"
		}
		d.add(CheckServices, Broken, fmt.Sprintf("%s %.8s says why it does not serve: %s: %s", p.Service, p.Instance, p.Problem.Code, p.Problem.Message), "what it has in hand waits", command)
	}
	if e := d.because("the orchestrator's view"); e != nil && !d.silent("orchestrator") {
		d.add(CheckServices, Warning, "the orchestrator does not say what the mesh holds: "+e.Message, "workers, ages and dead letters are not checked", "")
	}
	slices.SortStableFunc(d.found, func(a, b Finding) int { return slices.Index(Checks(), a.Check) - slices.Index(Checks(), b.Check) })
}

// serverOf is the command that serves a consumer, or whose worker does.
func (d *diagnosis) serverOf(consumer string) string {
	service, queue, ok := mesh.QueueOf(consumer)
	switch {
	case ok && service == mesh.ServiceTools:
		return d.workerOf(queue)
	case queue == crumbs.ProviderOwn:
		return "crumb modelgw"
	case ok:
		return "crumb modelgw --provider " + queue
	case consumer == mesh.ConsumerApprovals:
		return "crumb approvals"
	}
	return "crumb orchestrator"
}

// workerOf is what serves a group, by the kinds of its tools.
func (d *diagnosis) workerOf(group string) string {
	toolexec, own := "crumb toolexec --group "+group+" --dir DIR", "start your worker of group "+group
	switch t := d.tools(group); {
	case t.Exec > 0 && t.Worker > 0:
		return toolexec + ", and " + own
	case t.Exec > 0:
		return toolexec
	case t.Worker > 0:
		return own
	}
	return own + ", or, if its tools are commands of the project, " + toolexec
}

// tools are those of a group that applied agents have.
func (d *diagnosis) tools(group string) crumbs.MeshTools {
	if d.View != nil {
		for _, t := range d.View.Tools {
			if t.Group == group {
				return t
			}
		}
	}
	return crumbs.MeshTools{Group: group}
}

func (d *diagnosis) consumers() {
	for _, l := range d.Loads {
		at := fmt.Sprintf("consumer %s of %s", l.Consumer, l.Stream)
		_, _, ofWorkers := mesh.QueueOf(l.Consumer)
		oldest, known := d.oldest(l)
		age := d.Now.Sub(oldest.Stored.Time).Round(time.Second)
		switch last, ok := d.Last[l.Stream]; {
		case ok && l.AckFloor > last:
			d.add(CheckConsumers, Broken, fmt.Sprintf("%s is settled up to %d, the stream ends at %d", at, l.AckFloor, last), "the stream lost messages that its consumer saw; the consumer gives out nothing until the stream is there again",
				"nats consumer rm "+l.Stream+" "+l.Consumer+", then "+repair("consumer "+l.Consumer))
		case unasked(l):
			d.add(CheckConsumers, Broken, fmt.Sprintf("%s has %d messages and nobody asks for them", at, l.Pending), "they wait until somebody does"+forAge(known, age), d.serverOf(l.Consumer))
		case l.Pending > 0 && l.InHand >= l.MaxInHand && l.MaxInHand > 0:
			d.add(CheckConsumers, Warning, fmt.Sprintf("%s has as many messages in hand as it may (%d), and %d wait", at, l.MaxInHand, l.Pending), "more workers do not help: the limit is the queue's", repair("consumer "+l.Consumer)+"=MAX")
		case known && ofWorkers && l.Pending == 0 && l.InHand == 0:
			d.add(CheckConsumers, Warning, fmt.Sprintf("%s gave up a message below its ack floor (%s, sequence %d, %s old)", at, oldest.Subject, oldest.Sequence, age), "it was delivered as often as it may be; the orchestrator moves such messages to the dead letters", "crumb dead list")
		case known && !ofWorkers && age > serviceAge || known && age > workersAge && l.Pending > 0:
			d.add(CheckConsumers, Warning, fmt.Sprintf("%s: the oldest message (%s) is %s old", at, oldest.Subject, age), "it is taken more slowly than it fills, or one message is given back again and again", d.serverOf(l.Consumer))
		}
	}
}

// strays are calls that no consumer takes: the orchestrators make dead letters of
// them, and who knows better makes their queue.
func (d *diagnosis) strays() {
	for _, s := range d.Strays {
		command := "crumb dead list"
		if mesh.IsQueue(s.Filter) {
			flag := " --group "
			if s.Stream == crumbs.StreamModelCalls {
				flag = " --provider "
			}
			command += "; if the queue is meant to be there: " + initCommand + flag + crumbs.Token(s.Filter, 2)
		}
		d.add(CheckConsumers, Warning, fmt.Sprintf("%d messages of %s stand on %s, which no consumer takes", s.Messages, s.Stream, s.Filter),
			"somebody published them by mistake, or their queue was removed; after a minute the orchestrators make dead letters of them and tell the runs that wait for them", command)
	}
}

func forAge(known bool, age time.Duration) string {
	if !known {
		return ""
	}
	return fmt.Sprintf("; the oldest for %s", age)
}

func (d *diagnosis) oldest(l mesh.Load) (crumbs.MeshQueue, bool) {
	if d.View == nil {
		return crumbs.MeshQueue{}, false
	}
	for _, q := range d.View.Queues {
		if q.Stream == l.Stream && q.Consumer == l.Consumer {
			return q, true
		}
	}
	return crumbs.MeshQueue{}, false
}

func (d *diagnosis) workers() {
	if d.View == nil {
		d.add(CheckWorkers, Hint, "not checked, nor are the ages of messages", "the orchestrator reads them for this command", "crumb orchestrator")
		return
	}
	for _, l := range d.Loads {
		service, queue, ok := mesh.QueueOf(l.Consumer)
		if !ok || slices.ContainsFunc(d.View.Workers, func(w crumbs.MeshWorker) bool { return w.Service == service && w.Queue == queue }) {
			continue
		}
		kind := "group"
		if service == mesh.ServiceModels {
			kind = "provider"
		}
		waits := l.Pending + uint64(l.InHand)
		if waits > 0 {
			d.add(CheckWorkers, Broken, fmt.Sprintf("%s %s has %d calls and no live worker", kind, queue, waits), "each call ends at its deadline if nobody starts it", d.serverOf(l.Consumer))
			continue
		}
		if unknown := d.tools(queue).Unknown; unknown > 0 && service == mesh.ServiceTools {
			d.add(CheckWorkers, Warning, fmt.Sprintf("group %s has no worker, and %d of its tools were never announced", queue, unknown), "runs of agents with these tools fail at once with TOOL_NOT_FOUND: a group must have run once before its calls can wait for it", d.serverOf(l.Consumer))
			continue
		}
		if slices.Contains(d.View.Groups, queue) || slices.Contains(d.View.Providers, queue) {
			d.add(CheckWorkers, Hint, fmt.Sprintf("%s %s has no worker, and no call waits", kind, queue), "its first call waits until one starts; right for a group that is scaled to zero", d.serverOf(l.Consumer))
		}
	}
}

func (d *diagnosis) versions() {
	of := map[string][]string{}
	note := func(version, who string) {
		if version == "" {
			version = "unknown"
		}
		of[version] = append(of[version], who)
	}
	for _, p := range d.Pings {
		note(p.Version, p.Service)
	}
	if d.View != nil {
		for _, w := range d.View.Workers {
			note(w.Version, w.Service+" "+w.Queue)
		}
	}
	if len(of) > 1 {
		var all []string
		for version, who := range of {
			slices.Sort(who)
			all = append(all, fmt.Sprintf("%s (%s)", version, strings.Join(slices.Compact(who), ", ")))
		}
		slices.Sort(all)
		d.add(CheckVersions, Warning, "several releases run: "+strings.Join(all, "; "), "a release reads what the one before it wrote, not more: finish the rollout", "")
	}
	if _, same := of[d.Release]; len(of) == 1 && !same {
		for version := range of {
			d.add(CheckVersions, Hint, fmt.Sprintf("this command is %s, the mesh %s", d.Release, version), "it may ask for what the mesh does not have", "")
		}
	}
}

func (d *diagnosis) clocks() {
	skewed := func(who string, by time.Duration) {
		if by.Abs() <= skewMax {
			return
		}
		side := "ahead of"
		if by < 0 {
			side = "behind"
		}
		d.add(CheckClocks, Warning, fmt.Sprintf("the clock of %s is %s %s the server's", who, by.Abs().Round(time.Millisecond), side), "deadlines, claims and the presence of workers are compared over clocks: calls may end too early, or workers seem gone", "timedatectl timesync-status   (on that machine)")
	}
	if d.Server.ClockRead {
		skewed("this machine", -d.Server.Ahead)
		for _, p := range d.Pings {
			skewed(p.Service, p.Ahead-d.Server.Ahead)
		}
	}
	if d.View == nil {
		return
	}
	for _, w := range d.View.Workers {
		if !w.At.IsZero() {
			skewed("worker "+w.Worker, w.At.Sub(w.Stored.Time))
		}
	}
}

func (d *diagnosis) access() {
	refused := func(who string, n int64) {
		if n > 0 {
			d.add(CheckAccess, Broken, fmt.Sprintf("NATS refused %s %d operations", who, n), "its role lacks a permission that this release needs, or somebody else uses its credentials", "look at /readyz of that process for what was refused")
		}
	}
	for _, p := range d.Pings {
		refused(p.Service, p.Violations)
	}
	if d.View == nil {
		return
	}
	for _, w := range d.View.Workers {
		refused("worker "+w.Worker, w.Violations)
	}
}

// answersNamed bounds the questions that one finding names.
const answersNamed = 5

// answers says which answers of people are not believed, and before there is one that
// the next would not be.
func (d *diagnosis) answers() {
	if d.View == nil {
		d.add(CheckAnswers, Hint, "not checked", "the orchestrator verifies them for this command", "crumb orchestrator")
		return
	}
	const trust = "put it into CRUMB_APPROVALS_PUBKEY (--approvals-pubkey) of every orchestrator and worker, and restart them"
	if s := d.View.Signer; s != nil && s.Untrusted {
		d.add(CheckAnswers, Broken, fmt.Sprintf("the orchestrator does not trust the key that answers are signed with: kid %s, public key %s, since %s", s.KeyID, s.Public, s.Since.UTC().Format(time.RFC3339)),
			"what people answer is refused, and the runs go on waiting; if that key is not yours, see who runs the approvals service", trust)
	}
	of := map[string][]string{} // questions by what is wrong
	for _, a := range d.View.Refused {
		what := "not what key " + a.KeyID + " signed: changed or forged"
		if a.Untrusted {
			what = "signed with a key that nobody here trusts (kid " + a.KeyID + ")"
		}
		of[what] = append(of[what], string(a.CheckpointID))
	}
	for _, what := range slices.Sorted(maps.Keys(of)) {
		all := of[what]
		named := strings.Join(all[:min(len(all), answersNamed)], ", ")
		if len(all) > answersNamed {
			named += ", …"
		}
		d.add(CheckAnswers, Broken, fmt.Sprintf("%d questions are decided, %s: %s", len(all), what, named),
			"they are not applied, and their runs go on waiting, until they expire", "crumb explain "+string(crumbs.CheckpointID(all[0]).Run()))
	}
}

func (d *diagnosis) dead() {
	if d.View == nil {
		d.add(CheckDead, Hint, "not checked", "the orchestrator reads them for this command", "crumb orchestrator")
		return
	}
	if d.View.Dead.Open == 0 {
		return
	}
	level, newest := Hint, d.Now.Sub(d.View.Dead.Newest.Time)
	if newest < deadRecently {
		level = Warning
	}
	d.add(CheckDead, level, fmt.Sprintf("%d of %d dead letters are open, the newest of them is %s old", d.View.Dead.Open, d.View.Dead.Letters, newest.Round(time.Second)),
		"each is a message that was given up, and nobody did anything about it", "crumb dead list, then crumb dead redrive, answer, or close ID --reason TEXT")
}
