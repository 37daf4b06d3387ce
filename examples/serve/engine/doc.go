// Package engine generates text for many requests at once with a model of examples/model.
//
//	e, err := engine.Open(ctx, rt, 0, load, engine.Options{Blocks: 1024})
//	defer e.Close()
//	g, err := e.Submit(ctx, engine.Request{Prompt: ids, MaxTokens: 100, Sampling: sampling.Options{TopP: 1}})
//	for {
//		token, err := g.Next()
//		if err == io.EOF {
//			break // g.Reason() has the reason
//		}
//		…
//	}
//
// One goroutine owns the device. It works in steps: a step is one pass of the model over the next tokens
// of all running requests, one token for those that generate and a chunk for those whose prompt is being
// read. Requests join and leave between steps. The context of a request ends it: its memory is free
// after the step.
//
// Keys and values are in blocks. Requests that begin with the same tokens share blocks; a block that is
// shared in part is copied. When blocks run out, the newest request is preempted, and reads its
// tokens again later. Models with delta nets share nothing, because their states cannot be cut.
//
// Requests may name an adapter (LoRA). Those of all requests are computed together, over one copy of the model;
// adapters come and go between steps.
//
// With Options.Speculate a step also reads draft tokens from the text so far (speculative decoding), or where the text has none one that
// a layer of the model predicts (multi-token prediction), if it has such a layer (model.Config.Predict). A token is
// drawn after each draft token as without drafts, so that texts stay the same.
//
// Request.Grammar restricts the tokens that may come next, such as those of JSON in package schema.
//
// Options.Tensor devices can share each layer, and the experts. With Options.Group they are devices of several
// processes: the first has the engine, and the others Follow it.
//
// With Options.Graph steps in which all requests generate are replays of graphs, which the host queues with one call.
//
// After a failure of the device, the requests of the failed step are computed again, once. A device that
// cannot go on is closed and opened again, and so are all that share the layers when one of them fails. When another
// process fails or ends, the engine ends with ErrRank at once, whether or not requests run, and all processes have to be
// started again.
//
// Models that do not generate, encoders and classifiers, have Embed or Score alone, for one text at a time.
//
// The package works on tokens, not on text; Stops handles stop strings.
package engine
