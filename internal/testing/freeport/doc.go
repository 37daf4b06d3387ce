// Package freeport finds ports for programs that tests start.
//
//	address := freeport.Free(t) // 127.0.0.1:23456
//
// A test that listens itself lets the kernel choose a port and needs no package for it.
package freeport
