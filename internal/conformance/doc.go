// Conformance compiles and runs what CANN publishes for its operators, unit tests of phase one and
// example programs, with the emulator's SDK, and writes a report: by operator the cases that
// passed, the programs that ran, and the element types that the survey of package optest confirmed.
//
//	make conformance SOURCES=folder
//
// The folder has checkouts of hicann's ops-math, ops-nn, ops-transformer and ops-cv. g++ and gtest
// (libgtest-dev) must be there. What was compiled and found is kept in build/conformance, and a part
// can be tried again alone:
//
//	go run ./internal/conformance -sources folder -kind cases -only ops-math/math/abs
//
// The tests are compiled with cases/standin.h in place of the vendor's test framework. reasons.txt
// explains what does not pass; the report groups it by these reasons.
//
// To compile all of it takes two hours of a core. A machine with more of them, even without Go, can
// run a binary of this program with the SDK and the sources, and the report is written here:
//
//	conformance -sources folder -sdk folder -commit COMMIT -results results.json
//	go run ./internal/conformance -results results.json -report testdata/conformance.md
package main
