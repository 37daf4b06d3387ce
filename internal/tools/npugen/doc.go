// Npugen generates code from the table of CANN's C interface (package abi).
//
//	make generate                        # every zz_ file of the project, from the table
//	go run ./internal/tools/npugen -check      # fails and lists the files that are stale
//	go run ./internal/tools/npugen releases …                   # which release each function came with, from its sources
//	go run ./internal/tools/npugen headers -release 9.0.0 -out dir … # the headers that a release installs, from its sources
//	go run ./internal/tools/npugen types 9.0.0=dir …                 # what those headers declare and the table lacks
//	go run ./internal/tools/npugen sdk -out include             # CANN's headers, for C and C++
//	go run ./internal/tools/npugen pages owner/repository=dir   # the operators' public pages, with chips and types
//	go run ./internal/tools/npugen aicore owner/repository=dir  # find what leaves the AI Core
//
// The element types in the comments of operators and in the operators' list come from the lists that
// the emulator's tests generate, which go generate runs before.
//
// It contains no facts about CANN: signatures, values and layouts come from the table, and
// behaviour is written by hand in the packages that use the generated files.
package main

//go:generate go run .
