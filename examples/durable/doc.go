// Package durable writes files completely or not at all: when a program is killed while it writes, the earlier
// file stays.
//
//	err := durable.Write("run/config.json", bytes.NewReader(text))
package durable
