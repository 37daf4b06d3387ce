// Npugen makes code from the table of CANN's C interface (package abi) and from C headers.
//
//	go generate ./...                    # every zz_ file of the project, from the table
//	go run ./internal/npugen -check      # fails and lists the files that are stale
//	go run ./internal/npugen import a.json b.json        # rebuild the table from dumps of headers
//	go run ./internal/npugen bind -headers dir -package myops -out myops/zz_myops.go
//	go run ./internal/npugen sdk -out include             # CANN's headers, for C and C++
//
// It holds no facts: signatures, values and layouts come from the table, behaviour is
// written by hand in the packages that use the generated files.
package main

//go:generate go run .
