package crumbs

import "strconv"

// Area is a part of the blobs: who may write there and who may read
// (docs/security.md). A reader knows the area from the message that
// names a blob, never from the name, which the message's author chose.
type Area string

// The areas that are not a queue's own.
const (
	AreaCore     Area = "core"     // of the orchestrator: values of records, segments of transcripts, model calls
	AreaCrumb    Area = "crumb"    // of the orchestrator, for everybody who follows: bodies of crumbs
	AreaApproval Area = "approval" // of approvals: questions that a row cannot hold
)

// AllBlobs matches every blob: the subjects of stream BLOBS.
const AllBlobs = "blob.>"

// AreaCall is for the workers of a group: bodies of their calls.
func AreaCall(group string) Area { return Area("call." + group) }

// AreaTool is of the workers of a group: bodies of results.
func AreaTool(group string) Area { return Area("tool." + group) }

// AreaLive is of the workers of a group, for everybody who follows: partial results.
func AreaLive(group string) Area { return Area("live." + group) }

// AreaModel is of the gateways of a provider instance: bodies of results.
func AreaModel(provider string) Area { return Area("model." + provider) }

// BlobSubject is where piece n of a blob stands; digest is the SHA-256 of the
// whole in hex.
func BlobSubject(area Area, run RunID, digest string, n int) string {
	return "blob." + string(area) + "." + string(run) + "." + digest + "." + strconv.Itoa(n)
}

// BlobFilter matches all blobs of an area.
func BlobFilter(area Area) string { return "blob." + string(area) + ".>" }
