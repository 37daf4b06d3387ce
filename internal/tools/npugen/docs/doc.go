// Package docs knows what is known about operators beyond their signatures: a summary, the vendor's page,
// the shapes of tensors and the meanings of values. The generator writes it into comments and lists; no
// program needs it, so it is no part of the library.
//
//	table, err := abi.Load()
//	known, err := docs.Load(table)
//	summary := known.Of("Add").Summary
package docs
