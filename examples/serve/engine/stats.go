package engine

// Stats are the counts of an engine. Those from PromptTokens on only grow.
type Stats struct {
	Running, Waiting int
	Blocks, Used     int // all blocks, and those that requests read
	Kept             int // blocks that no request reads, but whose tokens later ones may share

	PromptTokens, PrefixHits int // tokens of prompts, and those of them that were found in the cache
	GeneratedTokens          int
	Preemptions              int
	Steps, Faults            int
	Replays                  int // steps that were replays of a graph
	Drafted, Accepted        int // draft tokens, and those of them that were accepted
}

// Stats returns the counts after the last step. Those of a request are in them when its end is seen.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.published
}

// publish makes the counts of the engine's goroutine visible to others.
func (e *Engine) publish() {
	e.stats.Running, e.stats.Waiting = len(e.running), len(e.waiting)
	e.stats.Blocks, e.stats.Used, e.stats.Kept = len(e.blocks.all), e.blocks.used(), e.blocks.idle.Len()
	e.mu.Lock()
	e.published = e.stats
	e.mu.Unlock()
}

// Plus returns the sums of the counts of two engines.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		Running: s.Running + t.Running, Waiting: s.Waiting + t.Waiting, Blocks: s.Blocks + t.Blocks, Used: s.Used + t.Used, Kept: s.Kept + t.Kept,
		PromptTokens: s.PromptTokens + t.PromptTokens, PrefixHits: s.PrefixHits + t.PrefixHits, GeneratedTokens: s.GeneratedTokens + t.GeneratedTokens,
		Preemptions: s.Preemptions + t.Preemptions, Steps: s.Steps + t.Steps, Faults: s.Faults + t.Faults, Replays: s.Replays + t.Replays,
		Drafted: s.Drafted + t.Drafted, Accepted: s.Accepted + t.Accepted,
	}
}
