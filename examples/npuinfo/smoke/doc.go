// Package smoke tries an accelerator on its first day: every kernel of package ops against reference
// data, in bfloat16 and float32, the costs of launches and copies, and the collectives over all
// devices. Before it runs them, it reports which of a toolkit's kernels will be refused, or will run on
// the AI CPU.
//
//	toolkit, err := smoke.ReadToolkit(smoke.OperatorFolders(), rt.SoC())
//	foreseen := smoke.Foresee(toolkit)
//	report := smoke.Run(ctx, smoke.Config{Golden: dir, Spawn: smoke.Myself("-part")})
//
// Each part runs in a process of its own, because a kernel may hang or end the process: the rest is
// then tried without it. Package main of npuinfo writes the report. A program
// whose device is known to work does not need it.
package smoke
