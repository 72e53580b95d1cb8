package search

// graph is a list of edges between numbered nodes.
type graph struct{ from, to []int32 }

func (g *graph) add(from, to int32) {
	g.from, g.to = append(g.from, from), append(g.to, to)
}

// reaching returns, for each node, whether a path leads from it to one of goals.
func (g *graph) reaching(goals []bool) []bool {
	start, sources := g.reversed(len(goals))
	reached := make([]bool, len(goals))
	var open []int32
	for i, goal := range goals {
		if goal {
			reached[i] = true
			open = append(open, int32(i))
		}
	}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, source := range sources[start[at]:start[at+1]] {
			if !reached[source] {
				reached[source] = true
				open = append(open, source)
			}
		}
	}
	return reached
}

// reversed returns the sources of all edges, grouped by target: those of node n
// are sources[start[n]:start[n+1]].
func (g *graph) reversed(nodes int) (start, sources []int32) {
	start = make([]int32, nodes+1)
	for _, to := range g.to {
		start[to+1]++
	}
	for i := range nodes {
		start[i+1] += start[i]
	}
	sources = make([]int32, len(g.to))
	next := append([]int32(nil), start...)
	for i, to := range g.to {
		sources[next[to]] = g.from[i]
		next[to]++
	}
	return start, sources
}
