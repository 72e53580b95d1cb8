package check

// Hash is the hash of a document's canonical form.
var Hash = hash
