// Package load measures a server under load. Requests come at random times, as those of many people do,
// whether or not earlier ones have been answered; or a fixed number of clients asks without pause. TestLongOverload
// does so for ten minutes, by hand, and reports what memory the process holds.
//
//	report := load.Open(ctx, load.Target{URL: url, Body: body}, 20, 500, 1) // 20 a second, 500 in all
//	fmt.Println(report)
package load
