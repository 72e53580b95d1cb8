package access

import (
	"slices"

	"github.com/crumbmesh/crumbmesh/pkg/crumbs"
	"github.com/crumbmesh/crumbmesh/pkg/mesh"
)

const (
	api = "$JS.API."
	kv  = "$KV."
)

// subjectHooks is where hooks ask (`nats: hook.…`) and services of the group's own
// account answer. It leaves the account only where an operator exports it.
const subjectHooks = "hook.>"

func to(subjects ...string) []Use {
	out := make([]Use, len(subjects))
	for i, s := range subjects {
		out[i] = Use{Subject: s}
	}
	return out
}

func many(subjects ...string) []Use {
	out := to(subjects...)
	for i := range out {
		out[i].Many = true
	}
	return out
}

func from(account string, subjects ...string) []Use {
	out := to(subjects...)
	for i := range out {
		out[i].From = account
	}
	return out
}

func all(lists ...[]Use) (out []Use) {
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// consume is binding to a durable consumer that is there, pulling and settling:
// none of it makes or changes a consumer. The acknowledgements are those of the
// form the server uses by default; the announced second form would match the
// acknowledgements of other consumers too.
func consume(stream, consumer string) []Use {
	of := stream + "." + consumer
	return all(to(api+"CONSUMER.INFO."+of, "$JS.ACK."+of+".>"), many(api+"CONSUMER.MSG.NEXT."+of))
}

// look is reading the last message of each subject that matches, and nothing else.
func look(stream, subject string) []Use { return to(api + "DIRECT.GET." + stream + "." + subject) }

// keep is writing the keys of a bucket that match, and reading them.
func keep(bucket, keys string) []Use {
	return all(to(kv+bucket+"."+keys), look("KV_"+bucket, kv+bucket+"."+keys))
}

// put is storing blobs in an area.
func put(areas ...crumbs.Area) (out []Use) {
	for _, a := range areas {
		out = append(out, all(to(crumbs.BlobFilter(a)), get(a))...)
	}
	return out
}

// get is reading the blobs of an area.
func get(a crumbs.Area) []Use { return look(crumbs.StreamBlobs, crumbs.BlobFilter(a)) }

// giveUp is keeping dead letters of a stream, or of a queue of it.
func giveUp(label string) []Use {
	return all(to("dead."+label+".*.*"), look(crumbs.StreamDead, "dead."+label+".>"))
}

func tools(group string) Role {
	return Role{
		Name: ToolsRole(group), Account: ToolsAccount(group), For: "`crumb toolexec --group " + group + "`, worker binaries",
		Uses: all(consume(crumbs.StreamToolCalls, mesh.GroupConsumer(group)),
			to("tool.result."+group+".*.*", "delta.*.*.tool.partial."+group),
			keep(crumbs.BucketClaims, crumbs.ToolKeys(group)+">"), keep(crumbs.BucketWorkers, crumbs.ToolKeys(group)+">"),
			keep(crumbs.BucketTools, group+".*.*"), look(crumbs.StreamInbox, "tool.result."+group+".*.*"), look(crumbs.StreamDeltas, "delta.*.*.tool.partial."+group),
			get(crumbs.AreaCall(group)), put(crumbs.AreaTool(group), crumbs.AreaLive(group), crumbs.AreaToolFile(group)), get(crumbs.AreaFile),
			giveUp(crumbs.StreamToolCalls+"-"+group)),
		Hears:  []string{crumbs.SubjectCancels},
		Within: []string{subjectHooks},
	}
}

func models(providers []string) Role {
	r := Role{
		Name: RoleModels, Account: AccountModels, For: "`crumb modelgw`",
		Uses: all(to("delta.*.*.text", "delta.*.*.reasoning", "delta.*.*.tool.input", api+"STREAM.MSG.GET.KV_"+crumbs.BucketAgents), look(crumbs.StreamDeltas, "delta.*.*.text"),
			get(crumbs.AreaCore), get(crumbs.AreaFile)),
		Hears: []string{crumbs.SubjectCancels},
	}
	for _, p := range append(slices.Clone(providers), crumbs.ProviderOwn) {
		r.Uses = append(r.Uses, all(consume(crumbs.StreamModelCalls, mesh.ProviderConsumer(p)),
			to("model.result."+p+".*.*"), look(crumbs.StreamInbox, "model.result."+p+".*.*"),
			keep(crumbs.BucketClaims, crumbs.ModelKeys(p)+">"), keep(crumbs.BucketWorkers, crumbs.ModelKeys(p)+">"),
			put(crumbs.AreaModel(p), crumbs.AreaModelFile(p)), giveUp(crumbs.StreamModelCalls+"-"+p))...)
	}
	return r
}

func approvals() Role {
	return Role{
		Name: RoleApprovals, Account: AccountApprovals, For: "`crumb approvals serve`",
		Uses: all(consume(crumbs.StreamCrumbs, mesh.ConsumerApprovals),
			to("approval.decision.*.*", kv+crumbs.BucketApprovals+".>", api+"STREAM.MSG.GET.KV_"+crumbs.BucketApprovals),
			many(api+"DIRECT.GET.KV_"+crumbs.BucketApprovals, api+"DIRECT.GET."+crumbs.StreamCrumbs),
			look(crumbs.StreamInbox, "approval.decision.>"),
			get(crumbs.AreaCrumb), put(crumbs.AreaApproval), giveUp(crumbs.StreamCrumbs)),
		Serves: []string{crumbs.EndpointApprovalsList, crumbs.EndpointApprovalsGet, crumbs.EndpointApprovalsDecide},
	}
}

// follow is reading crumbs and deltas, the large ones too.
func follow() []Use {
	return all(many(api+"DIRECT.GET."+crumbs.StreamCrumbs, api+"DIRECT.GET."+crumbs.StreamDeltas),
		look(crumbs.StreamCrumbs, crumbs.SubjectCrumbs), look(crumbs.StreamDeltas, crumbs.SubjectDeltas),
		get(crumbs.AreaCrumb), get("live"), get(crumbs.AreaFile))
}

// ask is what everybody may ask who has to do with runs.
func ask() []Use {
	return all(to(crumbs.EndpointRunsGet, crumbs.EndpointRunsList, crumbs.EndpointRunsExplain, crumbs.EndpointAgentsList, crumbs.EndpointAgentsGet, crumbs.EndpointToolsList),
		from(AccountApprovals, crumbs.EndpointApprovalsList, crumbs.EndpointApprovalsGet), follow())
}

func heard() []string { return []string{crumbs.SubjectCrumbs, crumbs.SubjectDeltas} }

func client() Role {
	return Role{Name: RoleClient, Account: AccountClients, For: "applications, `crumb run`, `crumb watch`", Hears: heard(),
		Uses: all(ask(), to(crumbs.EndpointRunsStart, crumbs.EndpointRunsCancel, crumbs.SubjectRequests))}
}

func approver() Role {
	return Role{Name: RoleApprover, Account: AccountApprovers, For: "whatever asks people: `crumb approvals approve`", Hears: heard(),
		Uses: all(ask(), from(AccountApprovals, crumbs.EndpointApprovalsDecide))}
}

func operator() Role {
	return Role{Name: RoleOperator, Account: AccountOperators, For: "`crumb agents apply`, `crumb dead`, `crumb runs cancel`", Hears: heard(),
		Uses: all(ask(), to(crumbs.EndpointRunsCancel, crumbs.EndpointAgentsApply, crumbs.EndpointMeshGet,
			crumbs.EndpointDeadList, crumbs.EndpointDeadGet, crumbs.EndpointDeadEdit, crumbs.EndpointDeadRedrive, crumbs.EndpointDeadAnswer, crumbs.EndpointDeadClose,
			api+"INFO", api+"STREAM.INFO.*", api+"STREAM.LIST", api+"STREAM.NAMES", api+"CONSUMER.INFO.*.*", api+"CONSUMER.LIST.*", api+"CONSUMER.NAMES.*"))}
}

func orchestrator() Role {
	uses := to("run.request.*", "run.start.*", "run.control.*", "run.child.*.*", "run.order.*.*", "tool.call.*.*", "model.call.*.*",
		crumbs.SubjectCrumbs, "timer.set.*.*", crumbs.SubjectCancels, crumbs.SubjectDead, crumbs.AllBlobs,
		kv+crumbs.BucketRuns+".>", kv+crumbs.BucketAgents+".>", kv+crumbs.BucketClaims+".>", kv+crumbs.BucketSessions+".>",
		api+"STREAM.INFO.*", api+"STREAM.MSG.GET.*", api+"DIRECT.GET.*", api+"DIRECT.GET.*.>",
		api+"CONSUMER.INFO.*.*", api+"CONSUMER.LIST.*", api+"CONSUMER.NAMES.*",
		"$JS.FC.KV_"+crumbs.BucketTools+".>")
	for _, c := range [][2]string{{crumbs.StreamRequests, mesh.ConsumerRequests}, {crumbs.StreamInbox, mesh.ConsumerEvents}, {crumbs.StreamTimers, mesh.ConsumerTimers}} {
		uses = append(uses, consume(c[0], c[1])...)
	}
	// Queues of what `agents apply` adds, and the sweeping of those.
	for _, s := range []string{crumbs.StreamRequests, crumbs.StreamInbox, crumbs.StreamTimers, crumbs.StreamCrumbs, crumbs.StreamModelCalls, crumbs.StreamToolCalls} {
		uses = append(uses, to(api+"CONSUMER.CREATE."+s+".>")...)
	}
	uses = append(uses, to(api+"STREAM.MSG.DELETE."+crumbs.StreamModelCalls, api+"STREAM.MSG.DELETE."+crumbs.StreamToolCalls)...)
	// Readers of its own: announcements as they come, lists of runs and dead letters.
	for _, s := range []string{"KV_" + crumbs.BucketTools, "KV_" + crumbs.BucketRuns, "KV_" + crumbs.BucketWorkers, crumbs.StreamDead} {
		uses = append(uses, to(api+"CONSUMER.CREATE."+s+".>", api+"CONSUMER.MSG.NEXT."+s+".*", api+"CONSUMER.DELETE."+s+".*")...)
	}
	return Role{Name: RoleOrchestrator, Account: AccountCore, For: "`crumb orchestrator`", Uses: uses,
		Hears: []string{"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>", "dead.*.*.*"},
		Serves: []string{crumbs.EndpointRunsStart, crumbs.EndpointRunsGet, crumbs.EndpointRunsList, crumbs.EndpointRunsExplain, crumbs.EndpointRunsCancel, crumbs.EndpointMeshGet,
			crumbs.EndpointAgentsList, crumbs.EndpointAgentsGet, crumbs.EndpointAgentsApply, crumbs.EndpointToolsList,
			crumbs.EndpointDeadList, crumbs.EndpointDeadGet, crumbs.EndpointDeadEdit, crumbs.EndpointDeadRedrive, crumbs.EndpointDeadAnswer, crumbs.EndpointDeadClose}}
}

func provisioner() Role {
	return Role{Name: RoleProvisioner, Account: AccountCore, For: "`crumb init`, `crumb restore`, and nobody while the mesh runs",
		Uses: to(api+"INFO", api+"STREAM.CREATE.*", api+"STREAM.UPDATE.*", api+"STREAM.DELETE.*", api+"STREAM.INFO.*", api+"STREAM.NAMES", api+"STREAM.LIST",
			api+"CONSUMER.CREATE.>", api+"CONSUMER.INFO.*.*", api+"CONSUMER.LIST.*", api+"CONSUMER.NAMES.*", api+"CONSUMER.DELETE.*.*",
			api+"STREAM.RESTORE.*", "$JS.SNAPSHOT.RESTORE.>")}
}

// backup reads whole streams. It is in the core account, since NATS delivers a
// snapshot in the account of its stream: so whoever has the key can have one
// delivered to any subject of the mesh (docs/security.md). Restoring is not its: it
// makes streams, which only the provisioner may.
func backup() Role {
	return Role{Name: RoleBackup, Account: AccountCore, For: "`nats backup account`",
		Uses: to(api+"INFO", api+"STREAM.INFO.*", api+"STREAM.NAMES", api+"STREAM.LIST", api+"STREAM.SNAPSHOT.*", "$JS.SNAPSHOT.ACK.>")}
}

func system() Role {
	return Role{Name: RoleSystem, Account: AccountSystem, For: "whoever runs the NATS servers (`nats server …`)", System: true}
}
