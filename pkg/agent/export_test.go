package agent

// ReadAgentText reads text as the agent.yaml of a folder with one script and no
// tools, without a disk.
func ReadAgentText(text []byte) (*Definition, error) {
	l := &loader{project: &Project{Groups: map[string]Group{}, Providers: map[string]Provider{"rehearsal": {Kind: ScriptProvider}}}}
	a := &folder{loader: l, dir: "agents/fuzz", sources: map[string]*source{}}
	d := &Definition{ID: "fuzz", Scripts: map[string]Script{"m": {Name: "m", Turns: []Turn{{Text: "hello"}}}}}
	readAgent(a.source(agentFile, text), d, l.project)
	d.fill()
	a.check(d)
	if err := ordered(l.faults); err != nil {
		return nil, err
	}
	return d, nil
}

// Closest is closest, for its own tests.
func Closest(word string, candidates []string) []string { return closest(word, candidates) }
