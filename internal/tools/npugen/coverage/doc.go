// Command coverage prints, as Markdown, which operators and functions of CANN the emulator
// implements. It is separate from npugen because it imports the emulator, which the
// generator must not need. It runs no operator, so it says nothing about their correctness.
//
//	go run ./internal/tools/npugen/coverage
package main
