// Package replicas serves requests with several engines of one model, each on a device of its own, or on
// several with Options.Tensor.
//
//	set, err := replicas.Open(ctx, rt, []int{0, 1}, load, engine.Options{})
//	defer set.Close()
//	g, err := set.Submit(ctx, engine.Request{Prompt: ids, Sampling: sampling.Options{TopP: 1}})
//	token, err := g.Next()
//
// A request goes to the replica that has the fewest requests. If its device fails for good, or fails the request twice,
// the request continues once on another replica, after the tokens that it has, and its reader notices
// nothing. A replica whose device cannot be opened gets no requests until it is back.
package replicas
