// Package header reads the operators that C headers declare: those of a custom operator package, or of a CANN
// that is newer than the table. It is no C parser: it understands prototypes of functions that return aclnnStatus.
//
//	ops, err := header.Operators(table, os.DirFS(folder), "libcust_opapi")
package header
