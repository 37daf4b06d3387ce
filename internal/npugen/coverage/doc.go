// Command coverage prints, as Markdown, which operators and functions of CANN the emulator
// implements. It stands beside npugen because it needs the emulator to compile, which the
// generator must not. It runs nothing: whether an operator is right is for its tests.
//
//	go run ./internal/npugen/coverage
package main
